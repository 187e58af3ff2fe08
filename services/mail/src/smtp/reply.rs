//! A server's answer, of one line or several.

use super::reply_text::bounded;

/// Both limits are far beyond what servers send; RFC 5321 has 512 bytes a line.
pub(super) const MAX_LINES: usize = 100;
pub(super) const MAX_LINE_BYTES: usize = 1000;

/// An answer: a code and its lines.
#[derive(Clone, Debug)]
pub(super) struct SmtpReply {
    code: u16,
    lines: Vec<String>,
}

/// One line of an answer.
pub(super) struct ReplyLine {
    pub(super) code: u16,
    pub(super) is_last: bool,
    pub(super) text: String,
}

impl ReplyLine {
    /// Parses `250-text`, `250 text` or `250`, without its line break.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let (digits, rest) = line.split_at_checked(3)?;
        let code: u16 = str::from_utf8(digits).ok()?.parse().ok()?;
        let is_last = match rest.first() {
            None | Some(b' ') => true,
            Some(b'-') => false,
            Some(_) => return None,
        };
        let text = String::from_utf8_lossy(rest.get(1..).unwrap_or_default()).trim_end().to_owned();
        (200..600).contains(&code).then_some(Self { code, is_last, text })
    }
}

impl SmtpReply {
    pub(super) fn new(code: u16, lines: Vec<String>) -> Self {
        Self { code, lines }
    }

    pub(super) fn code(&self) -> u16 {
        self.code
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    pub(super) fn is_transient(&self) -> bool {
        (400..500).contains(&self.code)
    }

    /// Returns whether the server closes the connection with this answer.
    pub(super) fn is_closing(&self) -> bool {
        self.code == 421
    }

    /// Returns the lines after the first, in which EHLO lists what the server can do.
    pub(super) fn further_lines(&self) -> &[String] {
        self.lines.get(1..).unwrap_or_default()
    }

    /// Returns the enhanced status code at the beginning of the first line, such as `5.1.1`.
    pub(super) fn enhanced(&self) -> Option<String> {
        let word = self.lines.first()?.split_whitespace().next()?;
        let parts: Vec<&str> = word.split('.').collect();
        let is_number = |part: &&str| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_status = parts.len() == 3 && matches!(parts[0], "2" | "4" | "5") && parts.iter().all(is_number);
        is_status.then(|| word.to_owned())
    }

    /// Returns the whole text, bounded and without addresses.
    pub(super) fn text(&self) -> String {
        bounded(&self.lines.join(" "))
    }
}
