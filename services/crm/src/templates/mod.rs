//! Templates: immutable versions, checked when they are saved.
//!
//! Reading order: `commands` (saving, retiring, the ready templates), `store`, `compile`, `preview`, `routes`. The sending
//! path calls [`load`], which keeps compiled versions in a [`TemplateCache`].

mod cache;
mod commands;
mod compile;
mod mistakes;
mod preview;
mod routes;
mod schemas;
mod store;

pub(crate) use cache::TemplateCache;
pub(crate) use mistakes::variable_errors;
pub(crate) use routes::routes;
pub(crate) use schemas::SCHEMAS;
pub(crate) use store::delivery_name;

use crate::CrmError;
use onceward::Tx;
use onceward_mail::{
    class::{MailClass, MailDelivery},
    template::CheckedTemplate,
};
use std::sync::Arc;

/// A version of a template, ready to be rendered.
#[derive(Debug)]
pub(crate) struct StoredTemplate {
    pub template_id: String,
    pub version: i32,
    pub class: MailClass,
    pub delivery: MailDelivery,
    pub checked: CheckedTemplate,
}

/// Returns a version of a template, also of a retired one. Without a `version` it returns the latest one of a template that
/// is not retired. `None` means that there is no such template or version.
///
/// The version is cached, so it must not be called in the transaction that saves the version.
pub(crate) async fn load(
    tx: &Tx,
    cache: &TemplateCache,
    template_id: &str,
    version: Option<i32>,
) -> Result<Option<Arc<StoredTemplate>>, CrmError> {
    let version = match version {
        Some(version) => version,
        None => match store::current_version(tx, template_id).await? {
            Some(version) => version,
            None => return Ok(None),
        },
    };
    let tenant = tx.tenant()?;
    if let Some(template) = cache.get(tenant, template_id, version) {
        return Ok(Some(template));
    }
    let Some(row) = store::find_version(tx, template_id, version).await? else { return Ok(None) };
    let rejected = || {
        let what = format!("version {version} of the template {template_id} is rejected by the current rules");
        CrmError::Other(format!("{what}: save a new version"))
    };
    let checked = compile::compile(row.source).await?.map_err(|_| rejected())?;
    let template = Arc::new(StoredTemplate {
        template_id: template_id.to_owned(),
        version,
        class: row.class,
        delivery: row.delivery,
        checked,
    });
    cache.insert(tenant, &template);
    Ok(Some(template))
}
