//! Test a service of your own.
//!
//! `TestPlatform` assembles and migrates your services on a database that only this test uses, and starts the parts that
//! you ask for. Publish in a transaction, wait with `eventually` for the effect, and query the tables: nothing is mocked.
//!
//! Run it: `cargo test -p onceward-example-recipes testing_a_service`.

use onceward::{Failure, Handler, Received, Tx, outbox, prelude::*};
use onceward_example_recipes::batch_totals::PageViewed;
use onceward_testkit::{TestPlatform, eventually};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// Fails the first time, after it has written: its effects must be rolled back.
#[derive(Clone, Default)]
struct FailingOnce(Arc<AtomicU32>);

impl Handler for FailingOnce {
    type Event = PageViewed;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, PageViewed>) -> Result<(), Failure> {
        let tenant = received.envelope.tenant_id.as_str();
        tx.execute("INSERT INTO probe.effect (tenant_id, page) VALUES ($1, $2)", &[&tenant, &received.event.page])
            .await?;
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Failure::transient("the first attempt fails on purpose")),
            _ => Ok(()),
        }
    }
}

fn service(handler: FailingOnce) -> Service {
    const MIGRATION: &str = "CREATE TABLE probe.effect (tenant_id text NOT NULL, page text NOT NULL);
        SELECT onceward_meta.protect('probe.effect');";
    const SCHEMA: &str = r#"{"$id": "page.viewed.v1", "type": "object"}"#;
    const QUEUE: &str = "probe.v1";
    let retry = RetryPolicy::exponential(5).initial_ms(10);
    Service::new("probe")
        .migrations(Migrations { schema: "probe", steps: &[Migration { name: "0001_effect", sql: MIGRATION }] })
        .schemas(&[SCHEMA])
        .topology(
            Topology::new()
                .exchange(Exchange::topic(PageViewed::EXCHANGE))
                .exchange(Exchange::fanout("probe.dlq"))
                .queue(Queue::work(QUEUE).dead_letter("probe.dlq"))
                .queue(Queue::dead_letter_store("probe.dlq.v1"))
                .bind(PageViewed::EXCHANGE, "tenant.#", QUEUE)
                .bind("probe.dlq", "", "probe.dlq.v1"),
        )
        .publishes::<PageViewed>()
        .consumer(Consumer::transactional("probe", QUEUE).retry(retry).on(handler))
}

#[tokio::test]
async fn a_handler_that_fails_after_writing_and_is_retried_has_its_effect_once() {
    let handler = FailingOnce::default();
    let mut platform = TestPlatform::new(vec![service(handler.clone())]).await;
    let mut tx = platform.db().begin(platform.scope("acme")).await.unwrap();
    outbox::publish(&mut tx, &PageViewed { page: "/".to_owned() }).await.unwrap();
    tx.commit().await.unwrap();
    platform.run_consumers();

    let client = platform.database().owner().await;
    eventually("the effect is visible", || async {
        let effects: i64 = client.query_one("SELECT count(*) FROM probe.effect", &[]).await.unwrap().get(0);
        (effects > 0).then_some(())
    })
    .await;
    let (stopped_in_time, database) = platform.stop().await;
    assert!(stopped_in_time, "everything in flight was finished");
    let effects: i64 = database.owner().await.query_one("SELECT count(*) FROM probe.effect", &[]).await.unwrap().get(0);
    assert_eq!((effects, handler.0.load(Ordering::SeqCst) >= 2), (1, true));
}
