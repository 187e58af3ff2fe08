//! Reads the attachments of a request, and stores large ones as objects before the request is committed.

use super::RequestError;
use crate::{
    CrmError, Settings, artifacts::ObjectName, events::AttachedFile, keys::DataKey, state::CrmState, store::objects,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use onceward::Tx;
use onceward_mail::attachment::{AttachmentPolicy, CheckedAttachment};
use std::collections::HashSet;
use uuid::Uuid;

/// What a caller may declare instead of the type that the content has.
const UNDECLARED: &str = "application/octet-stream";

/// Returns the rules for attachments.
pub(crate) fn policy(settings: &Settings) -> AttachmentPolicy {
    AttachmentPolicy {
        max_files: settings.max_attachments,
        max_encoded_bytes: settings.max_message_bytes,
        allowed_media_types: settings.attachment_types.split_whitespace().map(str::to_owned).collect(),
    }
}

/// Decodes and checks one attachment. Returns what is wrong with it as a sentence.
pub(crate) fn decode_attachment(
    policy: &AttachmentPolicy,
    file_name: &str,
    media_type: &str,
    base64: &str,
) -> Result<CheckedAttachment, String> {
    let content = STANDARD.decode(base64).map_err(|_| "`content` is not valid base64".to_owned())?;
    let checked = policy.check(file_name, content).map_err(|error| error.to_string())?;
    if media_type != UNDECLARED && media_type != checked.media_type() {
        return Err(format!("its content is {}, not the declared type", checked.media_type()));
    }
    Ok(checked)
}

/// Checks every attachment of a request, each and all together.
pub(super) fn check_attachments(
    settings: &Settings,
    files: &[AttachedFile],
) -> Result<Vec<CheckedAttachment>, RequestError> {
    let policy = policy(settings);
    let mut problems = Vec::new();
    let mut checked = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let content = file.content.as_deref().unwrap_or_default();
        match decode_attachment(&policy, &file.filename, &file.media_type, content) {
            Ok(attachment) => checked.push(attachment),
            Err(problem) => problems.push((format!("/attachments/{index}"), problem)),
        }
    }
    if problems.is_empty()
        && let Err(error) = policy.check_all(&checked)
    {
        problems.push(("/attachments".to_owned(), error.to_string()));
    }
    if problems.is_empty() { Ok(checked) } else { Err(RequestError::Invalid(problems)) }
}

/// Returns the attachments as they travel in the message. Large ones are stored first, if there is a transaction of its own
/// in which each object is remembered as pending before it is written.
pub(super) async fn store_attachments(
    state: &CrmState,
    key: &DataKey,
    email_id: Uuid,
    separate: Option<Tx>,
    checked: &[CheckedAttachment],
) -> Result<Vec<AttachedFile>, CrmError> {
    let mut stored = HashSet::new();
    if let Some(tx) = separate {
        let tenant = tx.tenant()?.clone();
        let is_large = |file: &&CheckedAttachment| file.content().len() > state.settings.attachment_inline_bytes;
        let large: Vec<&CheckedAttachment> = checked.iter().filter(is_large).collect();
        let names: Vec<ObjectName> =
            large.iter().map(|file| ObjectName::of(&tenant, email_id, "attachment", file.content())).collect();
        for name in &names {
            objects::remember_pending(&tx, &name.key).await?;
        }
        tx.commit().await?;
        for (name, file) in names.into_iter().zip(large) {
            state.objects()?.put(&name, key, file.content()).await?;
            stored.insert(name.sha256);
        }
    }
    Ok(checked.iter().map(|file| attached_file(file, &stored)).collect())
}

fn attached_file(file: &CheckedAttachment, stored: &HashSet<String>) -> AttachedFile {
    let sha256 = Some(hex::encode(file.sha256())).filter(|sha256| stored.contains(sha256));
    AttachedFile {
        filename: file.file_name().to_owned(),
        content: sha256.is_none().then(|| STANDARD.encode(file.content())),
        sha256,
        media_type: file.media_type().to_owned(),
    }
}
