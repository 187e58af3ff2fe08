//! Sets and lifts do-not-contact. What it stops depends on the class of a mail; see `permission`.

use super::lock;
use crate::{
    CrmError,
    changes::{self, Change},
    contacts::store,
};
use onceward::Tx;
use serde_json::{Value, json};
use uuid::Uuid;

/// Stops a class of mail to a contact, or all with `*`. Returns the entry's id, and `false` if it was in force already.
pub(in crate::contacts) async fn set_do_not_contact(
    tx: &mut Tx,
    contact_id: Uuid,
    class: &str,
    reason: &str,
) -> Result<(Uuid, bool), CrmError> {
    lock(tx, contact_id, None).await?;
    if let Some(existing) = store::find_in_force(tx, contact_id, class).await? {
        return Ok((existing.dnc_id, false));
    }
    let dnc_id = Uuid::now_v7();
    store::insert_dnc(tx, contact_id, dnc_id, class, reason).await?;
    let new = view(class, reason, true);
    let change = change("CRM.DNC.SET", contact_id, dnc_id).detail(new.clone()).new_value(new);
    changes::record(tx, change).await?;
    Ok((dnc_id, true))
}

/// Lifts an entry, which stays in the history. Has no effect on one that was lifted.
pub(in crate::contacts) async fn lift_do_not_contact(
    tx: &mut Tx,
    contact_id: Uuid,
    dnc_id: Uuid,
) -> Result<(), CrmError> {
    lock(tx, contact_id, None).await?;
    let entry = store::lock_dnc(tx, contact_id, dnc_id).await?.ok_or(CrmError::NotFound("do-not-contact entry"))?;
    if entry.lifted_at.is_some() {
        return Ok(());
    }
    store::lift_dnc(tx, dnc_id).await?;
    let (old, new) = (view(&entry.class, &entry.reason, true), view(&entry.class, &entry.reason, false));
    let change = change("CRM.DNC.LIFTED", contact_id, dnc_id).detail(new.clone()).old(old).new_value(new);
    changes::record(tx, change).await
}

fn view(class: &str, reason: &str, is_in_force: bool) -> Value {
    json!({ "class": class, "reason": reason, "is_in_force": is_in_force })
}

fn change(event_type: &'static str, contact_id: Uuid, dnc_id: Uuid) -> Change {
    Change::new(event_type, "do_not_contact", dnc_id).contact(contact_id)
}
