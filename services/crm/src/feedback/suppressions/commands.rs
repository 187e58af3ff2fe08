//! Adds and removes suppressions by hand, and lifts stops of classes.

use crate::{
    CrmError,
    changes::{self, Change},
    feedback::{
        store::{self, Suppression},
        suppress::{self, ChangeContext},
    },
};
use jiff::Timestamp;
use onceward::Tx;
use serde_json::json;

/// The reasons that a verified address removes.
const BOUNCES: [&str; 2] = ["hard_bounce", "soft_bounce"];

/// A suppression that a person asks for.
pub(super) struct NewSuppression {
    pub address_hash: Vec<u8>,
    pub mail_class: String,
    pub note: String,
    pub until: Option<Timestamp>,
}

/// Suppresses an address by hand. Returns the entry, and `false` if it was in force like this already.
pub(super) async fn suppress_by_hand(tx: &mut Tx, new: NewSuppression) -> Result<(Suppression, bool), CrmError> {
    if new.until.is_some_and(|until| until <= Timestamp::now()) {
        return Err(CrmError::invalid("/until", "must be in the future, or absent to suppress without an end"));
    }
    store::lock_address(tx, &new.address_hash).await?;
    let entry = Suppression {
        address_hash: new.address_hash,
        mail_class: new.mail_class,
        reason: "manual".to_owned(),
        origin: tx.scope().actor.user_id.clone().unwrap_or_else(|| "api".to_owned()).chars().take(100).collect(),
        evidence: json!({ "note": new.note }),
        since: Timestamp::now(),
        until: new.until,
    };
    let contact_id = store::contact_of_address(tx, &entry.address_hash).await?;
    let is_new = suppress::add(tx, &entry, ChangeContext { contact_id, email_id: None }).await?;
    let stored = store::suppressions_of(tx, &entry.address_hash).await?;
    let same = |one: &Suppression| one.mail_class == entry.mail_class && one.reason == entry.reason;
    Ok((stored.into_iter().find(same).unwrap_or(entry), is_new))
}

/// Which suppressions of an address are removed, and why.
pub(super) struct SuppressionRemoval {
    pub address_hash: Vec<u8>,
    /// Only those of this class.
    pub mail_class: Option<String>,
    /// Only those with this reason.
    pub suppressed_for: Option<String>,
    /// Why, for example how the address was verified.
    pub reason: String,
}

/// Removes suppressions of an address. Bounces from before do not count any more. Returns what was removed.
pub(super) async fn remove_suppressions(
    tx: &mut Tx,
    removal: &SuppressionRemoval,
) -> Result<Vec<Suppression>, CrmError> {
    store::lock_address(tx, &removal.address_hash).await?;
    let is_wanted = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
    let mut entries = store::suppressions_of(tx, &removal.address_hash).await?;
    entries.retain(|one| {
        is_wanted(&removal.mail_class, &one.mail_class) && is_wanted(&removal.suppressed_for, &one.reason)
    });
    let contact_id = store::contact_of_address(tx, &removal.address_hash).await?;
    let context = ChangeContext { contact_id, email_id: None };
    for entry in &entries {
        let named = (entry.mail_class.as_str(), entry.reason.as_str());
        suppress::remove(tx, &removal.address_hash, named, &json!(removal.reason), context).await?;
    }
    if entries.iter().any(|entry| BOUNCES.contains(&entry.reason.as_str())) {
        store::clear_bounces(tx, &removal.address_hash).await?;
    }
    Ok(entries)
}

/// Lifts the stop of a class. Fails if it is not stopped.
pub(super) async fn lift_stop(tx: &mut Tx, class: &str, reason: &str) -> Result<(), CrmError> {
    if !store::lift_class_stop(tx, class).await? {
        return Err(CrmError::NotFound("stop of this class"));
    }
    let detail = json!({ "mail_class": class, "lifted_because": reason });
    changes::record(tx, Change::new("CRM.CLASS.RESUMED", "mail_class", class).detail(detail)).await
}
