//! The preference page: shows the classes of mail with their state, and saves a recipient's choice.

use super::{begin, form, html, not_found, page};
use crate::{
    feedback::{
        self,
        store::{self, MailRecipient, Suppression},
    },
    state::CrmState,
};
use html::{ClassChoice, Preferences};
use jiff::Timestamp;
use onceward::{DbError, UnauthenticatedRequest, prelude::*, web::axum::extract::State};
use onceward_mail::class::MailClass;
use std::sync::Arc;

const ORIGIN: &str = "preferences";

pub(super) async fn show(
    State(state): State<Arc<CrmState>>,
    Path(token): Path<String>,
    request: UnauthenticatedRequest,
) -> Result<Response, Problem> {
    let Some((tx, recipient)) = begin(&state, &request, &token).await? else { return Ok(not_found()) };
    let preferences = preferences(&tx, &recipient, token).await?;
    tx.rollback().await?;
    Ok(page(StatusCode::OK, html::preferences(&preferences, false)))
}

pub(super) async fn save(
    State(state): State<Arc<CrmState>>,
    Path(token): Path<String>,
    request: UnauthenticatedRequest,
) -> Result<Response, Problem> {
    let Some((mut tx, recipient)) = begin(&state, &request, &token).await? else { return Ok(not_found()) };
    let Some(wanted) = form::wanted_classes(&request.body) else {
        let text = "Nothing was changed. Open the link in the mail again, and save your choice there.";
        return Ok(page(StatusCode::BAD_REQUEST, html::notice("This request is incomplete", text)));
    };
    for class in MailClass::ALL.into_iter().filter(|class| class.needs_unsubscribe_link()) {
        if wanted.contains(&class) {
            feedback::resubscribe(&mut tx, &recipient, class, ORIGIN).await?;
        } else {
            feedback::unsubscribe(&mut tx, &recipient, class, ORIGIN).await?;
        }
    }
    let preferences = preferences(&tx, &recipient, token).await?;
    tx.commit().await?;
    Ok(page(StatusCode::OK, html::preferences(&preferences, true)))
}

async fn preferences(tx: &Tx, recipient: &MailRecipient, token: String) -> Result<Preferences, DbError> {
    let now = Timestamp::now();
    let mut entries = store::suppressions_of(tx, &recipient.address_hash).await?;
    entries.retain(|entry| entry.until.is_none_or(|until| until > now));
    let choice = |class: MailClass| {
        let covers = |entry: &&Suppression| entry.mail_class == "*" || entry.mail_class == class.as_str();
        ClassChoice {
            class,
            is_subscribed: !entries.iter().filter(covers).any(|entry| entry.reason == "unsubscribed"),
            is_blocked: entries.iter().filter(covers).any(|entry| entry.reason != "unsubscribed"),
        }
    };
    let classes = MailClass::ALL.into_iter().filter(|class| class.needs_unsubscribe_link()).map(choice).collect();
    let address = store::contact_address(tx, &recipient.address_hash).await?;
    Ok(Preferences { token, masked_address: address.as_deref().and_then(mask), choices: classes })
}

/// Returns the first letter of an address and its domain: enough to recognise one's own.
fn mask(address: &str) -> Option<String> {
    let (local, domain) = address.rsplit_once('@')?;
    Some(format!("{}•••@{domain}", local.chars().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_by_its_first_letter_and_its_domain() {
        assert_eq!(mask("ada.lovelace@example.org").as_deref(), Some("a•••@example.org"));
        assert_eq!(mask("ồ@example.org").as_deref(), Some("ồ•••@example.org"));
        assert_eq!(mask("no address"), None);
    }
}
