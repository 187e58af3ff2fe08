//! Inserts the rows of a mail: when it is requested here, or when the request of another service is first handled.

use crate::{
    CrmError,
    emails::{RecipientField, Recipients, store},
    events::EmailRequested,
    keys::AddressHasher,
    templates::{self, StoredTemplate},
};
use onceward::{Tx, envelope::canonical};
use onceward_mail::address::EmailAddress;
use serde_json::Value;
use uuid::Uuid;

/// A mail whose rows are to be inserted.
pub(crate) struct Registration<'r> {
    pub email_id: Uuid,
    pub event_id: Uuid,
    pub requested: &'r EmailRequested,
    pub template: &'r StoredTemplate,
    pub recipients: &'r Recipients,
}

/// Inserts the mail and its recipients, unless they exist.
pub(crate) async fn register(tx: &Tx, hasher: &AddressHasher, new: &Registration<'_>) -> Result<(), CrmError> {
    let requested = new.requested;
    let variables = canonical::to_string(&Value::Object(requested.variables.clone()))
        .map_err(|error| CrmError::Other(error.to_string()))?;
    let variables_hash = hex::encode(hasher.hash_text(&variables));
    let email = store::NewEmail {
        email_id: new.email_id,
        event_id: new.event_id,
        correlation_id: &requested.correlation_id,
        loan_id: requested.loan_id.as_deref(),
        contact_id: requested.contact_id,
        user_id: requested.user_id.as_deref(),
        template_id: &new.template.template_id,
        template_version: new.template.version,
        class: new.template.class,
        delivery: templates::delivery_name(new.template.delivery),
        variables_hash: &variables_hash,
        not_after: requested.not_after,
    };
    if store::insert_email(tx, &email).await? {
        let hash = |(field, address): (RecipientField, &EmailAddress)| (field, hasher.hash(address));
        let rows: Vec<_> = new.recipients.envelopes().into_iter().map(hash).collect();
        store::insert_recipients(tx, new.email_id, &rows).await?;
    }
    Ok(())
}
