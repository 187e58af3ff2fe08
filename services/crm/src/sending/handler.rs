//! Consumes `crm.email.requested.v1`: hands the mail over, one recipient after the other.

use super::{
    handover::{Handover, hand_over},
    outcome::{record_permanent, record_run},
    provider::{OutgoingMail, ProviderDelivery, ProviderSlot, outcome_name},
    run::SendRun,
};
use crate::{
    CrmError, Settings,
    emails::{
        RecipientState,
        store::{ProviderCall, RecipientResult},
    },
    events::EmailRequested,
    keys::MailReference,
    measure,
    state::CrmState,
    topology::EMAIL_QUEUE,
};
use jiff::Timestamp;
use onceward::{
    BreakerSettings, BulkheadSettings, CallError, Consumer, Destination, Failure, LeaseContext, LeasedHandler,
    Received, RetryPolicy, Tx, outbound::OutboundError,
};
use onceward_mail::{outcome::SendOutcome, return_path::BounceTarget};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// Time for everything but the provider's answer to the end of the message.
const CALL_MARGIN: Duration = Duration::from_secs(120);
const RECORD_MARGIN: Duration = Duration::from_secs(60);
/// How long a mail waits if no provider can be reached and no breaker has opened yet.
const UNREACHABLE_WAIT: Duration = Duration::from_secs(5);
const RETRY_CAP_MS: u64 = 3_600_000;
const LEASE: Duration = Duration::from_secs(60);

/// Returns the consumer of requested mails.
pub(crate) fn consumer(state: Arc<CrmState>) -> Consumer {
    let settings = &state.settings;
    let timeout = call_timeout(settings) + RECORD_MARGIN;
    let retry = RetryPolicy::exponential(settings.attempts).initial_ms(settings.retry_ms).cap_ms(RETRY_CAP_MS);
    Consumer::leased("send-email", EMAIL_QUEUE)
        .concurrency(settings.concurrency)
        .prefetch(settings.concurrency)
        .unordered()
        .retry(retry)
        .lease(LEASE)
        .timeout(timeout.saturating_mul(u32::try_from(settings.max_recipients).unwrap_or(1)))
        .on(SendHandler { state: state.clone() })
        .into()
}

/// Returns the providers as destinations, each with its own breaker and bulkhead.
pub(crate) fn destinations(settings: &Settings) -> Vec<Destination> {
    let timeout = call_timeout(settings);
    let probe_limit_ms = u64::try_from((timeout + RECORD_MARGIN).as_millis()).unwrap_or(u64::MAX);
    let names = settings.providers.split_whitespace();
    let destination = |name: &str| {
        Destination::new(destination_name(name))
            .timeout(timeout)
            .breaker(BreakerSettings { probe_limit_ms, ..BreakerSettings::default() })
            .bulkhead(BulkheadSettings { limit: settings.concurrency, ..BulkheadSettings::default() })
    };
    names.map(destination).collect()
}

fn destination_name(provider: &str) -> String {
    format!("mail-{provider}")
}

fn call_timeout(settings: &Settings) -> Duration {
    Duration::from_millis(settings.smtp_final_timeout_ms) + CALL_MARGIN
}

struct SendHandler {
    state: Arc<CrmState>,
}

type Message<'m> = Received<'m, EmailRequested>;

/// What a call of a provider led to.
enum Step {
    /// There is no recipient left.
    Finished,
    /// A recipient has a result.
    Settled,
    /// Nothing was handed over, and this provider is of no use now.
    NextProvider(Duration),
}

impl LeasedHandler for SendHandler {
    type Event = EmailRequested;
    type Work = SendRun;

