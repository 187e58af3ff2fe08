//! Handlers that receive all messages of a turn at once.

use crate::support::{
    GENEROUS, HandlerCall, Job, QUEUE, dead_letters, drained, effects, job, one_lane, platform, publish, publish_names,
    quick, write_effect,
};
use onceward::{BatchHandler, Consumer, Failure, InBatch, Queue, Tx, outbox};
use onceward_testkit::{PATIENCE, TestPlatform};
use tokio::sync::mpsc;

/// The arguments of one call: tenants and names.
type Call = (Vec<String>, Vec<String>);

/// Writes all effects, publishes a reply to each message, and fails if one is bad.
struct BatchRecorder(mpsc::UnboundedSender<Call>);

impl BatchHandler for BatchRecorder {
    type Event = Job;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, Job>]) -> Result<(), Failure> {
        let seen: Vec<HandlerCall> =
            batch.iter().map(|message| HandlerCall::of(&message.received, &message.received.event)).collect();
        let call = (
            seen.iter().map(|seen| seen.tenant.clone()).collect(),
            seen.iter().map(|seen| seen.name.clone()).collect(),
        );
        let _ = self.0.send(call);
        for (message, seen) in batch.iter().zip(&seen) {
            write_effect(tx, seen).await?;
            let answer = job(&seen.tenant, &format!("answer to {}", seen.name));
            match seen.name.as_str() {
                "asks in its scope" => {
                    message.enter(tx);
                    outbox::send(tx, answer).await?;
                }
                name if name.starts_with("asks") => drop(outbox::send_as(tx, message.scope(), answer).await?),
                _ => {}
            }
        }
        match seen.iter().any(|seen| seen.name == "bad") {
            true => Err(Failure::permanent("one of them is bad")),
            false => Ok(()),
        }
    }
}

async fn recording_batches(queue: Queue) -> (TestPlatform, mpsc::UnboundedReceiver<Call>) {
    let (sender, calls) = mpsc::unbounded_channel();
    let consumer = Consumer::transactional("probe", QUEUE).on_batch(BatchRecorder(sender));
    (platform(queue, consumer.concurrency(1).retry(quick(3)).budget(GENEROUS)).await, calls)
}

async fn next(calls: &mut mpsc::UnboundedReceiver<Call>) -> Call {
    tokio::time::timeout(PATIENCE, calls.recv()).await.expect("a batch comes in time").expect("the handler is there")
}

#[tokio::test]
async fn a_batch_contains_waiting_messages_in_order_and_each_keeps_its_own_story() {
    let (mut platform, mut calls) = recording_batches(one_lane()).await;
    let owner = platform.database().owner().await;
    for name in ["asks one", "asks in its scope", "asks three"] {
        publish_names(platform.db(), "acme", &[name]).await;
    }
    platform.run_consumers();
    let (_, names) = next(&mut calls).await;
    assert_eq!(names, ["asks one", "asks in its scope", "asks three"]);
    drained(&owner).await;
    let sql = "SELECT count(*) FROM onceward.outbox_messages q JOIN onceward.outbox_messages a
                   ON a.payload->>'name' = 'answer to ' || (q.payload->>'name')
               WHERE a.causation_id = q.id::text AND a.correlation_id = q.correlation_id";
    assert_eq!(crate::support::count(&owner, sql).await, 3);
}

#[tokio::test]
async fn a_bad_message_undoes_its_batch_first_and_then_only_itself() {
    let (mut platform, mut calls) = recording_batches(one_lane()).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["asks", "bad", "after"]).await;
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].name.as_deref(), dead[0].attempts), (Some("bad"), 1));
    drained(&owner).await;
    let mut sizes = vec![next(&mut calls).await.1.len()];
    while let Ok((_, names)) = calls.try_recv() {
        sizes.push(names.len());
    }
    assert_eq!(sizes, [3, 1, 1, 1, 1], "all, then each, then the answer");
    assert_eq!(effects(&owner).await, ["asks", "after", "answer to asks"]);
}

#[tokio::test]
async fn tenants_are_never_in_one_batch() {
    let (mut platform, mut calls) = recording_batches(one_lane()).await;
    let owner = platform.database().owner().await;
    for tenant in ["one", "two"] {
        publish(platform.db(), tenant, (0..5).map(|_| job(tenant, tenant))).await;
    }
    platform.run_consumers();
    drained(&owner).await;
    let mut handled = 0;
    while let Ok((tenants, names)) = calls.try_recv() {
        assert!(tenants.iter().all(|tenant| *tenant == tenants[0]), "{tenants:?}");
        assert_eq!(tenants, names);
        handled += names.len();
    }
    assert_eq!(handled, 10);
}
