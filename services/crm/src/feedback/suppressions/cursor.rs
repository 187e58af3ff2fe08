//! The cursor of the list: the position of the last entry of a page, opaque to callers.

use crate::feedback::store::{Suppression, SuppressionPosition};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;

/// Returns the cursor of the page after `last`.
pub(super) fn after(last: &Suppression) -> String {
    let Suppression { since, address_hash, mail_class, reason, .. } = last;
    let position = format!("{} {} {mail_class} {reason}", since.as_microsecond(), hex::encode(address_hash));
    URL_SAFE_NO_PAD.encode(position)
}

/// Reads a cursor. Returns `None` for any other text.
pub(super) fn read(cursor: &str) -> Option<SuppressionPosition> {
    let position = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let parts: Vec<&str> = position.split(' ').collect();
    let [since, address_hash, mail_class, reason] = parts[..] else { return None };
    Some(SuppressionPosition {
        since: Timestamp::from_microsecond(since.parse().ok()?).ok()?,
        address_hash: hex::decode(address_hash).ok()?,
        mail_class: mail_class.to_owned(),
        reason: reason.to_owned(),
    })
}

/// Returns the position before the first entry.
pub(super) fn beginning() -> SuppressionPosition {
    // PostgreSQL's largest time is later than this, and no entry is.
    let since = Timestamp::new(253_402_207_200, 0).unwrap_or(Timestamp::MAX);
    SuppressionPosition { since, address_hash: Vec::new(), mail_class: String::new(), reason: String::new() }
}
