//! Sender, recipient and body as they go over the wire, and what they demand of a server.

use super::connection::ServerExtensions;
use crate::{address::EmailAddress, outcome::SendOutcome};

const MAX_LINE_BYTES: usize = 998;
const MAX_SENDER_BYTES: usize = 254;

/// One mail for one recipient.
pub(super) struct SmtpEnvelope<'e> {
    mail_from: &'e str,
    rcpt: &'e EmailAddress,
    /// The message with its leading dots doubled, and the final dot.
    pub(super) body: Vec<u8>,
    /// The size of the message itself.
    size: usize,
    needs_smtputf8: bool,
    needs_8bitmime: bool,
}

impl<'e> SmtpEnvelope<'e> {
    /// Checks what would end a command or the body early. The error is the outcome.
    pub(super) fn new(mail_from: &'e str, rcpt: &'e EmailAddress, message: &[u8]) -> Result<Self, SendOutcome> {
        let is_sender = |character: char| !character.is_control() && !" <>\"\\".contains(character);
        if mail_from.len() > MAX_SENDER_BYTES || !mail_from.chars().all(is_sender) {
            return Err(own_refusal(553, "5.1.7", "the return path is not an address"));
        }
        let body = stuffed(message)?;
        let headers = message.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(message.len());
        let needs_smtputf8 = rcpt.needs_smtputf8() || !mail_from.is_ascii() || !message[..headers].is_ascii();
        let needs_8bitmime = !message.is_ascii();
        Ok(Self { mail_from, rcpt, body, size: message.len(), needs_smtputf8, needs_8bitmime })
    }

    /// Returns why this server cannot take the mail at all.
    pub(super) fn refusal_by(&self, server: &ServerExtensions) -> Option<SendOutcome> {
        if self.needs_smtputf8 && !server.has_smtputf8 {
            let text = "an address has letters beyond ASCII before its @, and the server does not offer SMTPUTF8";
            return Some(own_refusal(553, "5.6.7", text));
        }
        if self.needs_8bitmime && !server.has_8bitmime {
            return Some(own_refusal(554, "5.6.3", "the message is not ASCII, and the server does not offer 8BITMIME"));
        }
        let is_too_large = server.max_bytes.is_some_and(|max| self.size > max);
        is_too_large.then(|| own_refusal(552, "5.3.4", "the message is larger than the server accepts"))
    }

    /// Returns the command MAIL with the parameters that the server knows.
    pub(super) fn mail_command(&self, server: &ServerExtensions) -> String {
        let mut command = format!("MAIL FROM:<{}>", self.mail_from);
        if server.has_size {
            command += &format!(" SIZE={}", self.size);
        }
        if self.needs_8bitmime {
            command += " BODY=8BITMIME";
        }
        if self.needs_smtputf8 {
            command += " SMTPUTF8";
        }
        command + "\r\n"
    }

    pub(super) fn rcpt_command(&self) -> String {
        format!("RCPT TO:<{}>\r\n", self.rcpt.as_str())
    }
}

/// Returns the message with each leading dot doubled, followed by the final dot.
fn stuffed(message: &[u8]) -> Result<Vec<u8>, SendOutcome> {
    let mut body = Vec::with_capacity(message.len() + message.len() / 64 + 8);
    let mut column = 0;
    let mut previous = 0;
    for byte in message.iter().copied() {
        if (byte == b'\n') != (previous == b'\r') || byte == 0 || column > MAX_LINE_BYTES + 1 {
            return Err(malformed());
        }
        if column == 0 && byte == b'.' {
            body.push(b'.');
        }
        body.push(byte);
        column = if byte == b'\n' { 0 } else { column + 1 };
        previous = byte;
    }
    if message.is_empty() || previous == b'\r' {
        return Err(malformed());
    }
    if previous != b'\n' {
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b".\r\n");
    Ok(body)
}

fn malformed() -> SendOutcome {
    let text = "the message is empty, has NUL, a line over 998 bytes, or a line that does not end with CRLF";
    own_refusal(554, "5.6.0", text)
}

/// Returns a refusal that we decide ourselves, with the code that a server would use.
fn own_refusal(code: u16, enhanced: &str, text: &str) -> SendOutcome {
    SendOutcome::Refused { code, enhanced: Some(enhanced.to_owned()), text: format!("{text}; it was not sent") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_dots_are_doubled_once_and_the_final_dot_follows_a_line_break() {
        assert_eq!(stuffed(b".a\r\n..b\r\nc.d").unwrap(), b"..a\r\n...b\r\nc.d\r\n.\r\n");
        assert_eq!(stuffed(b"a\r\n").unwrap(), b"a\r\n.\r\n");
        assert_eq!(stuffed(b"a\r\n.\r\n").unwrap(), b"a\r\n..\r\n.\r\n");
    }

    #[test]
    fn a_message_that_could_end_early_or_change_on_the_way_is_refused() {
        let long = [&vec![b'a'; 999][..], b"\r\n"].concat();
        for message in [&b""[..], b"a\n.\nb\r\n", b"a\rb\r\n", b"a\r", b"a\0\r\n", &long] {
            assert!(matches!(stuffed(message), Err(SendOutcome::Refused { code: 554, .. })), "{message:?}");
        }
        assert!(stuffed(&[&vec![b'a'; 998][..], b"\r\n"].concat()).is_ok());
    }

    #[test]
    fn a_return_path_that_could_add_a_command_is_refused() {
        let rcpt = EmailAddress::parse("a@example.com").unwrap();
        for sender in ["a@b.example>\r\nRCPT TO:<x@y.example", "a b@c.example", "a@b.example> SIZE=1"] {
            assert!(matches!(SmtpEnvelope::new(sender, &rcpt, b"a\r\n"), Err(SendOutcome::Refused { code: 553, .. })));
        }
        assert!(SmtpEnvelope::new("", &rcpt, b"a\r\n").is_ok());
    }
}
