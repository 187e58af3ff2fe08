//! Sends what is due, until the process stops. Any number of instances may run.
//!
//! ```text
//! claim ── due deliveries, endpoint by endpoint, each with a lease (lane.rs)
//!   └ send ── one request each, many at once (attempt.rs)
//!        └ record ── delivered, waits for its next attempt, or failed; one commit
//! ```
//!
//! Who dies between sending and recording leaves a lease that runs out; the message is sent again, with the same id.

mod attempt;
mod lane;

use crate::{Settings, store};
use attempt::Courier;
use futures_util::FutureExt;
use lane::Lane;
use onceward::{TaskContext, TaskError, db::listen::Listener};
use std::{sync::Arc, time::Duration};
use tokio::time::MissedTickBehavior;

/// The part of all requests that is for endpoints that fail: one of so many.
const PART_FOR_FAILING: usize = 4;

pub(crate) async fn run(context: TaskContext, settings: Arc<Settings>) -> Result<(), TaskError> {
    let for_failing = (settings.in_flight / PART_FOR_FAILING).max(1);
    let mut well = Lane::new(false, settings.in_flight.saturating_sub(for_failing).max(1));
    let mut failing = Lane::new(true, for_failing);
    let mut listener = context.db.listen(store::CHANNEL);
    let courier = Arc::new(Courier::new(context.db.clone(), settings)?);
    let mut poll = tokio::time::interval(Duration::from_millis(courier.settings.poll_ms.max(1)));
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Endpoints that fail wait for their time, so they are looked at by the clock.
        let (look_at_well, look_at_failing) = tokio::select! {
            () = context.stop.cancelled() => break,
            () = woken(&mut listener) => (true, false),
            () = well.some_finished() => (true, false),
            () = failing.some_finished() => (false, true),
            _ = poll.tick() => (true, true),
        };
        if look_at_well {
            well.claim(&courier).await;
        }
        if look_at_failing {
            failing.claim(&courier).await;
        }
    }
    // What does not finish now is sent again by somebody else when its lease has run out.
    let rest = async { tokio::join!(well.all_finished(), failing.all_finished()) };
    let _ = tokio::time::timeout(context.grace.mul_f64(0.8), rest).await;
    Ok(())
}

/// There is something new; many notices at once are one.
async fn woken(listener: &mut Listener) {
    let _ = listener.next().await;
    while listener.next().now_or_never().flatten().is_some() {}
}
