//! Links in mails that lead back to this server.

use crate::{keys::MailReference, state::CrmState};
use uuid::Uuid;

/// The path of a recipient's preferences; a signed token follows.
pub(crate) const PREFERENCES_PATH: &str = "/crm/u/";

/// Returns the link with which a recipient of a mail unsubscribes or changes preferences.
pub(crate) fn unsubscribe_url(state: &CrmState, email_id: Uuid, position: u16) -> String {
    let token = state.keys.link_token(MailReference { email_id, position });
    format!("{}{PREFERENCES_PATH}{token}", state.settings.public_url.trim_end_matches('/'))
}
