//! Reads a returned mail and records what it reports, in one transaction. LMTP and the maildir end here.

use super::{
    AppliedFeedback, Feedback, FeedbackKind, apply,
    mail_lookup::{self, ReportTarget, TokenProof},
    measure,
};
use crate::{CrmError, keys::AddressHasher, state::CrmState};
use bytes::Bytes;
use jiff::Timestamp;
use onceward::{Actor, Db, Scope};
use onceward_mail::{
    address::EmailAddress,
    bounce::{BounceClassifier, RecipientAction, ReportedRecipient, ReturnedMail, ReturnedMailKind},
};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// The bytes of a report that are read. What follows is the content of the returned mail.
const HEAD_BYTES: usize = 1024 * 1024;
const SERVICE: &str = "crm-returned-mail";
const CLASS_MAX_CHARS: usize = 50;
const STATUS_MAX_CHARS: usize = 20;

static CLASSIFIER: LazyLock<BounceClassifier> = LazyLock::new(BounceClassifier::bundled);

/// A message that arrived at a return path.
#[derive(Clone, Debug)]
pub(crate) struct IncomingReport {
    /// The beginning of the message.
    head: Bytes,
    /// The hash of the whole message, by which a repetition is recognised.
    sha256: String,
}

/// Collects the bytes of a message: keeps the beginning, and hashes everything.
#[derive(Default)]
pub(crate) struct ReportReader {
    head: Vec<u8>,
    hash: Sha256,
}

impl ReportReader {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    pub(crate) fn finish(self) -> IncomingReport {
        IncomingReport { head: self.head.into(), sha256: hex::encode(self.hash.finalize()) }
    }
}

/// What became of a report. Each of them is final: the sender must not send the report again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntakeResult {
    Recorded,
    /// It was recorded before.
    Duplicate,
    /// It is no report about a mail of ours; the name of the reason is counted.
    Ignored(&'static str),
}

/// Records a report that was sent to `envelope_recipient`. After an error nothing is recorded, and the report must be sent
/// again.
pub(crate) async fn intake(
    state: &CrmState,
    db: &Db,
    source: &'static str,
    report: &IncomingReport,
    envelope_recipient: Option<&str>,
) -> Result<IntakeResult, CrmError> {
    let head = report.head.clone();
    let read = tokio::task::spawn_blocking(move || ReturnedMail::read(&head)).await;
    let mail = read.map_err(|error| CrmError::Other(format!("reading a returned mail failed: {error}")))?;
    let result = match target(state, db, envelope_recipient, &mail).await? {
        Ok(target) => record(state, db, source, report, &mail, target).await?,
        Err(reason) => IntakeResult::Ignored(reason),
    };
    match result {
        IntakeResult::Ignored(reason) => measure::ignored(source, reason),
        IntakeResult::Duplicate => measure::ignored(source, "duplicate"),
        IntakeResult::Recorded => {}
    }
    Ok(result)
}

/// Returns the recipient that the report is about, or why it is ignored.
async fn target(
    state: &CrmState,
    db: &Db,
    envelope_recipient: Option<&str>,
    mail: &ReturnedMail,
) -> Result<Result<ReportTarget, &'static str>, CrmError> {
    match mail.kind {
        ReturnedMailKind::AutoReply => return Ok(Err("auto_reply")),
        ReturnedMailKind::Other => return Ok(Err("no_report")),
        _ => {}
    }
    let found = match mail_lookup::token_proof(&state.keys, envelope_recipient, mail) {
        TokenProof::Forged => return Ok(Err("forged_token")),
        TokenProof::Signed(reference) => mail_lookup::by_token(db, reference).await?,
        TokenProof::Missing => match (mail.kind, &mail.returned_message_id) {
            (ReturnedMailKind::Complaint, Some(message_id)) => mail_lookup::by_message_id(db, message_id).await?,
            _ => return Ok(Err("no_token")),
        },
    };
    Ok(found.ok_or("unknown_mail"))
}

async fn record(
    state: &CrmState,
    db: &Db,
    source: &'static str,
    report: &IncomingReport,
    mail: &ReturnedMail,
    target: ReportTarget,
) -> Result<IntakeResult, CrmError> {
    let actor = Actor { user_id: None, service: Some(SERVICE.to_owned()) };
    let mut tx = db.begin(Scope { actor, ..Scope::for_tenant(target.tenant) }).await?;
    let ReportTarget { email_id, position, joined_by, .. } = target;
    let Some(recipient) = super::store::lock_recipient(&tx, email_id, position).await? else {
        return Ok(IntakeResult::Ignored("unknown_mail"));
    };
    let hasher = state.keys.address_hasher(&tx).await?;
    let Some(kind) = feedback_kind(mail, &hasher, &recipient.address_hash) else {
        return Ok(IntakeResult::Ignored("no_delivery"));
    };
    let source_id = report.sha256.clone();
    let occurred_at = Timestamp::now();
    let feedback = Feedback { source, source_id, email_id, position, kind, joined_by, occurred_at };
    let applied = apply(&mut tx, &feedback).await?;
    tx.commit().await?;
    Ok(match applied {
        AppliedFeedback::Recorded => IntakeResult::Recorded,
        AppliedFeedback::Duplicate => IntakeResult::Duplicate,
        AppliedFeedback::UnknownMail => IntakeResult::Ignored("unknown_mail"),
    })
}

/// Returns what a report says about the recipient with this hash.
fn feedback_kind(mail: &ReturnedMail, hasher: &AddressHasher, address_hash: &[u8]) -> Option<FeedbackKind> {
    let is_recipient = |one: &&ReportedRecipient| {
        let address = one.address.as_deref().and_then(|address| EmailAddress::parse(address).ok());
        address.is_some_and(|address| hasher.hash(&address) == address_hash)
    };
    let named: Vec<&ReportedRecipient> = mail.recipients.iter().filter(is_recipient).collect();
    // A forwarded mail is reported under the address that it was forwarded to.
    let about = if named.is_empty() { mail.recipients.iter().collect() } else { named };
    let any = |action: RecipientAction| about.iter().any(|one| one.action == action);
    match mail.kind {
        ReturnedMailKind::Complaint => Some(FeedbackKind::Complained),
        ReturnedMailKind::Bounce if any(RecipientAction::Failed) => Some(bounce(&about)),
        _ if any(RecipientAction::Delayed) => Some(FeedbackKind::Deferred),
        _ if any(RecipientAction::Delivered) => Some(FeedbackKind::Delivered),
        _ => None,
    }
}

/// Several failures, of a mail that was forwarded to several addresses, are hard only if all are.
fn bounce(about: &[&ReportedRecipient]) -> FeedbackKind {
    let failed: Vec<_> = about.iter().filter(|one| one.action == RecipientAction::Failed).collect();
    let verdicts: Vec<_> = failed.iter().map(|one| CLASSIFIER.classify(one)).collect();
    let is_hard = failed.len() == about.len() && verdicts.iter().all(|verdict| verdict.is_hard);
    let telling = verdicts.iter().position(|verdict| verdict.is_hard == is_hard).unwrap_or(0);
    let class = verdicts.get(telling).map_or("undetermined", |verdict| verdict.class.as_str());
    let status = failed.get(telling).and_then(|one| one.status.as_deref());
    FeedbackKind::Bounced {
        is_hard,
        class: class.chars().take(CLASS_MAX_CHARS).collect(),
        status: status.map(|status| status.chars().take(STATUS_MAX_CHARS).collect()),
    }
}
