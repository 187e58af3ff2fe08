//! The commit after providers were called: results, events, audit entry and, if it settles the message, its acknowledgement.

use super::run::SendRun;
use crate::{
    CrmError,
    changes::{self, Change},
    emails::{
        RecipientState, status_of,
        store::{self, EmailUpdate, RecipientResult},
    },
    events::{EmailFailed, EmailRequested, EmailSent, EmailSuppressed},
    measure,
};
use futures_util::{future::try_join_all, try_join};
use jiff::Timestamp;
use onceward::{Received, Tx, outbox};
use serde_json::{Value, json};
use uuid::Uuid;

const REASON_MAX_CHARS: usize = 300;

/// Writes everything that the attempt has found out.
pub(super) async fn record_run(
    tx: &mut Tx,
    received: &Received<'_, EmailRequested>,
    run: &SendRun,
) -> Result<(), CrmError> {
    if run.plan.is_none() {
        return Ok(());
    }
    let (results, written): (Vec<_>, &Tx) = (run.results.iter().map(bounded).collect(), tx);
    try_join!(
        try_join_all(results.iter().map(|result| store::settle(written, run.email_id, result))),
        try_join_all(run.attempts.iter().map(|attempt| store::insert_attempt(written, run.email_id, attempt))),
    )?;
    let failure = FailureSummary::of(run);
    update_email(tx, run, failure.as_ref()).await?;
    publish_sent(tx, received, run).await?;
    if let Some(failure) = &failure {
        publish_failed(tx, received, run, failure).await?;
    }
    publish_suppressed(tx, received, run).await
}

async fn update_email(tx: &Tx, run: &SendRun, failure: Option<&FailureSummary>) -> Result<(), CrmError> {
    let (status, is_final) = status_of(&stored_states(tx, run).await?);
    let update = EmailUpdate {
        status,
        is_final,
        new_attempts: i32::from(counts_as_attempt(run)),
        last_error: failure.map(|failure| failure.message.as_str()),
        artifact_id: run.plan.as_ref().map(|plan| plan.mail.artifact_id),
    };
    Ok(store::update_email(tx, run.email_id, &update).await?)
}

/// Returns the states after the results were written. An unknown outcome may have been settled by feedback that was faster.
async fn stored_states(tx: &Tx, run: &SendRun) -> Result<Vec<RecipientState>, CrmError> {
    let states = run.states();
    if !states.contains(&RecipientState::Unknown) {
        return Ok(states);
    }
    Ok(store::recipients(tx, run.email_id).await?.iter().map(|recipient| recipient.state).collect())
}

/// A provider that could not be reached costs no attempt.
fn counts_as_attempt(run: &SendRun) -> bool {
    run.attempts.iter().any(|attempt| attempt.outcome != "provider_unavailable")
}

/// Reports that the mail was sent, once, with the first recipient that a provider has taken.
async fn publish_sent(tx: &mut Tx, received: &Received<'_, EmailRequested>, run: &SendRun) -> Result<(), CrmError> {
    let accepted = run.results.iter().filter(|result| result.state == RecipientState::Accepted);
    let (Some(first), Some(plan)) = (accepted.clone().next(), &run.plan) else { return Ok(()) };
    let requested = &received.event;
    let waited = Timestamp::now().as_millisecond() - plan.requested_at.as_millisecond();
    let duration_ms = u64::try_from(waited.max(0)).unwrap_or(0);
    let provider_message_id = first.provider_id.clone().unwrap_or_default();
    if !run.was_sent_before() {
        let sent = EmailSent {
            email_id: run.email_id,
            loan_id: plan.loan_id.clone(),
            user_id: requested.user_id.clone(),
            provider_message_id: provider_message_id.clone(),
            artifact_id: plan.mail.artifact_id,
            correlation_id: requested.correlation_id.clone(),
            duration_ms,
        };
        outbox::publish(tx, &sent).await?;
        let class = plan.class;
        tx.after_commit(move || measure::sent(class, duration_ms));
    }
    let detail = json!({
        "provider_message_id": provider_message_id,
        "recipients": accepted.count(),
        "duration_ms": duration_ms,
    });
    changes::record(tx, change("CRM.EMAIL.SENT", run, detail)).await
}

