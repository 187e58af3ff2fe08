//! The bytes of a mail: rendered once, signed, stored as an artifact, and read from there by every later attempt.
//!
//! Everything in them is determined by the request, the template's version and the sender: the Message-ID is the mail's id,
//! the date is that of the request. A crash between storing the objects and the commit therefore leaves no other objects
//! behind than the next attempt stores again.

use crate::{
    CrmError,
    artifacts::{Manifest, ManifestAttachment, ObjectName, find_artifact, insert_artifact},
    emails::{Recipients, decode_attachment, policy, store::EmailRow},
    events::{AttachedFile, EmailRequested},
    keys::DataKey,
    links::unsubscribe_url,
    senders::{MailSender, sender_for},
    state::CrmState,
    templates::StoredTemplate,
};
use futures_util::{future::try_join_all, try_join};
use onceward::{Received, Tx};
use onceward_mail::{attachment::CheckedAttachment, dkim, message::MailMessage, template::RenderedMail};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

const UNSUBSCRIBE_VARIABLE: &str = "unsubscribe_url";

/// A mail that is ready to be handed over.
pub(crate) struct PreparedMail {
    pub artifact_id: Uuid,
    pub manifest_sha256: String,
    pub message: Vec<u8>,
    pub return_path_domain: String,
}

/// Why a mail cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrepareError {
    #[error(transparent)]
    Crm(#[from] CrmError),
    /// No attempt can succeed. The text says why, without anything personal.
    #[error("{0}")]
    Permanent(String),
}

impl From<onceward::DbError> for PrepareError {
    fn from(error: onceward::DbError) -> Self {
        Self::Crm(error.into())
    }
}

/// What the mail is made of.
pub(super) struct PrepareInput<'i> {
    pub received: &'i Received<'i, EmailRequested>,
    pub email_id: Uuid,
    pub email: &'i EmailRow,
    pub template: &'i StoredTemplate,
    pub recipients: &'i Recipients,
}

/// Returns the mail from its artifact, or renders it and inserts the artifact in `tx`.
pub(super) async fn prepare(
    tx: &mut Tx,
    state: &CrmState,
    input: &PrepareInput<'_>,
) -> Result<PreparedMail, PrepareError> {
    let erased = || PrepareError::Permanent("the contact was erased".to_owned());
    let no_sender = || {
        PrepareError::Permanent("no sender is set: PUT /api/crm/senders/{domain}, or set crm.sender_address".to_owned())
    };
    let key_id = input.email.contact_id.unwrap_or(input.email_id);
    let (artifact, key, sender) = try_join!(
        async { find_artifact(tx, input.email_id).await.map_err(CrmError::from) },
        state.keys.data_key(tx, key_id),
        // A mail that was rendered before needs no sender, so an error counts only below.
        async { Ok::<_, CrmError>(sender_for(tx, &state.keys, &state.settings).await) },
    )?;
    if let Some(artifact) = artifact {
        let key = state.keys.existing_data_key(tx, artifact.key_id).await?.ok_or_else(erased)?;
        let name = ObjectName::with_hash(tx.tenant()?, input.email_id, "message", artifact.message_sha256);
        let domain = artifact.message_id.trim_end_matches('>').rsplit_once('@').map_or("", |(_, domain)| domain);
        return Ok(PreparedMail {
            artifact_id: artifact.artifact_id,
            manifest_sha256: artifact.manifest_sha256,
            message: state.objects()?.get(&name, &key).await?,
            return_path_domain: return_path_domain(state, domain),
        });
    }
    let (key, sender) = (key.ok_or_else(erased)?, sender?.ok_or_else(no_sender)?);
    let rendered = render(state, input)?;
    let attachments = attachments(tx, state, input, &key).await?;
    let message = compose(state, input, &sender, &rendered, attachments.clone())?;
    let bytes = dkim::sign(&message.to_bytes().map_err(permanent)?, &sender.dkim_keys, message.date.as_second());
    let bytes = bytes.map_err(permanent)?;
    if bytes.len() > state.settings.max_message_bytes {
        let most = state.settings.max_message_bytes;
        return Err(PrepareError::Permanent(format!("the message has {} bytes, more than {most}", bytes.len())));
    }
    let content = Content { message: &bytes, html: rendered.html.as_deref(), message_id: message.message_id_header() };
    let manifest = manifest(tx, state, input, &content, &attachments).await?;
    let manifest_sha256 = store_objects(tx, state, input.email_id, &key, &content, &manifest).await?;
    insert_artifact(tx, &manifest, key_id, &manifest_sha256).await?;
    let return_path_domain = return_path_domain(state, &sender.domain);
    Ok(PreparedMail { artifact_id: manifest.artifact_id, manifest_sha256, message: bytes, return_path_domain })
}

fn permanent(error: impl std::fmt::Display) -> PrepareError {
    PrepareError::Permanent(error.to_string())
}

fn return_path_domain(state: &CrmState, sender_domain: &str) -> String {
    let configured = &state.settings.return_path_domain;
    if configured.is_empty() { sender_domain.to_owned() } else { configured.clone() }
}

