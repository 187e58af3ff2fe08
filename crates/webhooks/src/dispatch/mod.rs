//! Sends what is due, until the process stops. Any number of instances may run.
//!
//! ```text
//! claim ── due deliveries, endpoint by endpoint, each with a lease
//!   └ send ── one request each, many at once (attempt.rs)
//!        └ record ── delivered, waits for its next attempt, or failed; one commit
//! ```
//!
//! Who dies between sending and recording leaves a lease that runs out; the message is sent again, with the same id.

mod attempt;

use crate::{
    Settings,
    client::Client,
    store::{self, Claim},
};
use attempt::Courier;
use futures_util::FutureExt;
use onceward::{TaskContext, TaskError, db::listen::Listener};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;
use uuid::Uuid;

/// Deliveries of one claim, whose bodies are held in memory.
const CLAIM_AT_MOST: usize = 100;

pub(crate) async fn run(context: TaskContext, settings: Arc<Settings>) -> Result<(), TaskError> {
    let client = Client::new(&settings)?;
    let mut listener = context.db.listen(store::CHANNEL);
    let courier = Arc::new(Courier { db: context.db.clone(), client, settings });
    let mut sends = JoinSet::new();
    let mut cursor = Uuid::nil();
    while !context.stop.is_cancelled() {
        claim_all(&courier, &mut sends, &mut cursor).await;
        tokio::select! {
            () = context.stop.cancelled() => {}
            () = woken(&mut listener) => {}
            () = finished(&mut sends), if !sends.is_empty() => {}
            () = tokio::time::sleep(Duration::from_millis(courier.settings.poll_ms)) => {}
        }
    }
    // What does not finish now is sent again by somebody else when its lease has run out.
    let rest = async { while sends.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(context.grace.mul_f64(0.8), rest).await;
    Ok(())
}

/// Starts to send whatever is due, as far as there is room. Goes on behind the endpoint where the room ended last time, so that
/// all get their turn.
async fn claim_all(courier: &Arc<Courier>, sends: &mut JoinSet<()>, cursor: &mut Uuid) {
    let settings = &courier.settings;
    let mut from_the_start = cursor.is_nil();
    while sends.len() < settings.in_flight {
        let most = (settings.in_flight - sends.len()).min(CLAIM_AT_MOST);
        let claim = Claim {
            after: *cursor,
            most: i32::try_from(most).unwrap_or(i32::MAX),
            in_flight_per_endpoint: i32::try_from(settings.in_flight_per_endpoint).unwrap_or(i32::MAX),
            well_only: sends.len() >= settings.in_flight / 2,
            lease_ms: settings.lease_ms(),
        };
        let (claimed, go_on) = match store::claim(&courier.db, claim).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(%error, "webhook deliveries cannot be claimed; trying again");
                return;
            }
        };
        for one in claimed {
            sends.spawn(courier.clone().deliver(one));
        }
        *cursor = go_on.unwrap_or_default();
        if go_on.is_none() && std::mem::replace(&mut from_the_start, true) {
            return;
        }
    }
}

/// There is something new; many notices at once are one.
async fn woken(listener: &mut Listener) {
    let _ = listener.next().await;
    while listener.next().now_or_never().flatten().is_some() {}
}

/// Some requests came to their end.
async fn finished(sends: &mut JoinSet<()>) {
    let first = sends.join_next().await;
    let others = std::iter::from_fn(|| sends.try_join_next());
    for ended in first.into_iter().chain(others) {
        if ended.is_err() {
            tracing::error!("a webhook delivery panicked; it is tried again when its lease has run out");
        }
    }
}
