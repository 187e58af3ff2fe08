//! Addresses: parsed once, sent as written, compared in one form, and never printed by accident.
//!
//! [`EmailAddress`] goes into the envelope, [`Mailbox`] adds the name that a header shows.

mod email_address;
mod mailbox;

pub use email_address::{EmailAddress, EmailAddressError};
pub use mailbox::{Mailbox, MailboxError};

/// Returns whether `character` is one that a reader cannot see, or that changes the direction of the text around it:
/// controls, zero-width characters, bidirectional controls, and the byte order mark. The two joiners are text in
/// several scripts, and are not among them.
pub(crate) fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{00AD}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{180E}' | '\u{200B}' | '\u{200E}' | '\u{200F}'
            | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFF}' | '\u{E0000}'..='\u{E0FFF}')
}
