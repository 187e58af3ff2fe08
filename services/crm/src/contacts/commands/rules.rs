//! Sets and removes the rules of jurisdictions.

use crate::{
    CrmError,
    changes::{self, Change},
    contacts::store,
};
use onceward::Tx;
use serde_json::{Value, json};

/// Sets what a jurisdiction demands for a class of mail.
pub(in crate::contacts) async fn set_rule(
    tx: &mut Tx,
    (jurisdiction, class): (&str, &str),
    demand: &str,
    reason: &str,
) -> Result<(), CrmError> {
    let before = store::find_rule(tx, jurisdiction, class).await?;
    let old = before.map(|rule| view(&rule.demand, &rule.reason));
    let new = view(demand, reason);
    if old.as_ref() == Some(&new) {
        return Ok(());
    }
    store::put_rule(tx, (jurisdiction, class), demand, reason).await?;
    let mut change = change("CRM.RULE.SET", jurisdiction, class).new_value(new);
    if let Some(old) = old {
        change = change.old(old);
    }
    changes::record(tx, change).await
}

/// Removes a rule: the jurisdiction demands nothing special for the class.
pub(in crate::contacts) async fn remove_rule(tx: &mut Tx, jurisdiction: &str, class: &str) -> Result<(), CrmError> {
    let rule = store::find_rule(tx, jurisdiction, class).await?.ok_or(CrmError::NotFound("rule"))?;
    store::delete_rule(tx, jurisdiction, class).await?;
    let change = change("CRM.RULE.REMOVED", jurisdiction, class).old(view(&rule.demand, &rule.reason));
    changes::record(tx, change).await
}

fn view(demand: &str, reason: &str) -> Value {
    json!({ "demand": demand, "reason": reason })
}

fn change(event_type: &'static str, jurisdiction: &str, class: &str) -> Change {
    Change::new(event_type, "jurisdiction_rule", format!("{jurisdiction}/{class}"))
}
