//! Handlers for messages of every type.

use crate::support::{
    Probe, QUEUE, consumer, dead_letters, drained, effects, enqueue, one_lane, platform, publish_names, quick,
};
use onceward::{Consumer, Envelope, Failure, Tx, messaging::AnyHandler};
use onceward_testkit::PATIENCE;
use serde_json::json;
use tokio::sync::mpsc;

/// Reports the types it received to the test.
struct Anything(mpsc::UnboundedSender<String>);

impl AnyHandler for Anything {
    async fn handle_all(&self, _: &mut Tx, batch: &[&Envelope]) -> Result<(), Failure> {
        batch.iter().for_each(|envelope| drop(self.0.send(envelope.event_type.to_string())));
        Ok(())
    }
}

async fn next(types: &mut mpsc::UnboundedReceiver<String>) -> String {
    tokio::time::timeout(PATIENCE, types.recv()).await.expect("a message comes in time").expect("the handler is there")
}

#[tokio::test]
async fn a_type_without_a_contract_is_accepted_and_a_violated_contract_is_not() {
    let (sender, mut types) = mpsc::unbounded_channel();
    let anything = Consumer::transactional("probe", QUEUE).on_any(Anything(sender)).retry(quick(3));
    let mut platform = platform(one_lane(), anything).await;
    let owner = platform.database().owner().await;
    enqueue(&owner, "acme", "probe.never_heard_of.v7", &json!({"anything": 1})).await;
    enqueue(&owner, "acme", "probe.job.v1", &json!({"nothing": 1})).await;
    publish_names(platform.db(), "acme", &["good"]).await;
    platform.run_consumers();
    assert_eq!(next(&mut types).await, "probe.never_heard_of.v7");
    assert_eq!(next(&mut types).await, "probe.job.v1");
    let dead = dead_letters(&owner, 1).await;
    assert_eq!(dead[0].reason.as_str(), "schema_violation");
    drained(&owner).await;
    assert!(types.try_recv().is_err(), "the broken one is not handled");
}

#[tokio::test]
async fn a_type_with_its_own_handler_is_passed_to_it() {
    let (sender, mut types) = mpsc::unbounded_channel();
    let (probe, mut calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe).on_any(Anything(sender))).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["named"]).await;
    enqueue(&owner, "acme", "probe.job.v2", &json!({"name": "newer"})).await;
    platform.run_consumers();
    assert_eq!(calls.next().await.name, "named");
    assert_eq!(next(&mut types).await, "probe.job.v2");
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["named"]);
}
