//! Deletes a DKIM key.

use super::super::store;
use crate::{
    CrmError,
    changes::{self, Change},
};
use onceward::Tx;
use serde_json::json;

/// Deletes a key. Mails that are sent from now on are signed with the domain's other active key, if it has one.
pub(in crate::senders) async fn remove_key(tx: &mut Tx, domain: &str, selector: &str) -> Result<(), CrmError> {
    if !store::lock_keys(tx, domain).await? {
        return Err(CrmError::NotFound("sender"));
    }
    let key = store::find_key(tx, domain, selector).await?.ok_or(CrmError::NotFound("DKIM key"))?;
    store::delete_key(tx, domain, selector).await?;
    let old = json!({ "selector": selector, "algorithm": key.algorithm, "is_active": key.is_active });
    changes::record(tx, Change::new("CRM.DKIM.REMOVED", "sender", domain).old(old)).await
}
