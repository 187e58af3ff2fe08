//! Records consent, given or withdrawn.

use super::lock;
use crate::{
    CrmError,
    changes::{self, Change},
    contacts::{model::ConsentRecord, store},
};
use onceward::Tx;
use serde_json::json;
use uuid::Uuid;

/// Records that a contact gave or withdrew consent to a class of mail, and returns the record's id. The latest one counts.
pub(in crate::contacts) async fn record_consent(
    tx: &mut Tx,
    contact_id: Uuid,
    record: &ConsentRecord,
) -> Result<Uuid, CrmError> {
    lock(tx, contact_id, None).await?;
    let before = store::list_consents(tx, contact_id).await?;
    let before = before.iter().find(|consent| consent.class == record.class);
    let old = before.map(|consent| json!({ "consent_id": consent.consent_id, "is_given": consent.is_given }));
    let consent_id = Uuid::now_v7();
    store::insert_consent(tx, contact_id, consent_id, record).await?;
    let new = json!({
        "consent_id": consent_id,
        "class": record.class,
        "is_given": record.is_given,
        "basis": record.basis,
        "source": record.source,
        "text_version": record.text_version,
    });
    let detail = json!({ "class": record.class, "is_given": record.is_given, "basis": record.basis });
    let mut change =
        Change::new("CRM.CONSENT.RECORDED", "consent", consent_id).contact(contact_id).detail(detail).new_value(new);
    if let Some(old) = old {
        change = change.old(old);
    }
    changes::record(tx, change).await?;
    Ok(consent_id)
}
