//! Canonical JSON (RFC 8785): equal content has equal bytes, whichever program wrote it.
//!
//! Keys are sorted by UTF-16 code units, numbers are written as in ECMAScript, and there is no white space. One rule
//! is stricter than the RFC: an integer beyond 2^53 is rejected rather than rounded, because two different amounts
//! would get the same fingerprint.

use std::{cmp::Ordering, fmt::Write as _};

use serde_json::{Number, Value};

/// The reason why a value has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// An integer that other JSON readers would round.
    #[error(
        "the number at {path:?} is a whole number beyond 2^53, which other readers would round: send it as a string"
    )]
    IntegerTooLarge {
        /// JSON pointer to the number.
        path: String,
    },
}

/// Doubles represent every integer up to here: 2^53.
const EXACT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
/// From here on ECMAScript writes an exponent, so the text no longer looks like an integer.
const EXPONENT_FROM: f64 = 1e21;

/// Returns `value` in its canonical form. Fails if it contains an integer beyond 2^53.
pub fn to_string(value: &Value) -> Result<String, CanonicalError> {
    let mut writer = Writer { out: String::new(), path: Vec::new() };
    writer.value(value)?;
    Ok(writer.out)
}

/// Formats a double as ECMAScript does; returns `None` if it is not finite, which JSON cannot represent.
pub fn format_number(number: f64) -> Option<String> {
    if !number.is_finite() {
        return None;
    }
    if number == 0.0 {
        return Some("0".to_owned());
    }
    let text = shortest_digits(number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if number < 0.0 { "-" } else { "" };
    Some(format!("{sign}{}", lay_out(&digits, exponent + 1)))
}

/// Returns the fewest digits that parse to the same double, in the form "1.25e-7".
fn shortest_digits(number: f64) -> String {
    let shortest = format!("{number:e}");
    // Halfway between two candidates ECMAScript takes the even one and Rust may not. Rounding the exact value to the
    // same number of digits does, but may leave the range of the double, so the result must parse to the same double.
    let mantissa = shortest.split('e').next().unwrap_or_default();
    let decimals = mantissa.len().saturating_sub("1.".len());
    let rounded = format!("{number:.decimals$e}");
    if rounded.parse() == Ok(number) { rounded } else { shortest }
}

/// Places the point after `point` digits, or writes an exponent where ECMAScript does.
fn lay_out(digits: &str, point: i32) -> String {
    let count = digits.len() as i32;
    if (count..=21).contains(&point) {
        digits.to_owned() + &"0".repeat((point - count) as usize)
    } else if (1..=21).contains(&point) {
        let (whole, fraction) = digits.split_at(point as usize);
        format!("{whole}.{fraction}")
    } else if (-5..=0).contains(&point) {
        format!("0.{}{digits}", "0".repeat(-point as usize))
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        format!("{first}{dot}{rest}e{:+}", point - 1)
    }
}

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

struct Writer<'a> {
    out: String,
    path: Vec<Step<'a>>,
}

impl<'a> Writer<'a> {
    fn value(&mut self, value: &'a Value) -> Result<(), CanonicalError> {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(true) => self.out.push_str("true"),
            Value::Bool(false) => self.out.push_str("false"),
            Value::Number(number) => self.number(number)?,
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.separate(index);
                    self.nested(Step::Index(index), item)?;
                }
                self.out.push(']');
            }
            Value::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by(|a, b| utf16_order(a.0, b.0));
                self.out.push('{');
                for (index, (key, item)) in entries.into_iter().enumerate() {
                    self.separate(index);
                    self.string(key);
                    self.out.push(':');
                    self.nested(Step::Key(key), item)?;
                }
                self.out.push('}');
            }
        }
        Ok(())
    }

    fn nested(&mut self, step: Step<'a>, value: &'a Value) -> Result<(), CanonicalError> {
        self.path.push(step);
        self.value(value)?;
        self.path.pop();
        Ok(())
    }

    fn separate(&mut self, index: usize) {
        if index > 0 {
            self.out.push(',');
        }
    }

    fn number(&mut self, number: &Number) -> Result<(), CanonicalError> {
        // serde_json has no infinities, so a number always has a double and a text.
        let double = number.as_f64().unwrap_or(0.0);
        let exact = match (number.as_i64(), number.as_u64()) {
            (Some(signed), _) => signed.unsigned_abs() <= EXACT_INTEGER_MAX as u64,
            (None, Some(unsigned)) => unsigned <= EXACT_INTEGER_MAX as u64,
            // The same value is rejected however it is stored; otherwise parsing the output could fail.
            (None, None) => !(EXACT_INTEGER_MAX.next_up()..EXPONENT_FROM).contains(&double.abs()),
        };
        if !exact {
            return Err(CanonicalError::IntegerTooLarge { path: self.pointer() });
        }
        self.out.push_str(&format_number(double).unwrap_or_default());
        Ok(())
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\u{8}' => self.out.push_str("\\b"),
                '\t' => self.out.push_str("\\t"),
                '\n' => self.out.push_str("\\n"),
                '\u{c}' => self.out.push_str("\\f"),
                '\r' => self.out.push_str("\\r"),
                // Writing to a String cannot fail.
                c if c < ' ' => write!(self.out, "\\u{:04x}", c as u32).unwrap_or_default(),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn pointer(&self) -> String {
        let step = |step: &Step<'_>| match step {
            Step::Key(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => format!("/{index}"),
        };
        self.path.iter().map(step).collect()
    }
}

fn utf16_order(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}
