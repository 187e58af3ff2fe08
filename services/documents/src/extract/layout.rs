//! Converts drawing operations to lines of text. A change of the baseline starts a new line; a gap on the same baseline
//! starts a new word.

use super::font::Font;
use lopdf::Object;
use std::collections::BTreeMap;

type Matrix = [f32; 6];

const IDENTITY: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
/// The depth of nested graphics states; deeper ones are not saved.
const MAX_SAVED: usize = 512;
/// A gap of this fraction of the font's size is a space.
const SPACE: f32 = 0.2;
/// A vertical offset of this fraction of the font's size is a new line.
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
    /// Where the line starts, and where the next character goes.
    line: Matrix,
    cursor: Matrix,
    /// Where the last character ended, on the page.
    last_end: Option<(f32, f32)>,
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
            last_end: None,
        }
    }

    /// Returns whether some text could not be decoded.
    pub(super) fn has_undecoded(&self) -> bool {
        self.undecoded
    }

    /// Returns the text with trimmed lines and without empty ones.
    pub(super) fn into_text(self) -> String {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn apply(&mut self, operator: &str, operands: &[Object]) {
        let number = |index: usize| operands.get(index).and_then(|operand| operand.as_float().ok()).unwrap_or(0.0);
        let matrix = || [0, 1, 2, 3, 4, 5].map(number);
        match operator {
            "q" if self.saved.len() < MAX_SAVED => self.saved.push(self.page),
            "Q" => self.page = self.saved.pop().unwrap_or(self.page),
            "cm" => self.page = multiply(matrix(), self.page),
            "BT" => self.set_line(IDENTITY),
            "Tf" => {
                self.font = operands.first().and_then(|name| self.fonts.get(name.as_name().ok()?));
                self.size = number(1);
            }
            "TL" => self.leading = number(0),
            "Tm" => self.set_line(matrix()),
            "Td" => self.move_line(number(0), number(1)),
            "TD" => {
                self.leading = -number(1);
                self.move_line(number(0), number(1));
            }
            "T*" => self.move_line(0.0, -self.leading),
            "Tj" => self.show(operands.first()),
            "'" => {
                self.move_line(0.0, -self.leading);
                self.show(operands.first());
            }
            "\"" => {
                self.move_line(0.0, -self.leading);
                self.show(operands.get(2));
            }
            "TJ" => {
                for part in operands.first().and_then(|parts| parts.as_array().ok()).into_iter().flatten() {
                    match part.as_float() {
                        Ok(adjustment) => self.advance(-adjustment / 1000.0),
                        Err(_) => self.show(Some(part)),
                    }
                }
            }
            _ => {}
        }
    }

    fn set_line(&mut self, matrix: Matrix) {
        (self.line, self.cursor) = (matrix, matrix);
    }

    fn move_line(&mut self, right: f32, up: f32) {
        self.set_line(multiply([1.0, 0.0, 0.0, 1.0, right, up], self.line));
    }

    fn advance(&mut self, ems: f32) {
        self.cursor = multiply([1.0, 0.0, 0.0, 1.0, ems * self.size, 0.0], self.cursor);
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
        let end = multiply(self.cursor, self.page);
        self.last_end = Some((end[4], end[5]));
    }

    /// Appends the separator between the last character and the next: nothing, a space or a new line.
    fn separate(&mut self) {
        let Some((x, y)) = self.last_end else {
            return;
        };
        let [a, b, _, _, next_x, next_y] = multiply(self.cursor, self.page);
        let scale = a.hypot(b);
        let em = (scale * self.size).abs();
        // The offset along the text's direction and across it; text may run in any direction.
        let (dx, dy) = (next_x - x, next_y - y);
        let (along, across) = ((dx * a + dy * b) / scale, (dy * a - dx * b) / scale);
        if across.abs() > LINE * em {
            self.text.push('\n');
        } else if along.abs() > SPACE * em && !self.text.ends_with([' ', '\n']) {
            self.text.push(' ');
        }
    }
}

/// Returns the transformation that applies `a`, then `b`.
fn multiply(a: Matrix, b: Matrix) -> Matrix {
    [
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
        a[4] * b[0] + a[5] * b[2] + b[4],
        a[4] * b[1] + a[5] * b[3] + b[5],
    ]
}
