//! Dead letters and messages that a worker holds under a lease.

use crate::{
    support::{
        Calls, GENEROUS, HandlerCall, Job, QUEUE, dead_letters, effects_reach, job, one_lane, publish, quick, running,
        write_effect,
    },
    triage_support::{Repair, dead_letters_named, deferred_reaches, requeue},
};
use onceward::{Consumer, Failure, LeasedHandler, Received, Tx, messaging::consumer::LeaseContext};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Semaphore, mpsc};

/// Fails permanently for messages named "dead" until it is repaired; blocks on those named "slow" until the test
/// releases them.
#[derive(Clone)]
struct ExternalCall {
    calls: mpsc::UnboundedSender<HandlerCall>,
    released: Arc<Semaphore>,
    repair: Repair,
}

impl LeasedHandler for ExternalCall {
    type Event = Job;
    type Work = ();

    async fn perform(&self, _lease: &LeaseContext, received: &Received<'_, Job>) -> Result<(), Failure> {
        let _ = self.calls.send(HandlerCall::of(received, &received.event));
        match received.event.name.as_str() {
            "dead" if !self.repair.is_done() => return Err(Failure::permanent("broken")),
            "slow" => self.released.acquire().await.expect("never closed").forget(),
            _ => {}
        }
        Ok(())
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Job>, (): &()) -> Result<(), Failure> {
        write_effect(tx, &HandlerCall::of(received, &received.event)).await
    }
}

#[tokio::test]
async fn a_requeued_letter_follows_a_later_message_that_is_leased() {
    let (sender, mut calls) = Calls::channel();
    let (released, repair) = (Arc::new(Semaphore::new(0)), Repair::default());
    let outside = ExternalCall { calls: sender, released: released.clone(), repair: repair.clone() };
    let consumer = Consumer::leased("probe", QUEUE).on(outside).retry(quick(3)).budget(GENEROUS);
    let platform = running(one_lane(), consumer.lease(Duration::from_secs(30))).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "dead").ordered_by("k")]).await;
    dead_letters(&owner, 1).await;
    let placed = "SELECT lane_id IS NOT NULL AND seq > 0 FROM onceward.dead_letters";
    assert!(owner.query_one(placed, &[]).await.unwrap().get::<_, bool>(0), "its place is known");
    repair.done();
    assert_eq!(calls.next().await.name, "dead");
    publish(platform.db(), "acme", [job("acme", "slow").ordered_by("k")]).await;
    assert_eq!(calls.next().await.name, "slow");
    publish(platform.db(), "acme", [job("acme", "last").ordered_by("k")]).await;
    deferred_reaches(&owner, "parked", 1).await;
    let outcomes = requeue(platform.db(), &dead_letters_named(&owner, &["dead"]).await).await;
    assert_eq!((outcomes[0].refusal, outcomes[0].wait_ms), (None, None), "behind the one that is being worked on");
    released.add_permits(1);
    assert_eq!(effects_reach(&owner, 3).await, ["slow", "dead", "last"]);
}