    async fn perform(&self, lease: &LeaseContext, received: &Message<'_>) -> Result<SendRun, Failure> {
        let mut run = SendRun::new(received, self.state.settings.attempts);
        let providers = self.state.providers()?;
        let mut current = 0;
        let mut shortest_wait: Option<Duration> = None;
        // Each round settles a recipient or gives up a provider.
        for _ in 0..=self.state.settings.max_recipients + providers.len() {
            let Some(slot) = providers.get(current) else {
                let wait = shortest_wait.unwrap_or(UNREACHABLE_WAIT);
                return Err(self
                    .stop(lease, received, &run, Failure::snooze(wait, "no provider takes mail now"))
                    .await);
            };
            match self.step(lease, received, &mut run, slot).await {
                Ok(Step::Finished) => return self.finish(lease, received, run).await,
                Ok(Step::Settled) => {}
                Ok(Step::NextProvider(wait)) => {
                    shortest_wait = Some(shortest_wait.map_or(wait, |shortest| shortest.min(wait)));
                    current += 1;
                }
                Err(failure) => return Err(self.stop(lease, received, &run, failure).await),
            }
        }
        Err(self.stop(lease, received, &run, Failure::transient("the mail has more recipients than expected")).await)
    }

    async fn record(&self, tx: &mut Tx, received: &Message<'_>, run: &SendRun) -> Result<(), Failure> {
        Ok(record_run(tx, received, run).await?)
    }
}

impl SendHandler {
    /// Calls one provider for the next recipient.
    async fn step(
        &self,
        lease: &LeaseContext,
        received: &Message<'_>,
        run: &mut SendRun,
        slot: &ProviderSlot,
    ) -> Result<Step, Failure> {
        if run.plan.is_some() && run.next_open().is_none() {
            return Ok(Step::Finished);
        }
        let name = slot.provider.name();
        let call = lease.call(&destination_name(name), received)?;
        let mut result: Result<Option<CallResult>, Failure> = Ok(None);
        let called = call
            .run(|_| async {
                match self.call(lease, received, run, slot).await {
                    Ok(Some(called)) => {
                        let verdict = called.verdict();
                        result = Ok(Some(called));
                        verdict
                    }
                    // Nobody was called: that says nothing about the provider.
                    Ok(None) => Err(CallError::Cancelled),
                    Err(failure) => {
                        result = Err(failure);
                        Err(CallError::Cancelled)
                    }
                }
            })
            .await;
        match (result?, called) {
            (Some(called), _) => Ok(settle(run, slot, called)),
            (None, Err(OutboundError::Rejected(rejected))) => Ok(Step::NextProvider(rejected.after)),
            (None, Err(OutboundError::Call(CallError::Cancelled)) | Ok(())) => Ok(Step::Finished),
            // The time of the call was over before or while the database answered.
            (None, Err(error)) => Err(error.into()),
        }
    }

    /// Commits the handover of the next recipient and calls the provider. Returns `None` if there is no recipient left.
    async fn call(
        &self,
        lease: &LeaseContext,
        received: &Message<'_>,
        run: &mut SendRun,
        slot: &ProviderSlot,
    ) -> Result<Option<CallResult>, Failure> {
        let handover = hand_over(lease, &self.state, received, run, slot).await?;
        let Handover::Ready { position, recipient } = handover else { return Ok(None) };
        let plan = run.plan.as_ref().ok_or_else(|| Failure::transient("the mail was not prepared"))?;
        let reference = MailReference { email_id: run.email_id, position: position.unsigned_abs() };
        let target = BounceTarget { email_id: run.email_id, recipient: reference.position };
        let return_path = self.state.keys.return_paths().address(target, &plan.mail.return_path_domain);
        let key = self.state.keys.link_token(reference);
        let mail =
            OutgoingMail { key: &key, return_path: &return_path, recipient: &recipient, message: &plan.mail.message };
        let started_at = Timestamp::now();
        let delivery = slot.provider.send(&mail).await;
        measure::called(slot.provider.name(), outcome_name(&delivery.outcome));
        Ok(Some(CallResult { position, handover_id: run.handover_id, started_at, delivery }))
    }

    /// Ends an attempt after which nothing is open, or after which a recipient must be tried again.
    async fn finish(&self, lease: &LeaseContext, received: &Message<'_>, run: SendRun) -> Result<SendRun, Failure> {
        match run.retry {
            None => Ok(run),
            Some(Some(wait)) => Err(self
                .stop(lease, received, &run, Failure::retry_after(wait, "the provider deferred the mail"))
                .await),
            Some(None) => {
                Err(self.stop(lease, received, &run, Failure::transient("the provider deferred the mail")).await)
            }
        }
    }

