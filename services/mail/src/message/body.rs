//! The parts of a message: text, HTML beside it, files after both.
//!
//! Boundaries are made of the message id. They contain `=_`, which neither quoted-printable nor base64 can produce, so
//! no content ends a part.

use super::{
    MailMessage,
    encoding::{append_base64, append_quoted_printable, prefers_quoted_printable, with_crlf},
    parameter::file_name_parameters,
};
use crate::attachment::CheckedAttachment;

/// Appends the headers of the body, an empty line, and the body.
pub(super) fn append_body(to: &mut Vec<u8>, message: &MailMessage) {
    if message.attachments.is_empty() {
        return append_content(to, message);
    }
    let boundary = boundary(message, 'm');
    append_multipart_header(to, "mixed", &boundary);
    append_delimiter(to, &boundary);
    append_content(to, message);
    for attachment in &message.attachments {
        append_delimiter(to, &boundary);
        append_attachment(to, attachment);
    }
    append_end(to, &boundary);
}

/// Appends the text, with the HTML as its alternative.
fn append_content(to: &mut Vec<u8>, message: &MailMessage) {
    let Some(html) = &message.html else {
        return append_text(to, "plain", &message.text);
    };
    let boundary = boundary(message, 'a');
    append_multipart_header(to, "alternative", &boundary);
    append_delimiter(to, &boundary);
    append_text(to, "plain", &message.text);
    append_delimiter(to, &boundary);
    append_text(to, "html", html);
    append_end(to, &boundary);
}

fn append_text(to: &mut Vec<u8>, subtype: &str, text: &str) {
    let text = with_crlf(text);
    let is_quoted = prefers_quoted_printable(&text);
    let encoding = if is_quoted { "quoted-printable" } else { "base64" };
    append(to, &format!("Content-Type: text/{subtype}; charset=utf-8\r\n"));
    append(to, &format!("Content-Transfer-Encoding: {encoding}\r\n\r\n"));
    if is_quoted { append_quoted_printable(to, &text) } else { append_base64(to, text.as_bytes()) }
}

fn append_attachment(to: &mut Vec<u8>, attachment: &CheckedAttachment) {
    // MIME forbids base64 for a message, and its bytes must arrive unchanged: it is sent as a file like any other.
    let is_message = attachment.media_type().starts_with("message/");
    let media_type = if is_message { "application/octet-stream" } else { attachment.media_type() };
    append(to, &format!("Content-Type: {media_type}\r\nContent-Transfer-Encoding: base64\r\n"));
    append(to, "Content-Disposition: attachment");
    for parameter in file_name_parameters(attachment.file_name()) {
        append(to, &format!(";\r\n {parameter}"));
    }
    append(to, "\r\n\r\n");
    append_base64(to, attachment.content());
}

fn boundary(message: &MailMessage, kind: char) -> String {
    format!("=_{kind}_{}", message.message_id.simple())
}

fn append_multipart_header(to: &mut Vec<u8>, subtype: &str, boundary: &str) {
    append(to, &format!("Content-Type: multipart/{subtype};\r\n boundary=\"{boundary}\"\r\n\r\n"));
}

fn append_delimiter(to: &mut Vec<u8>, boundary: &str) {
    append(to, &format!("--{boundary}\r\n"));
}

fn append_end(to: &mut Vec<u8>, boundary: &str) {
    append(to, &format!("--{boundary}--\r\n"));
}

fn append(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(text.as_bytes());
}
