//! The headers of a message, in the order in which they are written.

use super::{
    MailMessage, MessageError,
    encoded_word::{append_encoded, is_plain},
    header_line::HeaderLine,
    mail_message::refuse_controls,
    parameter::quoted,
};
use crate::address::Mailbox;
use jiff::{Timestamp, tz::TimeZone};

/// The headers that callers may add. All others have a field of their own, or would change how the mail is handled.
pub const EXTRA_HEADERS: &[&str] =
    &["Feedback-ID", "Importance", "In-Reply-To", "List-Id", "References", "Resend-Idempotency-Key", "X-Entity-Ref-ID"];

/// A line with the header's name and the link's brackets stays below 998 bytes.
const MAX_URL_BYTES: usize = 900;
/// Keeps every line of an added header below 998 bytes.
const MAX_EXTRA_WORD: usize = 900;
const MAX_EXTRA_BYTES: usize = 16 * 1024;

/// Returns all headers up to and including MIME-Version. Those of the body follow.
pub(super) fn message_headers(message: &MailMessage) -> Result<String, MessageError> {
    let mut headers = line("Message-ID", &message.message_id_header());
    headers += &line("Date", &rfc_5322_date(message.date));
    headers += &mailboxes("From", std::slice::from_ref(&message.from));
    if let Some(reply_to) = &message.reply_to {
        headers += &mailboxes("Reply-To", std::slice::from_ref(reply_to));
    }
    if message.to.is_empty() {
        headers += &line("To", "undisclosed-recipients:;");
    } else {
        headers += &mailboxes("To", &message.to);
    }
    if !message.cc.is_empty() {
        headers += &mailboxes("Cc", &message.cc);
    }
    headers += &unstructured("Subject", &message.subject);
    if message.is_auto_submitted {
        headers += &line("Auto-Submitted", "auto-generated");
        headers += &line("X-Auto-Response-Suppress", "All");
    }
    if let Some(url) = &message.list_unsubscribe {
        headers += &one_click(url)?;
    }
    for (name, value) in &message.headers {
        headers += &extra(name, value)?;
    }
    headers += &line("MIME-Version", "1.0");
    Ok(headers)
}

fn line(name: &str, value: &str) -> String {
    format!("{name}: {value}\r\n")
}

fn rfc_5322_date(date: Timestamp) -> String {
    date.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

fn unstructured(name: &str, text: &str) -> String {
    let mut header = HeaderLine::new(name);
    if is_plain(text) {
        text.split(' ').for_each(|word| header.word(word));
    } else {
        append_encoded(&mut header, text);
    }
    header.finish()
}

fn mailboxes(name: &str, mailboxes: &[Mailbox]) -> String {
    let mut header = HeaderLine::new(name);
    for (position, mailbox) in mailboxes.iter().enumerate() {
        match mailbox.name() {
            None => header.word(mailbox.address().as_str()),
            Some(display) => {
                append_phrase(&mut header, display);
                header.word(&format!("<{}>", mailbox.address().as_str()));
            }
        }
        if position + 1 < mailboxes.len() {
            header.attach(",");
        }
    }
    header.finish()
}

/// Appends a display name: as words if they are atoms, as a quoted string if it is ASCII and short, or else encoded,
/// because an encoded-word must not be inside a quoted string.
fn append_phrase(header: &mut HeaderLine, display: &str) {
    let is_atom = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+/'!&".contains(&byte));
    let is_quotable = |word: &str| word.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_plain(display) {
        append_encoded(header, display);
    } else if display.split(' ').all(is_atom) {
        display.split(' ').for_each(|word| header.word(word));
    } else if display.len() < 60 && display.split(' ').all(is_quotable) {
        header.word(&quoted(display));
    } else {
        append_encoded(header, display);
    }
}

/// Returns both headers of RFC 8058, each on one line: programs that receive a folded or encoded link show no button.
fn one_click(url: &str) -> Result<String, MessageError> {
    refuse_controls("list_unsubscribe", url)?;
    let rest = url.strip_prefix("https://").unwrap_or_default();
    let is_visible = url.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,\"\\".contains(&byte));
    if rest.is_empty() || rest.starts_with('/') || !is_visible || url.len() > MAX_URL_BYTES {
        return Err(MessageError::UnsubscribeUrl { limit: MAX_URL_BYTES });
    }
    Ok(line("List-Unsubscribe", &format!("<{url}>")) + &line("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"))
}

/// Returns a header of [`EXTRA_HEADERS`], folded at its spaces.
fn extra(name: &str, value: &str) -> Result<String, MessageError> {
    let Some(known) = EXTRA_HEADERS.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
        let is_name = name.len() <= 60 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let name = if is_name { name } else { "(not a name)" };
        return Err(MessageError::HeaderNotAllowed { name: name.to_owned() });
    };
    refuse_controls(known, value)?;
    if value.len() > MAX_EXTRA_BYTES {
        return Err(MessageError::TooLong { field: (*known).to_owned(), limit: MAX_EXTRA_BYTES, unit: "bytes" });
    }
    let words: Vec<&str> = value.split(' ').filter(|word| !word.is_empty()).collect();
    let is_visible = |word: &&str| word.len() <= MAX_EXTRA_WORD && word.bytes().all(|byte| byte.is_ascii_graphic());
    if words.is_empty() || !words.iter().all(is_visible) {
        return Err(MessageError::HeaderValue { name: (*known).to_owned(), limit: MAX_EXTRA_WORD });
    }
    let mut header = HeaderLine::new(known);
    words.iter().for_each(|word| header.word(word));
    Ok(header.finish())
}
