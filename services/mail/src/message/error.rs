//! Why a mail cannot be written. Errors name the field and never its value.

/// Why a message has no bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A line break, NUL or another control character, which could add a header.
    #[error("{field} contains a control character, such as a line break: remove it")]
    ControlCharacter {
        /// The field of the message.
        field: String,
    },
    /// A field exceeds its limit.
    #[error("{field} is longer than {limit} {unit}: shorten it")]
    TooLong {
        /// The field of the message.
        field: String,
        /// The limit.
        limit: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// A field that every mail needs is empty.
    #[error("{field} is empty: every mail needs it")]
    Empty {
        /// The field of the message.
        field: &'static str,
    },
    /// The unsubscribe link cannot be used with one click.
    #[error("list_unsubscribe is not an absolute https URL of at most {limit} visible ASCII characters")]
    UnsubscribeUrl {
        /// The limit.
        limit: usize,
    },
    /// A header that callers may not set.
    #[error("the header {name} is not allowed: use one of EXTRA_HEADERS, or the field that stands for it")]
    HeaderNotAllowed {
        /// The name, which is checked to be one before it is repeated.
        name: String,
    },
    /// A header that callers may set has a value that cannot be written without encoding it.
    #[error("the header {name} must be visible ASCII characters in words of at most {limit} characters")]
    HeaderValue {
        /// The header's name.
        name: String,
        /// The limit.
        limit: usize,
    },
}
