//! The commit before a provider is called: the mail's rows and artifact, the checks, and `handed_over`.

use super::{
    prepare::{PrepareError, PrepareInput, prepare},
    provider::ProviderSlot,
    run::{SendPlan, SendRun},
};
use crate::{
    emails::{RecipientField, RecipientState, Recipients, Registration, register, store},
    events::EmailRequested,
    measure,
    permission::{Denial, facts_of},
    state::CrmState,
    templates::{self, StoredTemplate},
};
use jiff::Timestamp;
use onceward::{Failure, LeaseContext, Received, Tx};
use onceward_mail::address::EmailAddress;
use std::sync::Arc;

/// What the commit led to.
pub(super) enum Handover {
    /// The provider is to be called for this recipient.
    Ready { position: i16, recipient: EmailAddress },
    /// There is no recipient left.
    NothingLeft,
}

/// Commits that the next recipient's mail is about to be handed over. The first time, it also inserts the mail's rows and
/// its artifact, and decides about recipients that an earlier attempt left handed over.
pub(super) async fn hand_over(
    lease: &LeaseContext,
    state: &CrmState,
    received: &Received<'_, EmailRequested>,
    run: &mut SendRun,
    slot: &ProviderSlot,
) -> Result<Handover, Failure> {
    let recipients = parse_recipients(state, &received.event)?;
    let mut tx = lease.begin().await?;
    if run.plan.is_none() {
        run.plan = Some(plan(&mut tx, state, received, &recipients, run, slot).await?);
    }
    let handover = next(&tx, received, &recipients, run, slot).await?;
    tx.commit().await?;
    Ok(handover)
}

fn parse_recipients(state: &CrmState, requested: &EmailRequested) -> Result<Recipients, Failure> {
    let max = state.settings.max_recipients;
    let parsed = Recipients::parse(&requested.to, &requested.cc, &requested.bcc, max);
    parsed.map_err(|problems| {
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        Failure::permanent(format!("the recipients are invalid: {}", paths.join(", ")))
    })
}

/// Registers the mail if another service requested it, renders it if that was not done, and reads its recipients.
async fn plan(
    tx: &mut Tx,
    state: &CrmState,
    received: &Received<'_, EmailRequested>,
    recipients: &Recipients,
    run: &mut SendRun,
    slot: &ProviderSlot,
) -> Result<SendPlan, Failure> {
    let requested = &received.event;
    let hasher = state.keys.address_hasher(tx).await?;
    let email = match store::lock_email(tx, run.email_id).await? {
        Some(email) => email,
        None => {
            let template = template(tx, state, &requested.template_id, requested.template_version).await?;
            let event_id = received.envelope.event_id;
            let new = Registration { email_id: run.email_id, event_id, requested, template: &template, recipients };
            register(tx, &hasher, &new).await?;
            let missing = || Failure::transient("the mail was registered by another worker");
            store::lock_email(tx, run.email_id).await?.ok_or_else(missing)?
        }
    };
    let template = template(tx, state, &email.template_id, Some(email.template_version)).await?;
    let input = PrepareInput { received, email_id: run.email_id, email: &email, template: &template, recipients };
    let mail = match prepare(tx, state, &input).await {
        Ok(mail) => mail,
        Err(PrepareError::Crm(error)) => return Err(error.into()),
        Err(PrepareError::Permanent(reason)) => {
            run.error_code = "rendering";
            return Err(Failure::permanent(reason));
        }
    };
    let rows = store::recipients(tx, run.email_id).await?;
    let mut plan = SendPlan {
        mail,
        recipients: rows,
        contact_id: email.contact_id,
        loan_id: email.loan_id.clone(),
        class: email.class.as_str(),
        is_at_least_once: email.is_at_least_once,
        requested_at: email.requested_at,
        attempts_before: email.attempts,
    };
    settle_lost(run, &mut plan, email.is_at_least_once || slot.provider.deduplicates());
    if email.not_after.is_some_and(|time| time <= Timestamp::now()) {
        for row in plan.recipients.iter().filter(|row| row.state.is_open()) {
            run.settle(row.position, RecipientState::Expired, "it was not sent before its latest time");
        }
    }
    Ok(plan)
}

/// Decides about recipients whose mail an earlier attempt handed over without recording the result.
fn settle_lost(run: &mut SendRun, plan: &mut SendPlan, may_repeat: bool) {
    for row in plan.recipients.iter_mut().filter(|row| row.state == RecipientState::HandedOver) {
        if may_repeat {
            row.state = RecipientState::Deferred;
        } else {
            let reason = "the worker died or was stopped after the handover, before it recorded the result";
            run.settle(row.position, RecipientState::Unknown, reason);
        }
    }
}

/// Takes the next recipient who may be written to, and records the handover.
async fn next(
    tx: &Tx,
    received: &Received<'_, EmailRequested>,
    recipients: &Recipients,
    run: &mut SendRun,
    slot: &ProviderSlot,
) -> Result<Handover, Failure> {
    let envelopes = recipients.envelopes();
    // Each round decides about one recipient.
    for _ in 0..=envelopes.len() {
        let Some(row) = run.next_open().cloned() else { return Ok(Handover::NothingLeft) };
        let missing = || Failure::permanent("the recipients of the message differ from those that were registered");
        let (_, address): &(RecipientField, &EmailAddress) =
            usize::try_from(row.position).ok().and_then(|index| envelopes.get(index)).ok_or_else(missing)?;
        let class = run.plan.as_ref().and_then(|plan| plan.class.parse().ok()).ok_or_else(missing)?;
        let facts = facts_of(tx, class, received.event.contact_id, std::slice::from_ref(&row.address_hash)).await?;
        if let Some(denial) = facts.first().and_then(|facts| Denial::decide(class, facts)) {
            measure::suppressed(denial.code());
            run.settle(row.position, RecipientState::Suppressed, denial.code());
            continue;
        }
        if let Err(wait) = slot.rates.acquire(address.domain()) {
            return Err(Failure::snooze(wait, "the rate of the provider or the recipient's domain is reached"));
        }
        let (handover_id, undone) = (run.handover_id, run.undone_handover);
        let reopened = row.state == RecipientState::Deferred;
        let name = slot.provider.name();
        if store::hand_over(tx, run.email_id, row.position, handover_id, undone, name).await? {
            return Ok(Handover::Ready { position: row.position, recipient: (*address).clone() });
        }
        if reopened && store::repeat(tx, run.email_id, row.position, handover_id, name).await? {
            return Ok(Handover::Ready { position: row.position, recipient: (*address).clone() });
        }
        return Err(Failure::transient("another worker hands this mail over"));
    }
    Ok(Handover::NothingLeft)
}

async fn template(
    tx: &Tx,
    state: &CrmState,
    template_id: &str,
    version: Option<i32>,
) -> Result<Arc<StoredTemplate>, Failure> {
    let template = templates::load(tx, &state.templates, template_id, version).await?;
    template.ok_or_else(|| Failure::permanent(format!("there is no template {template_id}, or it was retired")))
}