    /// Records what is known before the message is given back, because a failed message records nothing else. If that
    /// fails, the handover stays, and the next attempt treats its outcome as unknown.
    async fn stop(&self, lease: &LeaseContext, received: &Message<'_>, run: &SendRun, failure: Failure) -> Failure {
        let recorded = async {
            let mut tx = lease.begin().await?;
            match &failure {
                Failure::Permanent { reason } if run.results.is_empty() => {
                    record_permanent(&mut tx, received, run.email_id, run.error_code, reason).await?;
                }
                _ if run.results.is_empty() => return Ok(()),
                _ => record_run(&mut tx, received, run).await?,
            }
            tx.commit().await?;
            Ok::<_, CrmError>(())
        };
        match recorded.await {
            Ok(()) => failure,
            Err(error) => {
                tracing::warn!(
                    email_id = %run.email_id, %error,
                    "recording the results of a mail failed; what was handed over is treated as unknown"
                );
                failure
            }
        }
    }
}

/// The answer of a provider for one recipient.
struct CallResult {
    position: i16,
    handover_id: Uuid,
    started_at: Timestamp,
    delivery: ProviderDelivery,
}

impl CallResult {
    /// Returns what the answer says about the provider, for its breaker.
    fn verdict(&self) -> Result<(), CallError> {
        match &self.delivery.outcome {
            // The provider asks us to slow down. Any other deferral concerns one recipient.
            SendOutcome::Deferred { code: 421 | 429 | 503, retry_after, text, .. } => {
                Err(CallError::Throttled { retry_after: *retry_after, error: text.clone() })
            }
            SendOutcome::Accepted { .. } | SendOutcome::Refused { .. } | SendOutcome::Deferred { .. } => Ok(()),
            SendOutcome::ProviderUnavailable { reason } | SendOutcome::Unknown { reason } => {
                Err(CallError::Failed(reason.clone()))
            }
        }
    }

    fn attempt(&self, slot: &ProviderSlot) -> ProviderCall {
        let elapsed = Timestamp::now().as_millisecond() - self.started_at.as_millisecond();
        ProviderCall {
            position: self.position,
            handover_id: self.handover_id,
            provider: slot.provider.name().to_owned(),
            outcome: outcome_name(&self.delivery.outcome),
            steps: self.delivery.steps.clone(),
            started_at: self.started_at,
            duration_ms: i32::try_from(elapsed.max(0)).unwrap_or(i32::MAX),
        }
    }
}

/// Adds the answer to the attempt's results.
fn settle(run: &mut SendRun, slot: &ProviderSlot, called: CallResult) -> Step {
    run.attempts.push(called.attempt(slot));
    run.undone_handover = None;
    run.handover_id = Uuid::now_v7();
    let position = called.position;
    let may_repeat = slot.provider.deduplicates() || run.plan.as_ref().is_some_and(|plan| plan.is_at_least_once);
    let result = |state, provider_id, reply_code: Option<u16>, reason: Option<String>| RecipientResult {
        position,
        state,
        provider_id,
        reply_code: reply_code.map(i32::from),
        reason,
    };
    let deferred = if run.is_last { RecipientState::Failed } else { RecipientState::Deferred };
    let settled = match called.delivery.outcome {
        SendOutcome::Accepted { provider_id } => result(RecipientState::Accepted, provider_id, None, None),
        SendOutcome::Refused { code, text, .. } => result(RecipientState::Refused, None, Some(code), Some(text)),
        SendOutcome::Deferred { code, text, retry_after, .. } => {
            run.retry = Some(run.retry.flatten().max(retry_after));
            result(deferred, None, Some(code), Some(text))
        }
        SendOutcome::Unknown { reason } if may_repeat => {
            run.retry = Some(run.retry.flatten());
            result(deferred, None, None, Some(reason))
        }
        SendOutcome::Unknown { reason } => result(RecipientState::Unknown, None, None, Some(reason)),
        SendOutcome::ProviderUnavailable { reason } => {
            run.set_result(result(RecipientState::Queued, None, None, Some(reason)));
            run.undone_handover = Some(called.handover_id);
            return Step::NextProvider(UNREACHABLE_WAIT);
        }
    };
    run.set_result(settled);
    Step::Settled
}
