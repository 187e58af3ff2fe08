//! Letters and messages that a worker holds under a lease.

use crate::{
    support::{
        Calls, GENEROUS, Job, QUEUE, Seen, dead_letters, effects_reach, job, one_lane, publish, quick, running,
        write_effect,
    },
    triage_support::{Repair, aside_reaches, letters_of, requeue},
};
use onceward::{Consumer, Failure, LeasedHandler, Received, Tx, messaging::consumer::LeaseContext};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Semaphore, mpsc};

/// Gives up on what is called dead until it is repaired; what is called slow takes until the test lets it go.
#[derive(Clone)]
struct Outside {
    calls: mpsc::UnboundedSender<Seen>,
    let_go: Arc<Semaphore>,
    repair: Repair,
}

impl LeasedHandler for Outside {
    type Event = Job;
    type Work = ();

    async fn perform(&self, _lease: &LeaseContext, received: &Received<'_, Job>) -> Result<(), Failure> {
        let _ = self.calls.send(Seen::of(received, &received.event));
        match received.event.name.as_str() {
            "dead" if !self.repair.is_done() => return Err(Failure::permanent("broken")),
            "slow" => self.let_go.acquire().await.expect("never closed").forget(),
            _ => {}
        }
        Ok(())
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Job>, (): ()) -> Result<(), Failure> {
        write_effect(tx, &Seen::of(received, &received.event)).await
    }
}

#[tokio::test]
async fn a_letter_comes_right_behind_a_later_message_that_is_being_worked_on() {
    let (sender, mut calls) = Calls::channel();
    let (let_go, repair) = (Arc::new(Semaphore::new(0)), Repair::default());
    let outside = Outside { calls: sender, let_go: let_go.clone(), repair: repair.clone() };
    let consumer = Consumer::leased("probe", QUEUE).on_leased(outside).retry(quick(3)).budget(GENEROUS);
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
    aside_reaches(&owner, "parked", 1).await;
    let fates = requeue(platform.db(), &letters_of(&owner, &["dead"]).await).await;
    assert_eq!((fates[0].refusal, fates[0].wait_ms), (None, None), "behind the one that is being worked on");
    let_go.add_permits(1);
    assert_eq!(effects_reach(&owner, 3).await, ["slow", "dead", "last"]);
}
