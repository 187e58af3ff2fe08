//! Takes a template out of use. Its versions stay, for the mails that were requested with them.

use super::super::store;
use crate::{
    CrmError,
    changes::{self, Change},
};
use onceward::Tx;
use serde_json::json;

/// Retires a template: nobody can request mails with it. Has no effect on a retired one.
pub(in crate::templates) async fn retire(tx: &mut Tx, template_id: &str) -> Result<(), CrmError> {
    let before = store::lock_template(tx, template_id).await?.ok_or(CrmError::NotFound("template"))?;
    if before.retired_at.is_some() {
        return Ok(());
    }
    store::retire(tx, template_id).await?;
    let change = Change::new("CRM.TEMPLATE.RETIRED", "template", template_id)
        .old(json!({ "version": before.version, "is_retired": false }))
        .new_value(json!({ "version": before.version, "is_retired": true }));
    changes::record(tx, change).await
}
