//! Assigns users to objects. An object has one owner and any number of assignees.

use super::loan_of;
use crate::{
    CrmError,
    changes::{self, Change},
    contacts::store,
};
use onceward::Tx;
use serde_json::json;

/// Assigns a user to an object. The previous owner of an object that gets a new one becomes an assignee.
pub(in crate::contacts) async fn set_assignment(
    tx: &mut Tx,
    object: (&str, &str),
    user_id: &str,
    duty: &str,
) -> Result<(), CrmError> {
    store::lock_assignments(tx, object).await?;
    let before = store::find_assignment(tx, object, user_id).await?.map(|assignment| assignment.duty);
    if before.as_deref() == Some(duty) {
        return Ok(());
    }
    let previous = match duty {
        "owner" => store::demote_owner(tx, object, user_id).await?,
        _ => None,
    };
    store::put_assignment(tx, object, user_id, duty).await?;
    let change = change("CRM.ASSIGNMENT.SET", object)
        .old(json!({ "user_id": user_id, "duty": before, "owner_id": previous }))
        .new_value(json!({ "user_id": user_id, "duty": duty }));
    changes::record(tx, change).await
}

/// Ends the assignment of a user.
pub(in crate::contacts) async fn remove_assignment(
    tx: &mut Tx,
    object: (&str, &str),
    user_id: &str,
) -> Result<(), CrmError> {
    store::lock_assignments(tx, object).await?;
    let before = store::find_assignment(tx, object, user_id).await?.ok_or(CrmError::NotFound("assignment"))?;
    store::delete_assignment(tx, object, user_id).await?;
    let change = change("CRM.ASSIGNMENT.REMOVED", object).old(json!({ "user_id": user_id, "duty": before.duty }));
    changes::record(tx, change).await
}

fn change(event_type: &'static str, (object_type, object_id): (&str, &str)) -> Change {
    Change::new(event_type, "assignment", format!("{object_type}/{object_id}")).loan(loan_of(object_type, object_id))
}