fn render(state: &CrmState, input: &PrepareInput<'_>) -> Result<RenderedMail, PrepareError> {
    let (requested, source) = (&input.received.event, input.template.checked.source());
    let mut variables: Map<String, Value> = requested.variables.clone();
    let declares = |name: &str| source.variables.iter().any(|variable| variable.name == name);
    if declares(UNSUBSCRIBE_VARIABLE) && !variables.contains_key(UNSUBSCRIBE_VARIABLE) {
        variables.insert(UNSUBSCRIBE_VARIABLE.to_owned(), json!(unsubscribe_url(state, input.email_id, 0)));
    }
    let resolved = input.template.checked.resolve(&variables).map_err(|problems| {
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        PrepareError::Permanent(format!("variables are missing or wrong: {}", paths.join(", ")))
    })?;
    let mut rendered = input.template.checked.render(&resolved).map_err(permanent)?;
    if !requested.subject.is_empty() && requested.subject != source.subject {
        rendered.subject.clone_from(&requested.subject);
    }
    Ok(rendered)
}

async fn attachments(
    tx: &Tx,
    state: &CrmState,
    input: &PrepareInput<'_>,
    key: &DataKey,
) -> Result<Vec<CheckedAttachment>, PrepareError> {
    let policy = policy(&state.settings);
    let mut checked = Vec::new();
    for file in &input.received.event.attachments {
        let AttachedFile { filename, content, sha256, media_type } = file;
        let attachment = match (content, sha256) {
            (Some(content), _) => decode_attachment(&policy, filename, media_type, content),
            (None, Some(sha256)) => {
                let name = ObjectName::with_hash(tx.tenant()?, input.email_id, "attachment", sha256.clone());
                let content = state.objects()?.get(&name, key).await?;
                policy.check(filename, content).map_err(|error| error.to_string())
            }
            (None, None) => Err("it has neither `content` nor `sha256`".to_owned()),
        };
        let wrong = |problem: String| PrepareError::Permanent(format!("attachment {}: {problem}", checked.len()));
        checked.push(attachment.map_err(wrong)?);
    }
    policy.check_all(&checked).map_err(permanent)?;
    Ok(checked)
}

fn compose(
    state: &CrmState,
    input: &PrepareInput<'_>,
    sender: &MailSender,
    rendered: &RenderedMail,
    attachments: Vec<CheckedAttachment>,
) -> Result<MailMessage, PrepareError> {
    let link = unsubscribe_url(state, input.email_id, 0);
    let needs_link = input.template.class.needs_unsubscribe_link() && link.starts_with("https://");
    Ok(MailMessage {
        message_id: input.email_id,
        date: input.email.requested_at,
        from: sender.from.clone(),
        reply_to: sender.reply_to.clone(),
        to: input.recipients.to.clone(),
        cc: input.recipients.cc.clone(),
        subject: rendered.subject.clone(),
        text: rendered.text.clone(),
        html: rendered.html.clone(),
        attachments,
        list_unsubscribe: needs_link.then_some(link),
        is_auto_submitted: true,
        headers: Vec::new(),
    })
}

/// The plain content of the artifact's objects.
struct Content<'c> {
    message: &'c [u8],
    html: Option<&'c str>,
    message_id: String,
}

async fn manifest(
    tx: &Tx,
    state: &CrmState,
    input: &PrepareInput<'_>,
    content: &Content<'_>,
    attachments: &[CheckedAttachment],
) -> Result<Manifest, CrmError> {
    let (requested, email, template) = (&input.received.event, input.email, input.template);
    let hasher = state.keys.address_hasher(tx).await?;
    let source = serde_json::to_vec(template.checked.source()).map_err(|error| CrmError::Other(error.to_string()))?;
    Ok(Manifest {
        v: Manifest::CURRENT_VERSION,
        artifact_id: Uuid::new_v5(&input.email_id, b"artifact"),
        email_id: input.email_id,
        event_id: email.event_id,
        correlation_id: requested.correlation_id.clone(),
        loan_id: email.loan_id.clone(),
        template_id: template.template_id.clone(),
        template_version: template.version,
        template_sha256: hex::encode(Sha256::digest(source)),
        class: email.class.as_str().to_owned(),
        delivery: email.delivery.clone(),
        variables_hash: email.variables_hash.clone(),
        message_id: content.message_id.clone(),
        message_sha256: hex::encode(Sha256::digest(content.message)),
        message_bytes: content.message.len(),
        html_sha256: content.html.map(|html| hex::encode(Sha256::digest(html))),
        recipients: input.recipients.envelopes().iter().map(|(_, address)| hex::encode(hasher.hash(address))).collect(),
        attachments: attachments
            .iter()
            .map(|file| ManifestAttachment {
                media_type: file.media_type().to_owned(),
                bytes: file.content().len(),
                sha256: hex::encode(file.sha256()),
            })
            .collect(),
        date: email.requested_at,
    })
}

/// Stores the objects of an artifact. Returns the hash of the manifest.
async fn store_objects(
    tx: &Tx,
    state: &CrmState,
    email_id: Uuid,
    key: &DataKey,
    content: &Content<'_>,
    manifest: &Manifest,
) -> Result<String, CrmError> {
    let (tenant, objects, manifest) = (tx.tenant()?, state.objects()?, manifest.to_bytes());
    let mut parts = vec![("message", content.message), ("manifest", manifest.as_slice())];
    parts.extend(content.html.map(|html| ("html", html.as_bytes())));
    let stored = parts.into_iter().map(|(kind, bytes)| async move {
        let name = ObjectName::of(tenant, email_id, kind, bytes);
        objects.put(&name, key, bytes).await
    });
    try_join_all(stored).await?;
    Ok(hex::encode(Sha256::digest(&manifest)))
}
