//! Saves a version of a template. A template with mistakes is refused with all of them.

use super::super::{compile, mistakes, store};
use crate::{
    CrmError,
    changes::{self, Change},
};
use onceward::{
    Tx,
    envelope::{canonical, fingerprint_hex},
};
use onceward_mail::{
    class::{MailClass, MailDelivery},
    template::{CheckedTemplate, TemplateSource, TemplateWarning},
};
use serde_json::{Value, json};

/// What the author of a version decides.
pub(in crate::templates) struct TemplateDraft {
    pub class: MailClass,
    /// What happens if the outcome of a mail is unknown; by default the class decides.
    pub delivery: Option<MailDelivery>,
    pub source: TemplateSource,
}

/// A version that was saved, or that existed with the same content.
pub(in crate::templates) struct SavedVersion {
    pub version: i32,
    pub is_new: bool,
    pub warnings: Vec<TemplateWarning>,
}

/// A draft without mistakes, in the form that is stored.
struct CheckedDraft {
    class: MailClass,
    delivery: MailDelivery,
    source: Value,
    sha256: String,
    checked: CheckedTemplate,
}

/// Creates a template with version 1. Fails if the id is in use.
pub(in crate::templates) async fn create(
    tx: &mut Tx,
    template_id: &str,
    draft: TemplateDraft,
) -> Result<SavedVersion, CrmError> {
    let draft = check(draft).await?;
    if !store::insert_template(tx, template_id, draft.class).await? {
        let what = format!("The template {template_id} exists: save a new version of it with PUT.");
        return Err(CrmError::AlreadyExists(what));
    }
    insert(tx, template_id, 1, &draft).await?;
    record(tx, template_id, None, (1, &draft)).await?;
    Ok(SavedVersion { version: 1, is_new: true, warnings: draft.checked.warnings().to_vec() })
}

/// Saves the next version of a template. The content of the current version again is no new version, but it brings a
/// retired template back into use.
pub(in crate::templates) async fn save_version(
    tx: &mut Tx,
    template_id: &str,
    draft: TemplateDraft,
) -> Result<SavedVersion, CrmError> {
    let draft = check(draft).await?;
    let before = store::lock_template(tx, template_id).await?.ok_or(CrmError::NotFound("template"))?;
    let current = store::find_version(tx, template_id, before.version).await?;
    let current = current.ok_or_else(|| CrmError::Other(format!("the template {template_id} has no version")))?;
    let is_same = current.sha256 == draft.sha256 && current.class == draft.class && current.delivery == draft.delivery;
    let warnings = draft.checked.warnings().to_vec();
    if is_same && before.retired_at.is_none() {
        return Ok(SavedVersion { version: before.version, is_new: false, warnings });
    }
    let version = if is_same { before.version } else { before.version + 1 };
    if !is_same {
        insert(tx, template_id, version, &draft).await?;
    }
    store::set_current(tx, template_id, version, draft.class).await?;
    let old = json!({
        "version": before.version,
        "class": current.class,
        "delivery": current.delivery,
        "sha256": current.sha256,
        "is_retired": before.retired_at.is_some(),
    });
    record(tx, template_id, Some(old), (version, &draft)).await?;
    Ok(SavedVersion { version, is_new: !is_same, warnings })
}

async fn check(draft: TemplateDraft) -> Result<CheckedDraft, CrmError> {
    let TemplateDraft { class, delivery, source } = draft;
    let written = source.clone();
    let checked = compile::compile(source).await?;
    let checked =
        checked.map_err(|problems| CrmError::TemplateInvalid(mistakes::template_errors(&written, &problems)))?;
    let source = json!(checked.source());
    let canonical = canonical::to_string(&source)
        .map_err(|error| CrmError::invalid("/source/variables", format!("{error}: use smaller numbers.")))?;
    let delivery = delivery.unwrap_or_else(|| class.default_delivery());
    Ok(CheckedDraft { class, delivery, source, sha256: fingerprint_hex(canonical), checked })
}

async fn insert(tx: &Tx, template_id: &str, version: i32, draft: &CheckedDraft) -> Result<(), CrmError> {
    let CheckedDraft { class, delivery, source, sha256, .. } = draft;
    let new = store::NewTemplateVersion { template_id, version, class: *class, delivery: *delivery, source, sha256 };
    Ok(store::insert_version(tx, &new).await?)
}

async fn record(
    tx: &mut Tx,
    template_id: &str,
    old: Option<Value>,
    (version, draft): (i32, &CheckedDraft),
) -> Result<(), CrmError> {
    let new = json!({
        "version": version,
        "class": draft.class,
        "delivery": draft.delivery,
        "sha256": draft.sha256,
        "is_retired": false,
    });
    let mut change = Change::new("CRM.TEMPLATE.SAVED", "template", template_id).new_value(new);
    if let Some(old) = old {
        change = change.old(old);
    }
    changes::record(tx, change).await
}
