//! The checks on every message before a handler sees it.

use super::{engine::ConsumerEngine, handler::HandlerLookup, options::ConsumerOptions};
use crate::outbox::{deadline_of, routing_tenant};
use jiff::Timestamp;
use onceward_broker::{DeadReason, Delivery, Settlement};
use onceward_envelope::SchemaError;
use std::time::Duration;

/// How long a message of a version unknown here waits before it is checked again. A worker that starts with new
/// handlers does not wait for it.
const NEWER_VERSION_WAIT: Duration = Duration::from_secs(30);

/// Deliveries beyond the policy's attempts before a message that kills its workers is dead-lettered, if the queue
/// declares no limit of its own.
const SPARE_DELIVERIES: u32 = 5;

/// Returns the handler for a delivery, or its settlement if it must not be handled.
pub(crate) fn check<'e, H>(
    engine: &'e ConsumerEngine<H>,
    delivery: &Delivery,
    now: Timestamp,
) -> Result<&'e H, Settlement> {
    let ConsumerEngine { options, handlers, queue, schemas, .. } = engine;
    let envelope = &delivery.envelope;
    let routed_to = delivery.topic.split_once(':').and_then(|(_, key)| routing_tenant(key));
    if envelope.tenant_id != delivery.queue_tenant
        || routed_to.is_some_and(|tenant| tenant != envelope.tenant_id.as_str())
    {
        return Err(dead(DeadReason::TenantMismatch, "the message names another tenant than its queue or routing key"));
    }
    if let Some(ttl_ms) = queue.message_ttl_ms
        && now.as_millisecond() - delivery.published_at.as_millisecond() > i64::try_from(ttl_ms).unwrap_or(i64::MAX)
    {
        return Err(dead(DeadReason::Expired, &format!("it waited longer than the {ttl_ms} ms its queue allows")));
    }
    if let Some(deadline) = deadline_of(envelope).filter(|deadline| *deadline < now) {
        return Err(dead(DeadReason::Expired, &format!("its deadline was {deadline}")));
    }
    let limit = queue.delivery_limit.map_or(options.retry.max_attempts + SPARE_DELIVERIES, u32::from);
    if delivery.attempt > limit {
        return Err(dead(
            DeadReason::DeliveryLimit,
            &format!("delivered {} times without being settled", delivery.attempt - 1),
        ));
    }
    let (handler, needs_contract) = match handlers.find(&envelope.event_type) {
        HandlerLookup::Handler(handler) => (handler, true),
        HandlerLookup::Any(handler) => (handler, false),
        HandlerLookup::Newer => {
            return Err(unknown(options, delivery, now, format!("no handler for {} here yet", envelope.event_type)));
        }
        HandlerLookup::Retired => {
            return Err(dead(DeadReason::RetiredVersion, &format!("{} is no longer handled", envelope.event_type)));
        }
    };
    match schemas.validate(envelope.event_type.schema_id(), &envelope.payload) {
        Ok(()) => Ok(handler),
        Err(error @ SchemaError::Violations { .. }) => Err(dead(DeadReason::SchemaViolation, &error.to_string())),
        Err(SchemaError::Unknown { .. }) if !needs_contract => Ok(handler),
        Err(error @ SchemaError::Unknown { .. }) => Err(unknown(options, delivery, now, error.to_string())),
    }
}

/// The message waits for a worker that knows it, and is dead-lettered once it has waited longer than the consumer
/// allows.
fn unknown(options: &ConsumerOptions, delivery: &Delivery, now: Timestamp, reason: String) -> Settlement {
    let waited = delivery.unknown_since.map(|since| now.duration_since(since).unsigned_abs()).unwrap_or_default();
    match options.unknown_for {
        Some(most) if !most.is_zero() && waited > most => dead(
            DeadReason::UnknownType,
            &format!("{reason}, and no worker that knows it has run for {} s", waited.as_secs()),
        ),
        _ => Settlement::Unknown { after: NEWER_VERSION_WAIT, reason },
    }
}

fn dead(reason: DeadReason, error: &str) -> Settlement {
    Settlement::Dead { reason, error: error.to_owned() }
}
