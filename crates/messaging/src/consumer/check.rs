//! What is checked of every message before a handler sees it.

use super::{
    Consumer,
    handler::{Found, Table},
};
use crate::outbox::routing_tenant;
use jiff::Timestamp;
use onceward_envelope::{SchemaError, SchemaRegistry};
use onceward_topology::Queue;
use onceward_transport::{DeadReason, Delivery, Settlement};
use std::time::Duration;

/// How long a version that nobody here knows waits before it is looked at again. A worker that
/// starts with new abilities does not wait for it.
const NEWER_VERSION_WAIT: Duration = Duration::from_secs(30);

/// Deliveries beyond the policy's attempts before a message that kills its workers is put away,
/// where the queue names no limit of its own.
const SPARE_DELIVERIES: u32 = 5;

/// The handler for a delivery, or what becomes of it without one.
pub(crate) fn check<'t, H>(
    consumer: &Consumer,
    queue: &Queue,
    schemas: &SchemaRegistry,
    table: &'t Table<H>,
    delivery: &Delivery,
    now: Timestamp,
) -> Result<&'t H, Settlement> {
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
    let limit = queue.delivery_limit.map_or(consumer.retry.max_attempts + SPARE_DELIVERIES, u32::from);
    if delivery.attempt > limit {
        return Err(dead(
            DeadReason::DeliveryLimit,
            &format!("delivered {} times without being settled", delivery.attempt - 1),
        ));
    }
    let (handler, needs_contract) = match table.find(&envelope.event_type) {
        Found::Handler(handler) => (handler, true),
        Found::Any(handler) => (handler, false),
        Found::Newer => {
            let reason = format!("no handler for {} here yet", envelope.event_type);
            return Err(Settlement::Wait { after: NEWER_VERSION_WAIT, reason });
        }
        Found::Retired => {
            return Err(dead(DeadReason::RetiredVersion, &format!("{} is no longer handled", envelope.event_type)));
        }
    };
    match schemas.validate(envelope.event_type.schema_id(), &envelope.payload) {
        Ok(()) => Ok(handler),
        Err(error @ SchemaError::Violations { .. }) => Err(dead(DeadReason::SchemaViolation, &error.to_string())),
        Err(SchemaError::Unknown { .. }) if !needs_contract => Ok(handler),
        Err(error @ SchemaError::Unknown { .. }) => {
            Err(Settlement::Wait { after: NEWER_VERSION_WAIT, reason: error.to_string() })
        }
    }
}

fn dead(reason: DeadReason, error: &str) -> Settlement {
    Settlement::Dead { reason, error: error.to_owned() }
}
