//! One attempt: sends the request, if the endpoint's breaker allows it, then records the result.

use super::waiting::WaitingEndpoints;
use crate::{
    Settings,
    client::{AttemptResult, WebhookClient, WebhookMessage},
    commands, destination,
    error::WebhookError,
    measure, retry,
    store::{self, AttemptRecord, ClaimedDelivery},
    vault::{SecretOwner, Vault},
};
use jiff::Timestamp;
use onceward::{
    Db, DbError, Scope,
    envelope::TraceContext,
    outbound::{Outbound, OutboundError, Rejected},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tracing::{Instrument, Span, field};

const GONE: &str = "it responded 410 Gone: it does not want any more messages";

/// Attempts recorded concurrently. Hundreds may end at once, and other tasks need connections, too.
const MAX_CONCURRENT_RECORDS: usize = 4;

/// Sends claimed deliveries and records their results.
pub(super) struct DeliverySender {
    pub db: Db,
    pub settings: Arc<Settings>,
    pub waiting: WaitingEndpoints,
    outbound: Outbound,
    client: WebhookClient,
    vault: Vault,
    record_permits: Semaphore,
}

/// Creates the span of one request. It omits the URL, whose path may contain a secret.
fn request_span(delivery: &ClaimedDelivery) -> Span {
    let span = tracing::info_span!(
        "webhook",
        otel.kind = "client",
        delivery_id = %delivery.delivery_id,
        endpoint_id = %delivery.endpoint_id,
        event_type = delivery.event_type,
        tenant = %delivery.tenant,
        attempt = delivery.attempts + 1,
        status = field::Empty,
        error = field::Empty,
    );
    if let Some(parent) = &delivery.trace {
        onceward::spans::continue_from(&span, parent);
    }
    span
}

impl DeliverySender {
    pub(super) fn new(db: Db, outbound: Outbound, settings: Arc<Settings>) -> Result<Self, reqwest::Error> {
        let client = WebhookClient::new(&settings)?;
        let vault = Vault::new(&settings);
        let waiting = WaitingEndpoints::new(outbound.clone());
        let record_permits = Semaphore::new(MAX_CONCURRENT_RECORDS);
        Ok(Self { db, settings, waiting, outbound, client, vault, record_permits })
    }

    pub(super) async fn deliver(self: Arc<Self>, delivery: ClaimedDelivery) {
        let started_at = Timestamp::now();
        let span = request_span(&delivery);
        let result = match self.attempt(&delivery, &span).instrument(span.clone()).await {
            Ok(result) => result,
            Err(rejected) => return self.put_back(&delivery, &rejected).await,
        };
        span.record("status", result.status);
        span.record("error", result.error.as_deref());
        measure::record_attempt(&result);
        tracing::debug!(
            delivery_id = %delivery.delivery_id, endpoint_id = %delivery.endpoint_id, tenant = %delivery.tenant,
            event_type = %delivery.event_type, status = result.status, error = result.error, "webhook attempt"
        );
        if let Err(error) = self.record(&delivery, started_at, &result).await {
            tracing::warn!(
                delivery_id = %delivery.delivery_id, %error,
                "recording a webhook attempt failed; the message is sent again with the same id"
            );
        }
    }

    /// Sends the request, unless the endpoint's breaker or its retry budget rejects it. A probe that fails is an attempt like
    /// any other: the owner finds it in the log, and the delivery's own schedule goes on.
    async fn attempt(&self, delivery: &ClaimedDelivery, span: &Span) -> Result<AttemptResult, Rejected> {
        let retry_after_max = Duration::from_secs(self.settings.retry_after_max_s);
        let mut sent = None;
        let call = match self.outbound.call(destination::NAME) {
            Ok(call) => call,
            Err(error) => return Ok(AttemptResult::not_sent(error.to_string())),
        };
        let called = call
            .credential(&destination::credential(delivery.endpoint_id, &delivery.url))
            .tenant(delivery.tenant.as_str())
            .retry(delivery.attempts > 0)
            .run(async |_| {
                let result = self.send(delivery, span).await;
                let verdict = destination::verdict(&result, retry_after_max);
                sent = Some(result);
                verdict
            })
            .await;
        match (sent, called) {
            (Some(result), _) => Ok(result),
            (None, Err(OutboundError::Rejected(rejected))) => Err(rejected),
            (None, Err(error)) => Ok(AttemptResult::without_response(error.to_string())),
            (None, Ok(())) => Ok(AttemptResult::not_sent("the request was not sent".to_owned())),
        }
    }

    /// Returns a delivery whose request was rejected, without counting an attempt.
    async fn put_back(&self, delivery: &ClaimedDelivery, rejected: &Rejected) {
        self.waiting.add(delivery, rejected);
        let returned = async {
            let _permit = self.record_permits.acquire().await;
            let tx = self.db.begin(scope_of(delivery)).await?;
            store::postpone_delivery(&tx, delivery.delivery_id, delivery.lease, rejected.after).await?;
            tx.commit().await?;
            Ok::<_, DbError>(())
        };
        if let Err(error) = returned.await {
            tracing::warn!(
                delivery_id = %delivery.delivery_id, %error,
                "returning a webhook delivery failed; it is sent when its lease has expired"
            );
        }
    }

    async fn send(&self, delivery: &ClaimedDelivery, span: &Span) -> AttemptResult {
        let trace = onceward::spans::context_of(span).or_else(|| delivery.trace.as_ref().map(TraceContext::child));
        let owner = SecretOwner { tenant: &delivery.tenant, endpoint_id: delivery.endpoint_id };
        match self.vault.open_all(owner, &delivery.secrets) {
            Ok(secrets) => {
                let id = delivery.event_id.to_string();
                let message =
                    WebhookMessage { id: &id, body: &delivery.body, secrets: &secrets, trace: trace.as_ref() };
                self.client.send(&delivery.url, &message).await
            }
            Err(error) => {
                tracing::warn!(endpoint_id = %delivery.endpoint_id, tenant = %delivery.tenant, %error, "signing a webhook failed");
                AttemptResult::not_sent(error.to_string())
            }
        }
    }

    async fn record(
        &self,
        delivery: &ClaimedDelivery,
        started_at: Timestamp,
        result: &AttemptResult,
    ) -> Result<(), WebhookError> {
        let _permit = self.record_permits.acquire().await;
        let attempt = AttemptRecord { delivery_id: delivery.delivery_id, lease: delivery.lease, started_at, result };
        match result.is_success() {
            true => self.record_success(delivery, &attempt).await,
            false => self.record_failure(delivery, &attempt).await,
        }
    }

    async fn record_success(
        &self,
        delivery: &ClaimedDelivery,
        attempt: &AttemptRecord<'_>,
    ) -> Result<(), WebhookError> {
        let tx = self.db.begin(scope_of(delivery)).await?;
        let is_recorded = store::record_success(&tx, attempt).await?;
        tx.commit().await?;
        if is_recorded {
            measure::record_delivered(delivery.recorded_at, Timestamp::now());
        }
        Ok(())
    }

    async fn record_failure(
        &self,
        delivery: &ClaimedDelivery,
        attempt: &AttemptRecord<'_>,
    ) -> Result<(), WebhookError> {
        let mut tx = self.db.begin(scope_of(delivery)).await?;
        let delay = self.next_delay(delivery, attempt.result);
        let disable_after_h = i32::try_from(self.settings.disable_after_h).unwrap_or(i32::MAX);
        let Some(failing) = store::record_failure(&tx, attempt, delay, disable_after_h).await? else {
            return Ok(());
        };
        let reason = match (attempt.result.is_gone(), failing.is_too_long) {
            (true, _) => Some(GONE.to_owned()),
            (false, true) => Some(format!("it failed for more than {disable_after_h} hours without a success")),
            (false, false) => None,
        };
        let disabled = match reason {
            Some(reason) => commands::disable(&mut tx, delivery.endpoint_id, reason, failing.since).await?,
            None => false,
        };
        tx.commit().await?;
        if delay.is_none() {
            measure::record_failed();
        }
        if disabled {
            measure::record_disabled();
            tracing::warn!(endpoint_id = %delivery.endpoint_id, tenant = %delivery.tenant, "a failing webhook endpoint was disabled");
        }
        Ok(())
    }

    /// Returns the delay before the next attempt, or `None` after the last one.
    fn next_delay(&self, delivery: &ClaimedDelivery, result: &AttemptResult) -> Option<Duration> {
        if result.is_gone() {
            return None;
        }
        let delay = self.settings.retry_schedule.delay_after(delivery.attempts + 1)?;
        let delay = retry::with_jitter(delay, self.settings.jitter_percent, rand::random());
        let max_retry_after = Duration::from_secs(self.settings.retry_after_max_s);
        Some(delay.max(result.retry_after.unwrap_or_default().min(max_retry_after)))
    }
}

fn scope_of(delivery: &ClaimedDelivery) -> Scope {
    Scope { tenant: Some(delivery.tenant.clone()), ..Scope::platform("webhooks") }
}
