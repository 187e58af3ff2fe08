//! Records one report, and everything that follows from it, in one transaction.

use super::{
    complaint_rate,
    events::{EmailBounced, EmailComplained, EmailDelivered, ReportedDelivery},
    measure,
    report::{Feedback, FeedbackKind, rank_of},
    standing,
    store::{self, MailRecipient},
    suppress,
};
use crate::{
    CrmError,
    changes::{self, Change},
    emails::{RecipientState, status_of, store as emails},
};
use onceward::{Tx, outbox};
use onceward_mail::bounce::DeliveryRank;
use serde_json::{Value, json};
use uuid::Uuid;

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppliedFeedback {
    Recorded,
    /// The same report was recorded before.
    Duplicate,
    /// The tenant has no such mail or recipient.
    UnknownMail,
}

/// Records a report. The state of the recipient, suppressions and stops of classes are derived from all recorded reports, so
/// the order in which reports arrive does not matter. Locks the mail and then the address; the caller commits.
pub(crate) async fn apply(tx: &mut Tx, feedback: &Feedback) -> Result<AppliedFeedback, CrmError> {
    let Some(recipient) = store::lock_recipient(tx, feedback.email_id, feedback.position).await? else {
        return Ok(AppliedFeedback::UnknownMail);
    };
    let Some(feedback_id) = store::insert_feedback(tx, &recipient, feedback).await? else {
        return Ok(AppliedFeedback::Duplicate);
    };
    let was_unknown = settle_unknown(tx, &recipient, feedback).await?;
    let state = update_recipient(tx, &recipient).await?;
    changes::record(tx, change(&recipient, feedback, &state, was_unknown)).await?;
    publish(tx, &recipient, feedback, feedback_id).await?;
    suppress::follow(tx, &recipient, feedback, feedback_id).await?;
    if feedback.kind == FeedbackKind::Complained {
        complaint_rate::check(tx, recipient.class).await?;
    }
    let (source, kind) = (feedback.source, feedback.kind.as_str());
    tx.after_commit(move || measure::recorded(source, kind));
    Ok(AppliedFeedback::Recorded)
}

/// Every report proves that the provider had the mail. Returns whether that was unknown before.
async fn settle_unknown(tx: &Tx, recipient: &MailRecipient, feedback: &Feedback) -> Result<bool, CrmError> {
    let MailRecipient { email_id, position, .. } = *recipient;
    let reason = format!("reported by {}: {}", feedback.source, feedback.kind.as_str());
    if !emails::resolve_unknown(tx, email_id, position, RecipientState::Accepted, &reason).await? {
        return Ok(false);
    }
    let states: Vec<_> = emails::recipients(tx, email_id).await?.iter().map(|recipient| recipient.state).collect();
    let (status, is_final) = status_of(&states);
    let update = emails::EmailUpdate { status, is_final, new_attempts: 0, last_error: None, artifact_id: None };
    emails::update_email(tx, email_id, &update).await?;
    Ok(true)
}

/// Derives the recipient's state from all reports. Returns its name.
async fn update_recipient(tx: &Tx, recipient: &MailRecipient) -> Result<String, CrmError> {
    let MailRecipient { email_id, position, .. } = *recipient;
    let reports = store::recipient_reports(tx, email_id, position).await?;
    let ranked: Vec<_> = reports.iter().map(|(kind, occurred_at)| (rank_of(kind), *occurred_at)).collect();
    let state = match standing::recipient_feedback(&ranked) {
        Some(DeliveryRank::Complained) => "complained",
        Some(DeliveryRank::Bounced) => "bounced",
        Some(DeliveryRank::Deferred) => "deferred",
        _ => "delivered",
    };
    if recipient.feedback.as_deref() != Some(state) {
        store::set_recipient_feedback(tx, email_id, position, state).await?;
    }
    Ok(state.to_owned())
}

fn change(recipient: &MailRecipient, feedback: &Feedback, state: &str, was_unknown: bool) -> Change {
    let mut detail = json!({
        "position": recipient.position,
        "source": feedback.source,
        "joined_by": feedback.joined_by.as_str(),
        "occurred_at": feedback.occurred_at,
    });
    if let FeedbackKind::Bounced { is_hard, class, status } = &feedback.kind {
        detail["is_hard"] = json!(is_hard);
        detail["bounce_class"] = json!(class);
        detail["status_code"] = json!(status);
    }
    let value = |feedback: Option<&str>, is_unknown: bool| -> Value {
        match is_unknown {
            true => json!({ "state": "unknown", "feedback": feedback }),
            false => json!({ "feedback": feedback }),
        }
    };
    Change::new(feedback.kind.audit_type(), "email", recipient.email_id)
        .contact(recipient.contact_id)
        .email(recipient.email_id)
        .loan(recipient.loan_id.as_deref())
        .old(value(recipient.feedback.as_deref(), was_unknown))
        .new_value(match was_unknown {
            true => json!({ "state": "accepted", "feedback": state }),
            false => value(Some(state), false),
        })
        .detail(detail)
}

async fn publish(
    tx: &mut Tx,
    recipient: &MailRecipient,
    feedback: &Feedback,
    feedback_id: Uuid,
) -> Result<(), CrmError> {
    let delivery = ReportedDelivery {
        feedback_id,
        email_id: recipient.email_id,
        position: recipient.position,
        address_hash: hex::encode(&recipient.address_hash),
        mail_class: recipient.class.as_str().to_owned(),
        loan_id: recipient.loan_id.clone(),
        correlation_id: recipient.correlation_id.clone(),
        source: feedback.source.to_owned(),
        occurred_at: feedback.occurred_at,
    };
    match &feedback.kind {
        FeedbackKind::Deferred => return Ok(()),
        FeedbackKind::Delivered => outbox::publish(tx, &EmailDelivered { delivery }).await?,
        FeedbackKind::Complained => outbox::publish(tx, &EmailComplained { delivery }).await?,
        FeedbackKind::Bounced { is_hard, class, status } => {
            let (bounce_class, status_code) = (class.clone(), status.clone());
            outbox::publish(tx, &EmailBounced { delivery, is_hard: *is_hard, bounce_class, status_code }).await?
        }
    };
    Ok(())
}
