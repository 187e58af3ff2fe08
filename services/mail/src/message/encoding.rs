//! Transfer encodings: quoted-printable and base64, in lines of at most 76 columns that end with CRLF.

use base64::{Engine, engine::general_purpose::STANDARD};
use std::borrow::Cow;

const MAX_COLUMNS: usize = 76;
const BYTES_PER_LINE: usize = MAX_COLUMNS / 4 * 3;

/// Returns how many bytes `n` bytes take after base64, with lines of 76 columns that end with CRLF. Limits count these.
pub const fn encoded_len(n: usize) -> usize {
    let letters = n.div_ceil(3) * 4;
    letters + letters.div_ceil(MAX_COLUMNS) * 2
}

/// Appends `content` in base64. Every line, the last included, ends with CRLF.
pub(super) fn append_base64(to: &mut Vec<u8>, content: &[u8]) {
    to.reserve(encoded_len(content.len()));
    let mut line = String::with_capacity(MAX_COLUMNS);
    for chunk in content.chunks(BYTES_PER_LINE) {
        line.clear();
        STANDARD.encode_string(chunk, &mut line);
        to.extend_from_slice(line.as_bytes());
        to.extend_from_slice(b"\r\n");
    }
}

/// Appends text whose lines end with CRLF in quoted-printable. The last line ends with CRLF.
pub(super) fn append_quoted_printable(to: &mut Vec<u8>, text: &str) {
    for line in text.strip_suffix("\r\n").unwrap_or(text).split("\r\n") {
        append_quoted_line(to, line.as_bytes());
        to.extend_from_slice(b"\r\n");
    }
}

fn append_quoted_line(to: &mut Vec<u8>, line: &[u8]) {
    let mut column = 0;
    for (position, byte) in line.iter().copied().enumerate() {
        let is_last = position + 1 == line.len();
        let is_literal = is_literal(byte) && !(is_last && is_blank(byte));
        let width = if is_literal { 1 } else { 3 };
        // The last column is for the `=` of a soft line break, unless the line ends here.
        let limit = if is_last { MAX_COLUMNS } else { MAX_COLUMNS - 1 };
        if column + width > limit {
            to.extend_from_slice(b"=\r\n");
            column = 0;
        }
        if is_literal {
            to.push(byte);
        } else {
            to.push(b'=');
            to.extend([byte >> 4, byte & 0xF].map(|digit| b"0123456789ABCDEF"[usize::from(digit)]));
        }
        column += width;
    }
}

fn is_literal(byte: u8) -> bool {
    (byte.is_ascii_graphic() && byte != b'=') || is_blank(byte)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Returns whether quoted-printable is the shorter encoding. Text mostly in ASCII stays readable in its source.
pub(super) fn prefers_quoted_printable(text: &str) -> bool {
    let escaped = text.bytes().filter(|byte| !is_literal(*byte) && !matches!(byte, b'\r' | b'\n')).count();
    let quoted = text.len() + escaped * 2;
    quoted + quoted / MAX_COLUMNS * 3 <= encoded_len(text.len())
}

/// Returns the text with every line break as CRLF.
pub(super) fn with_crlf(text: &str) -> Cow<'_, str> {
    let is_clean = !text.replace("\r\n", "").contains(['\r', '\n']);
    if is_clean {
        return Cow::Borrowed(text);
    }
    let unix = text.replace("\r\n", "\n").replace('\r', "\n");
    Cow::Owned(unix.replace('\n', "\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoded_length_is_that_of_the_encoded_bytes() {
        for n in [0, 1, 2, 3, 56, 57, 58, 113, 114, 115, 10_000] {
            let mut encoded = Vec::new();
            append_base64(&mut encoded, &vec![7; n]);
            assert_eq!(encoded.len(), encoded_len(n), "{n}");
        }
    }

    #[test]
    fn quoted_printable_keeps_lines_short_and_hides_blanks_at_their_ends() {
        let mut encoded = Vec::new();
        append_quoted_printable(&mut encoded, &format!("{} \r\na=b\t\r\n\r\n{}", "x".repeat(75), "ü".repeat(40)));
        let encoded = String::from_utf8(encoded).unwrap();
        assert!(encoded.starts_with(&format!("{}=\r\n=20\r\na=3Db=09\r\n\r\n", "x".repeat(75))), "{encoded}");
        assert!(encoded.split("\r\n").all(|line| line.len() <= 76), "{encoded}");
    }

    #[test]
    fn every_kind_of_line_break_becomes_crlf() {
        assert_eq!(with_crlf("a\nb\rc\r\nd\n\re"), "a\r\nb\r\nc\r\nd\r\n\r\ne");
        assert!(matches!(with_crlf("a\r\nb"), Cow::Borrowed("a\r\nb")));
    }
}
