//! What a file is, by its content. Names and declared types are what somebody says.

/// The kinds of file that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// Portable Document Format.
    Pdf,
    /// UTF-8 without control characters other than those that lay out text.
    PlainText,
}

const PDF: &[u8] = b"%PDF-";
/// Readers of PDF look this far for its beginning, as some writers put something before it.
const PDF_WITHIN: usize = 1024;

impl MediaType {
    /// What `content` is; `None` if it can not be read here.
    pub fn of(content: &[u8]) -> Option<Self> {
        let head = &content[..content.len().min(PDF_WITHIN)];
        if head.windows(PDF.len()).any(|window| window == PDF) {
            return Some(Self::Pdf);
        }
        let text = std::str::from_utf8(content).ok()?;
        let layout = |character: char| matches!(character, '\t' | '\n' | '\r' | '\u{c}');
        let plain = text.chars().all(|character| layout(character) || !character.is_control());
        (plain && !text.trim().is_empty()).then_some(Self::PlainText)
    }

    /// As in `Content-Type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pdf => "application/pdf",
            Self::PlainText => "text/plain",
        }
    }

    /// What [`MediaType::as_str`] wrote.
    pub(crate) fn stored(text: &str) -> Self {
        if text == Self::Pdf.as_str() { Self::Pdf } else { Self::PlainText }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        assert_eq!(MediaType::of(b"%PDF-1.7\n..."), Some(MediaType::Pdf));
        assert_eq!(MediaType::of(b"\xEF\xBB\xBF\n%PDF-1.7"), Some(MediaType::Pdf));
        assert_eq!(MediaType::of("Loan number: 12\nÄrger\u{c}next".as_bytes()), Some(MediaType::PlainText));
        assert_eq!(MediaType::of(b"PK\x03\x04 a zip"), None);
        assert_eq!(MediaType::of(b"\xff\xfeU\0T\0F\0"), None);
        assert_eq!(MediaType::of(b" \n "), None);
        assert_eq!(MediaType::of(b""), None);
    }
}
