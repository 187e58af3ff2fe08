//! Entries and messages: an entry recorded by a handler exists exactly if the handler's effects do.

use crate::support::{assert_intact, load_chain, tenant};
use onceward::{
    Consumer, Event, Exchange, Failure, Handler, Queue, Received, RetryPolicy, Scope, Service, TenantId, Topology, Tx,
    outbox,
};
use onceward_audit::{Entry, MIGRATIONS, record};
use onceward_testkit::{TestPlatform, eventually};
use serde::{Deserialize, Serialize};

const SCHEMAS: &[&str] = &[
    r#"{"$id": "probe.job.v1", "type": "object", "required": ["number"]}"#,
    r#"{"$id": "probe.done.v1", "type": "object", "required": ["number"]}"#,
];

#[derive(Serialize, Deserialize)]
struct Job {
    number: i64,
}

impl Event for Job {
    const TYPE: &'static str = "probe.job.v1";
    const EXCHANGE: &'static str = "probe.events";

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.job")
    }
}

/// Published by the handler, so that a commit contains both kinds of rows.
#[derive(Serialize, Deserialize)]
struct Done {
    number: i64,
}

impl Event for Done {
    const TYPE: &'static str = "probe.done.v1";
    const EXCHANGE: &'static str = "probe.events";

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.done")
    }
}

/// Records every job, and fails on the fourth after recording it.
struct Work;

impl Handler for Work {
    type Event = Job;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, Job>) -> Result<(), Failure> {
        let number = received.event.number;
        record(tx, Entry::new("job_done").object("job", number)).map_err(Failure::permanent)?;
        outbox::publish(tx, &Done { number }).await?;
        if number == 4 { Err(Failure::permanent("not the fourth")) } else { Ok(()) }
    }
}

fn service() -> Service {
    let topology = Topology::new()
        .exchange(Exchange::topic("probe.events"))
        .queue(Queue::work("probe.work").shards(1))
        .queue(Queue::work("probe.done").shards(1))
        .bind("probe.events", "tenant.*.job", "probe.work")
        .bind("probe.events", "tenant.*.done", "probe.done");
    let consumer = Consumer::transactional("work", "probe.work").on(Work).retry(RetryPolicy::exponential(1));
    Service::new("probe").migrations(MIGRATIONS).schemas(SCHEMAS).topology(topology).consumer(consumer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_fails_within_a_batch_is_not_recorded_and_the_others_are() {
    let mut platform = TestPlatform::new(vec![service()]).await;
    for name in ["acme", "globex"] {
        let mut tx = platform.db().begin(Scope::for_tenant(tenant(name))).await.expect("a connection");
        for number in 1..=8 {
            outbox::publish(&mut tx, &Job { number }).await.expect("it is accepted");
        }
        tx.commit().await.expect("it commits");
    }
    platform.run_consumers();
    for name in ["acme", "globex"] {
        eventually("the others are handled", async || (load_chain(platform.db(), name).await.len() >= 7).then_some(()))
            .await;
    }
    let owner = platform.database().owner().await;
    eventually("the fourth is put away", async || {
        let row = owner.query_one("SELECT count(*) FROM onceward.dead_letters", &[]).await.expect("a row");
        (row.get::<_, i64>(0) == 2).then_some(())
    })
    .await;
    for name in ["acme", "globex"] {
        let mut jobs: Vec<_> = load_chain(platform.db(), name).await.into_iter().filter_map(|e| e.object_id).collect();
        jobs.sort();
        assert_eq!(jobs, ["1", "2", "3", "5", "6", "7", "8"]);
        assert_intact(platform.db(), name, 7).await;
    }
    let published = "SELECT count(*) FROM onceward.outbox_messages WHERE event_type LIKE 'probe.done%'";
    let row = owner.query_one(published, &[]).await.expect("a row");
    assert_eq!(row.get::<_, i64>(0), 14);
}
