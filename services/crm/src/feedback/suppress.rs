//! Suppresses addresses, and ends suppressions. Each change has one audit entry.
//!
//! | report | suppresses | until |
//! | --- | --- | --- |
//! | hard bounce | all classes | the address is verified |
//! | complaint | all classes but legal mail | for ever |
//! | soft bounces | all classes | 7 days, then 30; a delivery ends it |
//! | unsubscription | its class | the recipient subscribes again |

use super::{
    measure,
    report::{Feedback, FeedbackKind},
    standing,
    store::{self, MailRecipient, Suppression},
};
use crate::{
    CrmError,
    changes::{self, Change},
};
use jiff::Timestamp;
use onceward::Tx;
use onceward_mail::class::MailClass;
use serde_json::{Value, json};
use uuid::Uuid;

const ALL_CLASSES: &str = "*";

/// The mail and the contact that a change of a suppression appears with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangeContext {
    pub contact_id: Option<Uuid>,
    pub email_id: Option<Uuid>,
}

impl ChangeContext {
    fn of(recipient: &MailRecipient) -> Self {
        Self { contact_id: recipient.contact_id, email_id: Some(recipient.email_id) }
    }
}

/// Suppresses what a recorded report demands, or ends what it ends. Locks the address.
pub(super) async fn follow(
    tx: &mut Tx,
    recipient: &MailRecipient,
    feedback: &Feedback,
    feedback_id: Uuid,
) -> Result<(), CrmError> {
    let cleared_at = store::lock_address(tx, &recipient.address_hash).await?;
    let context = ChangeContext::of(recipient);
    let entry = |reason: &str, since, until| Suppression {
        address_hash: recipient.address_hash.clone(),
        mail_class: ALL_CLASSES.to_owned(),
        reason: reason.to_owned(),
        origin: feedback.source.to_owned(),
        evidence: evidence(feedback, feedback_id),
        since,
        until,
    };
    match &feedback.kind {
        FeedbackKind::Complained => add(tx, &entry("complaint", feedback.occurred_at, None), context).await.map(drop),
        _ if feedback.kind.is_hard() => {
            // A late report about the time before the address was verified proves nothing.
            if cleared_at.is_some_and(|at| feedback.occurred_at <= at) {
                return Ok(());
            }
            add(tx, &entry("hard_bounce", feedback.occurred_at, None), context).await.map(drop)
        }
        FeedbackKind::Deferred => Ok(()),
        FeedbackKind::Bounced { .. } | FeedbackKind::Delivered => {
            let reports = store::address_reports(tx, &recipient.address_hash).await?;
            match standing::soft_stop(&reports, cleared_at) {
                Some(stop) => add(tx, &entry("soft_bounce", stop.since, Some(stop.until)), context).await.map(drop),
                None => {
                    let why = json!("delivered");
                    remove(tx, &recipient.address_hash, (ALL_CLASSES, "soft_bounce"), &why, context).await.map(drop)
                }
            }
        }
    }
}

fn evidence(feedback: &Feedback, feedback_id: Uuid) -> Value {
    let mut evidence = json!({
        "feedback_id": feedback_id,
        "email_id": feedback.email_id,
        "joined_by": feedback.joined_by.as_str(),
    });
    if let FeedbackKind::Bounced { class, status, .. } = &feedback.kind {
        evidence["bounce_class"] = json!(class);
        evidence["status_code"] = json!(status);
    }
    evidence
}

/// Adds a suppression, or changes its time. Returns `false` if it was in force like this already.
pub(super) async fn add(tx: &mut Tx, entry: &Suppression, context: ChangeContext) -> Result<bool, CrmError> {
    if !store::put_suppression(tx, entry).await? {
        return Ok(false);
    }
    let detail = json!({
        "mail_class": entry.mail_class,
        "reason": entry.reason,
        "origin": entry.origin,
        "until": entry.until,
    });
    let new = json!({ "mail_class": entry.mail_class, "reason": entry.reason, "evidence": entry.evidence });
    record(tx, "CRM.SUPPRESSION.ADDED", &entry.address_hash, context, |change| change.new_value(new).detail(detail))
        .await?;
    Ok(true)
}

/// Removes a suppression, named by its class and reason, and records `why`. Returns `false` if there is none.
pub(super) async fn remove(
    tx: &mut Tx,
    address_hash: &[u8],
    (mail_class, reason): (&str, &str),
    why: &Value,
    context: ChangeContext,
) -> Result<bool, CrmError> {
    if !store::delete_suppression(tx, address_hash, mail_class, reason).await? {
        return Ok(false);
    }
    let old = json!({ "mail_class": mail_class, "reason": reason });
    let detail = json!({ "mail_class": mail_class, "reason": reason, "removed_because": why });
    record(tx, "CRM.SUPPRESSION.REMOVED", address_hash, context, |change| change.old(old).detail(detail)).await?;
    Ok(true)
}

async fn record(
    tx: &mut Tx,
    event_type: &'static str,
    address_hash: &[u8],
    context: ChangeContext,
    describe: impl FnOnce(Change) -> Change,
) -> Result<(), CrmError> {
    let mut change = Change::new(event_type, "suppression", hex::encode(address_hash)).contact(context.contact_id);
    if let Some(email_id) = context.email_id {
        change = change.email(email_id);
    }
    changes::record(tx, describe(change)).await
}

/// Unsubscribes a recipient of a mail from a class. Returns `false` if the address was unsubscribed already.
pub(crate) async fn unsubscribe(
    tx: &mut Tx,
    recipient: &MailRecipient,
    class: MailClass,
    origin: &str,
) -> Result<bool, CrmError> {
    let entry = Suppression {
        address_hash: recipient.address_hash.clone(),
        mail_class: class.as_str().to_owned(),
        reason: "unsubscribed".to_owned(),
        origin: origin.to_owned(),
        evidence: json!({ "email_id": recipient.email_id }),
        since: Timestamp::now(),
        until: None,
    };
    let is_new = add(tx, &entry, ChangeContext::of(recipient)).await?;
    if is_new {
        tx.after_commit(move || measure::unsubscribed(class.as_str()));
    }
    Ok(is_new)
}

/// Ends the unsubscription of a recipient from a class. Other suppressions stay. Returns `false` if there was none.
pub(crate) async fn resubscribe(
    tx: &mut Tx,
    recipient: &MailRecipient,
    class: MailClass,
    origin: &str,
) -> Result<bool, CrmError> {
    let entry = (class.as_str(), "unsubscribed");
    remove(tx, &recipient.address_hash, entry, &json!(origin), ChangeContext::of(recipient)).await
}
