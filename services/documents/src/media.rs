//! Detects the type of a file from its content. File names and declared types are not trusted.

/// The file types that can be analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// Portable Document Format.
    Pdf,
    /// UTF-8 without control characters, except tab, line feed, carriage return and form feed.
    PlainText,
}

const PDF: &[u8] = b"%PDF-";
/// PDF readers search this many bytes for the header, because some writers put other bytes before it.
const PDF_HEADER_WITHIN: usize = 1024;

impl MediaType {
    /// Returns the type of `content`, or `None` if it is neither PDF nor plain text.
    pub fn of(content: &[u8]) -> Option<Self> {
        let head = &content[..content.len().min(PDF_HEADER_WITHIN)];
        if head.windows(PDF.len()).any(|window| window == PDF) {
            return Some(Self::Pdf);
        }
        let text = std::str::from_utf8(content).ok()?;
        let layout = |character: char| matches!(character, '\t' | '\n' | '\r' | '\u{c}');
        let plain = text.chars().all(|character| layout(character) || !character.is_control());
        (plain && !text.trim().is_empty()).then_some(Self::PlainText)
    }

    /// Returns the value for `Content-Type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pdf => "application/pdf",
            Self::PlainText => "text/plain",
        }
    }

    /// Parses a stored value that [`MediaType::as_str`] returned.
    pub(crate) fn from_stored(text: &str) -> Self {
        if text == Self::Pdf.as_str() { Self::Pdf } else { Self::PlainText }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_decides_the_type() {
        assert_eq!(MediaType::of(b"%PDF-1.7\n..."), Some(MediaType::Pdf));
        assert_eq!(MediaType::of(b"\xEF\xBB\xBF\n%PDF-1.7"), Some(MediaType::Pdf));
        assert_eq!(MediaType::of("Loan number: 12\nÄrger\u{c}next".as_bytes()), Some(MediaType::PlainText));
        assert_eq!(MediaType::of(b"PK\x03\x04 a zip"), None);
        assert_eq!(MediaType::of(b"\xff\xfeU\0T\0F\0"), None);
        assert_eq!(MediaType::of(b" \n "), None);
        assert_eq!(MediaType::of(b""), None);
    }
}
