//! The value that becomes a mail.

use super::{MessageError, body, headers};
use crate::{address::Mailbox, attachment::CheckedAttachment};
use jiff::Timestamp;
use std::fmt;
use uuid::Uuid;

const MAX_SUBJECT_CHARACTERS: usize = 255;
const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;
const MAX_MAILBOXES: usize = 100;

/// One mail. The recipients of the envelope are chosen when it is sent; hidden ones appear nowhere in it.
///
/// `Debug` shows the message id only: everything else may be personal data.
#[derive(Clone, PartialEq)]
pub struct MailMessage {
    /// The local part of the Message-ID, fixed before the first attempt. Its domain is that of `from`.
    pub message_id: Uuid,
    /// When it was written.
    pub date: Timestamp,
    /// The author.
    pub from: Mailbox,
    /// Where answers go, if not to the author.
    pub reply_to: Option<Mailbox>,
    /// The recipients that are shown. Without any, the header says `undisclosed-recipients:;`.
    pub to: Vec<Mailbox>,
    /// The recipients of copies that are shown.
    pub cc: Vec<Mailbox>,
    /// The subject, of at most 255 characters.
    pub subject: String,
    /// The body as plain text. Line breaks may be of any kind.
    pub text: String,
    /// The body as HTML.
    pub html: Option<String>,
    /// The files.
    pub attachments: Vec<CheckedAttachment>,
    /// The https link with which RFC 8058 unsubscribes by one click.
    pub list_unsubscribe: Option<String>,
    /// Whether a program wrote it, so that no program answers it (RFC 3834).
    pub is_auto_submitted: bool,
    /// Further headers, of those in [`super::EXTRA_HEADERS`].
    pub headers: Vec<(String, String)>,
}

impl MailMessage {
    /// Returns the Message-ID with its angle brackets, as headers and bounces show it.
    pub fn message_id_header(&self) -> String {
        format!("<{}@{}>", self.message_id, self.from.address().domain())
    }

    /// Returns the bytes to be signed and sent: CRLF line ends, no line over 998 bytes, and ASCII unless the address of
    /// a header is not. The same message has the same bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, MessageError> {
        self.check()?;
        let mut bytes = headers::message_headers(self)?.into_bytes();
        body::append_body(&mut bytes, self);
        Ok(bytes)
    }

    fn check(&self) -> Result<(), MessageError> {
        refuse_controls("subject", &self.subject)?;
        let too_long = |field: &str, limit, unit| Err(MessageError::TooLong { field: field.to_owned(), limit, unit });
        if self.subject.trim().is_empty() {
            return Err(MessageError::Empty { field: "subject" });
        }
        if self.subject.chars().count() > MAX_SUBJECT_CHARACTERS {
            return too_long("subject", MAX_SUBJECT_CHARACTERS, "characters");
        }
        let bodies = [("text", self.text.as_str()), ("html", self.html.as_deref().unwrap_or_default())];
        for (field, body) in bodies {
            if body.contains('\0') {
                return Err(MessageError::ControlCharacter { field: field.to_owned() });
            }
            if body.len() > MAX_BODY_BYTES {
                return too_long(field, MAX_BODY_BYTES, "bytes");
            }
        }
        if self.text.trim().is_empty() {
            return Err(MessageError::Empty { field: "text" });
        }
        if self.to.len() + self.cc.len() > MAX_MAILBOXES {
            return too_long("the list of to and cc", MAX_MAILBOXES, "mailboxes");
        }
        Ok(())
    }
}

/// Refuses what could end a header and begin another.
pub(super) fn refuse_controls(field: &str, value: &str) -> Result<(), MessageError> {
    if value.chars().any(char::is_control) {
        return Err(MessageError::ControlCharacter { field: field.to_owned() });
    }
    Ok(())
}

impl fmt::Debug for MailMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailMessage").field("message_id", &self.message_id).finish_non_exhaustive()
    }
}
