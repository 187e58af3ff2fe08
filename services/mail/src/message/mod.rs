//! A mail as a value, and the bytes that are sent.
//!
//! [`MailMessage::to_bytes`] is deterministic: ids, time and boundaries come from the value, so that a retry sends the
//! same bytes. Reading order: [`MailMessage`], `headers` (which header holds what), `header_line` (folding),
//! `encoded_word` (RFC 2047), `parameter` (RFC 2231), `body` (parts and their encodings).

mod body;
mod encoded_word;
mod encoding;
mod error;
mod header_line;
mod headers;
mod mail_message;
mod parameter;

pub use encoding::encoded_len;
pub use error::MessageError;
pub use headers::EXTRA_HEADERS;
pub use mail_message::MailMessage;