async fn publish_failed(
    tx: &mut Tx,
    received: &Received<'_, EmailRequested>,
    run: &SendRun,
    failure: &FailureSummary,
) -> Result<(), CrmError> {
    let requested = &received.event;
    let attempts_before = run.plan.as_ref().map_or(0, |plan| plan.attempts_before);
    let attempt_count = u32::try_from(attempts_before).unwrap_or(0) + u32::from(counts_as_attempt(run));
    let failed = EmailFailed {
        email_id: run.email_id,
        loan_id: requested.loan_id.clone(),
        user_id: requested.user_id.clone(),
        error_code: failure.code.to_owned(),
        error_message: failure.message.clone(),
        correlation_id: requested.correlation_id.clone(),
        attempt_count,
        handover_id: run.handover_id,
    };
    outbox::publish(tx, &failed).await?;
    let detail =
        json!({ "error_code": failure.code, "error_message": failure.message, "attempt_count": attempt_count });
    changes::record(tx, change("CRM.EMAIL.FAILED", run, detail)).await?;
    let (code, unknown) = (failure.code, run.results.iter().filter(|r| r.state == RecipientState::Unknown).count());
    tx.after_commit(move || {
        measure::failed(code);
        (0..unknown).for_each(|_| measure::unknown());
    });
    Ok(())
}

/// Reports a mail that nobody may receive any more. That is no failure.
async fn publish_suppressed(
    tx: &mut Tx,
    received: &Received<'_, EmailRequested>,
    run: &SendRun,
) -> Result<(), CrmError> {
    let mut suppressed = run.results.iter().filter(|result| result.state == RecipientState::Suppressed);
    let Some(first) = suppressed.next() else { return Ok(()) };
    let reason = first.reason.clone().unwrap_or_default();
    if status_of(&run.states()) == ("suppressed", true) {
        let event = EmailSuppressed {
            email_id: run.email_id,
            loan_id: received.event.loan_id.clone(),
            reason: reason.clone(),
            correlation_id: received.event.correlation_id.clone(),
        };
        outbox::publish(tx, &event).await?;
    }
    let detail = json!({ "reason": reason, "recipients": 1 + suppressed.count() });
    changes::record(tx, change("CRM.EMAIL.SUPPRESSED", run, detail)).await
}

/// Records that a mail can never be sent: its message becomes a dead letter. The caller commits.
pub(super) async fn record_permanent(
    tx: &mut Tx,
    received: &Received<'_, EmailRequested>,
    email_id: Uuid,
    code: &'static str,
    reason: &str,
) -> Result<(), CrmError> {
    let requested = &received.event;
    let email = store::lock_email(tx, email_id).await?;
    if email.is_some() {
        store::refuse_open(tx, email_id, reason).await?;
        let update = EmailUpdate {
            status: "failed",
            is_final: true,
            new_attempts: 0,
            last_error: Some(reason),
            artifact_id: None,
        };
        store::update_email(tx, email_id, &update).await?;
    }
    let attempt_count = email.map_or(0, |email| u32::try_from(email.attempts).unwrap_or(0));
    let failed = EmailFailed {
        email_id,
        loan_id: requested.loan_id.clone(),
        user_id: requested.user_id.clone(),
        error_code: code.to_owned(),
        error_message: reason.to_owned(),
        correlation_id: requested.correlation_id.clone(),
        attempt_count,
        handover_id: Uuid::now_v7(),
    };
    outbox::publish(tx, &failed).await?;
    let change = Change::new("CRM.EMAIL.FAILED", "email", email_id)
        .contact(requested.contact_id)
        .email(email_id)
        .loan(requested.loan_id.as_deref())
        .detail(json!({ "error_code": code, "error_message": reason, "attempt_count": attempt_count }));
    changes::record(tx, change).await?;
    tx.after_commit(move || measure::failed(code));
    Ok(())
}

fn change(event_type: &'static str, run: &SendRun, detail: Value) -> Change {
    let change = Change::new(event_type, "email", run.email_id).email(run.email_id).detail(detail);
    match &run.plan {
        None => change,
        Some(plan) => change
            .contact(plan.contact_id)
            .loan(plan.loan_id.as_deref())
            .new_value(json!({ "artifact_id": plan.mail.artifact_id, "manifest_sha256": plan.mail.manifest_sha256 })),
    }
}

/// The worst result of an attempt.
struct FailureSummary {
    code: &'static str,
    message: String,
}

impl FailureSummary {
    fn of(run: &SendRun) -> Option<Self> {
        let order = [
            (RecipientState::Unknown, "unknown"),
            (RecipientState::Refused, "refused"),
            (RecipientState::Failed, "deferred"),
            (RecipientState::Deferred, "deferred"),
            (RecipientState::Expired, "expired"),
        ];
        order.into_iter().find_map(|(state, code)| {
            let worst = run.results.iter().find(|result| result.state == state)?;
            let reply = worst.reply_code.map(|code| format!("{code} ")).unwrap_or_default();
            let reason = bounded(worst).reason.unwrap_or_default();
            Some(Self { code, message: format!("recipient {}: {reply}{reason}", worst.position) })
        })
    }
}

/// Returns the result with a reason that fits its column.
fn bounded(result: &RecipientResult) -> RecipientResult {
    let reason = result.reason.as_ref().map(|reason| reason.chars().take(REASON_MAX_CHARS).collect());
    RecipientResult { reason, ..result.clone() }
}
