//! From drawing operations to lines of text. What stands on another height is another line; what stands apart on the same
//! height is another word.

use super::font::Font;
use lopdf::Object;
use std::collections::BTreeMap;

type Matrix = [f32; 6];

const IDENTITY: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
/// Saved states of a page.
const MAX_SAVED: usize = 512;
/// A gap of this part of the font's size is a space.
const SPACE: f32 = 0.2;
/// A step of this part of the font's size is another line.
const LINE: f32 = 0.4;

pub(super) struct Layout<'f, 'd> {
    fonts: &'f BTreeMap<Vec<u8>, Font<'d>>,
    text: String,
    undecoded: bool,
    page: Matrix,
    saved: Vec<Matrix>,
    font: Option<&'f Font<'d>>,
    size: f32,
    leading: f32,
    /// Where the line begins, and where the next character goes.
    line: Matrix,
    cursor: Matrix,
    /// Where the last character ended, on the page.
    ended: Option<(f32, f32)>,
}

impl<'f, 'd> Layout<'f, 'd> {
    pub(super) fn new(fonts: &'f BTreeMap<Vec<u8>, Font<'d>>) -> Self {
        Self {
            fonts,
            text: String::new(),
            undecoded: false,
            page: IDENTITY,
            saved: Vec::new(),
            font: None,
            size: 1.0,
            leading: 0.0,
            line: IDENTITY,
            cursor: IDENTITY,
            ended: None,
        }
    }

    /// There was text that could not be decoded.
    pub(super) fn undecoded(&self) -> bool {
        self.undecoded
    }

    /// Lines without blanks at their ends.
    pub(super) fn text(self) -> String {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn apply(&mut self, operator: &str, operands: &[Object]) {
        let number = |index: usize| operands.get(index).and_then(|operand| operand.as_float().ok()).unwrap_or(0.0);
        let matrix = || [0, 1, 2, 3, 4, 5].map(number);
        match operator {
            "q" if self.saved.len() < MAX_SAVED => self.saved.push(self.page),
            "Q" => self.page = self.saved.pop().unwrap_or(self.page),
            "cm" => self.page = multiplied(matrix(), self.page),
            "BT" => self.begin(IDENTITY),
            "Tf" => {
                self.font = operands.first().and_then(|name| self.fonts.get(name.as_name().ok()?));
                self.size = number(1);
            }
            "TL" => self.leading = number(0),
            "Tm" => self.begin(matrix()),
            "Td" => self.go(number(0), number(1)),
            "TD" => {
                self.leading = -number(1);
                self.go(number(0), number(1));
            }
            "T*" => self.go(0.0, -self.leading),
            "Tj" => self.show(operands.first()),
            "'" => {
                self.go(0.0, -self.leading);
                self.show(operands.first());
            }
            "\"" => {
                self.go(0.0, -self.leading);
                self.show(operands.get(2));
            }
            "TJ" => {
                for part in operands.first().and_then(|parts| parts.as_array().ok()).into_iter().flatten() {
                    match part.as_float() {
                        Ok(back) => self.advance(-back / 1000.0),
                        Err(_) => self.show(Some(part)),
                    }
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, matrix: Matrix) {
        (self.line, self.cursor) = (matrix, matrix);
    }

    fn go(&mut self, right: f32, up: f32) {
        self.begin(multiplied([1.0, 0.0, 0.0, 1.0, right, up], self.line));
    }

    fn advance(&mut self, ems: f32) {
        self.cursor = multiplied([1.0, 0.0, 0.0, 1.0, ems * self.size, 0.0], self.cursor);
    }

    fn show(&mut self, codes: Option<&Object>) {
        let Some(codes) = codes.and_then(|codes| codes.as_str().ok()) else {
            return;
        };
        let Some((font, text)) = self.font.and_then(|font| Some((font, font.decode(codes)?))) else {
            self.undecoded = true;
            return;
        };
        self.separate();
        let readable = |character: &char| !character.is_control() || character.is_whitespace();
        self.text.extend(text.chars().filter(readable).map(
            |character| {
                if character.is_whitespace() { ' ' } else { character }
            },
        ));
        self.advance(font.width(codes));
        let place = multiplied(self.cursor, self.page);
        self.ended = Some((place[4], place[5]));
    }

    /// Puts what lies between the last character and the next: nothing, a space, a new line.
    fn separate(&mut self) {
        let Some((x, y)) = self.ended else {
            return;
        };
        let [a, b, _, _, next_x, next_y] = multiplied(self.cursor, self.page);
        let scale = a.hypot(b);
        let em = (scale * self.size).abs();
        // Along the line that the text runs on, and across it; text may run in any direction.
        let (dx, dy) = (next_x - x, next_y - y);
        let (along, across) = ((dx * a + dy * b) / scale, (dy * a - dx * b) / scale);
        if across.abs() > LINE * em {
            self.text.push('\n');
        } else if along.abs() > SPACE * em && !self.text.ends_with([' ', '\n']) {
            self.text.push(' ');
        }
    }
}

/// First `a`, then `b`.
fn multiplied(a: Matrix, b: Matrix) -> Matrix {
    [
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
        a[4] * b[0] + a[5] * b[2] + b[4],
        a[4] * b[1] + a[5] * b[3] + b[5],
    ]
}
