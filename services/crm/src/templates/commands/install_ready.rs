//! Installs the templates that come with the product, as a beginning for the tenant's own.

use super::{TemplateDraft, create};
use crate::{CrmError, templates::store};
use onceward::Tx;
use onceward_mail::template::ready_templates;

/// Creates the ready templates that do not exist yet, and returns their ids. Existing ones are left as they are.
pub(in crate::templates) async fn install_ready(tx: &mut Tx) -> Result<Vec<String>, CrmError> {
    let mut installed = Vec::new();
    for ready in ready_templates() {
        let template_id = ready.key.replace('/', "-");
        if store::find_template(tx, &template_id).await?.is_some() {
            continue;
        }
        let class = ready.class.parse().map_err(|error| CrmError::Other(format!("{}: {error}", ready.key)))?;
        create(tx, &template_id, TemplateDraft { class, delivery: None, source: ready.source }).await?;
        installed.push(template_id);
    }
    Ok(installed)
}
