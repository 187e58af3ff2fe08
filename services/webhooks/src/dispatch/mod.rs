//! Sends due deliveries until the process stops. Any number of instances may run.
//!
//! ```text
//! claim ── due deliveries, endpoint by endpoint, each with a lease (pool.rs)
//!   └ send ── one request each, many at once, through the endpoint's breaker (sender.rs)
//!        ├ record ── delivered, pending until the next attempt, or failed; one commit
//!        └ return ── rejected by the breaker: pending until it allows a request; its endpoint is not claimed until then (waiting.rs)
//! ```
//!
//! An instance that dies between sending and recording leaves a lease that expires; the message is sent again, with the
//! same id.

mod pool;
mod sender;
mod waiting;

use crate::{Settings, store};
use futures_util::FutureExt;
use onceward::{TaskContext, TaskError, db::listen::Listener};
use pool::DeliveryPool;
use sender::DeliverySender;
use std::{sync::Arc, time::Duration};
use tokio::time::MissedTickBehavior;

/// Failing endpoints get one of this many requests in flight.
const FAILING_SHARE: usize = 4;
/// The part of the grace period that requests in flight may use at shutdown.
const GRACE_SHARE: f64 = 0.8;

pub(crate) async fn run(context: TaskContext, settings: Arc<Settings>) -> Result<(), TaskError> {
    let failing_capacity = (settings.in_flight / FAILING_SHARE).max(1);
    let mut healthy = DeliveryPool::new(false, settings.in_flight.saturating_sub(failing_capacity).max(1));
    let mut failing = DeliveryPool::new(true, failing_capacity);
    let mut listener = context.db.listen(store::CHANNEL);
    let sender = Arc::new(DeliverySender::new(context.db.clone(), context.outbound.clone(), settings)?);
    let mut poll = tokio::time::interval(Duration::from_millis(sender.settings.poll_ms.max(1)));
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Deliveries to failing endpoints wait for their due time, so a notification does not concern them.
        let (fill_healthy, fill_failing) = tokio::select! {
            () = context.stop.cancelled() => break,
            notified = wait_for_notification(&mut listener) => { notified?; (true, false) }
            () = healthy.wait_for_any(&context.supervisor) => (true, false),
            () = failing.wait_for_any(&context.supervisor) => (false, true),
            _ = poll.tick() => { sender.waiting.remove_ready(); (true, true) }
        };
        if fill_healthy {
            healthy.fill(&sender).await;
        }
        if fill_failing {
            failing.fill(&sender).await;
        }
    }
    // Requests that do not finish now are sent again by another instance after their leases have expired.
    let in_flight = async { tokio::join!(healthy.wait_for_all(), failing.wait_for_all()) };
    let _ = tokio::time::timeout(context.grace.mul_f64(GRACE_SHARE), in_flight).await;
    Ok(())
}

/// Waits for a notification; several at once count as one.
async fn wait_for_notification(listener: &mut Listener) -> Result<(), TaskError> {
    // Without this error, an ended listener would wake the loop endlessly.
    listener.next().await.ok_or("the task of the listening connection ended")?;
    while listener.next().now_or_never().flatten().is_some() {}
    Ok(())
}
