//! Makes a DKIM key sign.

use super::super::store::{self, DkimKeyRow};
use crate::{
    CrmError,
    changes::{self, Change},
};
use onceward::Tx;
use serde_json::json;

/// Activates a key, and deactivates the one with the same algorithm. Has no effect on an active key.
pub(in crate::senders) async fn activate_key(
    tx: &mut Tx,
    domain: &str,
    selector: &str,
) -> Result<DkimKeyRow, CrmError> {
    if !store::lock_keys(tx, domain).await? {
        return Err(CrmError::NotFound("sender"));
    }
    let key = store::find_key(tx, domain, selector).await?.ok_or(CrmError::NotFound("DKIM key"))?;
    if key.is_active {
        return Ok(key);
    }
    let previous = store::activate_key(tx, &key).await?;
    let change = Change::new("CRM.DKIM.ACTIVATED", "sender", domain)
        .old(json!({ "selector": previous, "algorithm": key.algorithm }))
        .new_value(json!({ "selector": selector, "algorithm": key.algorithm }));
    changes::record(tx, change).await?;
    Ok(DkimKeyRow { is_active: true, ..key })
}
