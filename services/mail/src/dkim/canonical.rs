//! Canonical forms of RFC 6376 §3.4: what is hashed, so that harmless changes on the way do not matter.

use super::DkimError;

/// One header as it stands in the message.
#[derive(Clone, Copy)]
pub(super) struct HeaderField<'m> {
    pub(super) name: &'m str,
    /// What follows the colon, with folds, without the final line break.
    pub(super) value: &'m [u8],
}

/// Divides a message into its headers and its body. Fails on bare line breaks, which would change on the way.
pub(super) fn split(message: &[u8]) -> Result<(Vec<HeaderField<'_>>, &[u8]), DkimError> {
    if has_bare_line_break(message) {
        return Err(DkimError::BareLineBreak);
    }
    let mut fields = Vec::new();
    let mut rest = message;
    while !rest.starts_with(b"\r\n") {
        let end = field_end(rest).ok_or(DkimError::MalformedMessage)?;
        let (field, later) = rest.split_at(end);
        let colon = field.iter().position(|byte| *byte == b':').ok_or(DkimError::MalformedMessage)?;
        let name = str::from_utf8(&field[..colon]).map_err(|_| DkimError::MalformedMessage)?.trim_end();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(DkimError::MalformedMessage);
        }
        fields.push(HeaderField { name, value: &field[colon + 1..end - 2] });
        rest = later;
    }
    if fields.is_empty() { Err(DkimError::MalformedMessage) } else { Ok((fields, &rest[2..])) }
}

/// Returns where the first header ends, after the line break that no continuation follows.
fn field_end(text: &[u8]) -> Option<usize> {
    let mut ends = text.windows(2).enumerate().filter(|(_, pair)| pair == b"\r\n").map(|(at, _)| at + 2);
    ends.find(|end| !matches!(text.get(*end), Some(b' ' | b'\t')))
}

fn has_bare_line_break(message: &[u8]) -> bool {
    let mut previous = 0;
    for byte in message.iter().copied() {
        if (byte == b'\n') != (previous == b'\r') {
            return true;
        }
        previous = byte;
    }
    previous == b'\r'
}

/// Returns a header in relaxed form, without a line break: name in lower case, unfolded, white space reduced.
pub(crate) fn relaxed_header(name: &str, value: &[u8]) -> Vec<u8> {
    let mut canonical = name.trim_end().to_ascii_lowercase().into_bytes();
    canonical.push(b':');
    let unfolded: Vec<u8> = value.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    append_reduced(&mut canonical, trim_blanks(&unfolded));
    canonical
}

/// Returns a body in relaxed form: white space reduced, none at the ends of lines, no empty lines at the end. An empty
/// body stays empty.
pub(crate) fn relaxed_body(body: &[u8]) -> Vec<u8> {
    let mut canonical = Vec::with_capacity(body.len() + 2);
    for line in lines(body) {
        append_reduced(&mut canonical, trim_blanks_end(line));
        canonical.extend_from_slice(b"\r\n");
    }
    remove_empty_lines_at_end(&mut canonical);
    if canonical == b"\r\n" { Vec::new() } else { canonical }
}

/// Returns a body in simple form: as it is, with exactly one line break at its end. We sign relaxed bodies; the simple
/// form is the other column of the reference cases.
#[cfg(test)]
pub(crate) fn simple_body(body: &[u8]) -> Vec<u8> {
    let mut canonical = Vec::with_capacity(body.len() + 2);
    for line in lines(body) {
        canonical.extend_from_slice(line);
        canonical.extend_from_slice(b"\r\n");
    }
    remove_empty_lines_at_end(&mut canonical);
    if canonical.is_empty() { b"\r\n".to_vec() } else { canonical }
}

/// Returns the lines without their line breaks. A last line without one counts; nothing follows a final line break.
fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.windows(2).position(|pair| pair == b"\r\n");
        let line = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[], |end| &rest[end + 2..]);
        Some(line)
    })
}

fn remove_empty_lines_at_end(canonical: &mut Vec<u8>) {
    while canonical.ends_with(b"\r\n\r\n") {
        canonical.truncate(canonical.len() - 2);
    }
}

/// Appends the text with each sequence of blanks as one space.
fn append_reduced(to: &mut Vec<u8>, text: &[u8]) {
    let mut after_blank = false;
    for byte in text.iter().copied() {
        let is_blank = is_blank(byte);
        if is_blank && !after_blank {
            to.push(b' ');
        } else if !is_blank {
            to.push(byte);
        }
        after_blank = is_blank;
    }
}

fn trim_blanks(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    trim_blanks_end(&text[start..])
}

fn trim_blanks_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    &text[..end]
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine, engine::general_purpose::STANDARD};
    use sha2::{Digest, Sha256};

    const DINNER: &[u8] = b"Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n";

    fn hash(canonical: &[u8]) -> String {
        STANDARD.encode(Sha256::digest(canonical))
    }

    #[test]
    fn the_body_hash_of_rfc_8463_is_computed() {
        assert_eq!(hash(&relaxed_body(DINNER)), "2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=");
    }

    #[test]
    fn blanks_and_empty_lines_are_canonicalised() {
        assert_eq!(simple_body(b" C \r\nD \t E\r\n\r\n\r\n"), b" C \r\nD \t E\r\n");
        assert_eq!(relaxed_body(b" C \r\nD \t E\r\n\tF\r\n\t\r\n\r\n\r\n"), b" C\r\nD E\r\n F\r\n");
        assert_eq!(relaxed_body(b"no line break"), b"no line break\r\n");
        assert_eq!(relaxed_header("A", b" X "), b"a:X");
        assert_eq!(relaxed_header("B ", b" Y\t\r\n\tZ  "), b"b:Y Z");
    }

    #[test]
    fn an_empty_body_has_the_hash_of_its_form() {
        assert_eq!(hash(&simple_body(b"")), "frcCV1k9oG9oKj3dpUqdJg1PxRT2RSN/XKdLCPjaYaY=");
        for body in [&b""[..], b"\r\n", b"\r\n\r\n", b" \r\n\t\r\n"] {
            assert_eq!(hash(&relaxed_body(body)), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "{body:?}");
        }
    }

    #[test]
    fn a_message_is_divided_at_its_first_empty_line() {
        let (fields, body) = split(b"A: b\r\n c\r\nD: e\r\n\r\nf\r\n\r\ng").unwrap();
        let fields: Vec<_> = fields.iter().map(|field| (field.name, field.value)).collect();
        assert_eq!(fields, [("A", &b" b\r\n c"[..]), ("D", b" e")]);
        assert_eq!(body, b"f\r\n\r\ng");
    }

    #[test]
    fn a_message_that_would_change_on_the_way_is_refused() {
        for message in [&b"A: b\r\n\r\nc\nd"[..], b"A: b\r\n\r\nc\rd", b"A: b\n\nc", b"A: b\r\n\r\nc\r"] {
            assert_eq!(split(message).err(), Some(DkimError::BareLineBreak), "{message:?}");
        }
        for message in [&b""[..], b"\r\nbody", b"A: b\r\n", b"no colon\r\n\r\n"] {
            assert_eq!(split(message).err(), Some(DkimError::MalformedMessage), "{message:?}");
        }
    }
}
