//! Consume messages of other teams, whose types this program does not know.
//!
//! The queue is bound to an exchange that another program publishes to, perhaps in another language with
//! `onceward.enqueue`. A handler for messages of any type receives them as they are. A message without a schema in this
//! program is not checked; one with a schema must match it.
//!
//! Run it: `cargo test -p onceward-example-recipes activity_feed`.

use onceward::{AnyHandler, Envelope, prelude::*};

const SHOP_EXCHANGE: &str = "shop.events";
const QUEUE: &str = "feed.collect.v1";
const MIGRATION: &str =
    "CREATE TABLE feed.activity (tenant_id text NOT NULL, event_id uuid NOT NULL, event_type text NOT NULL,
    payload jsonb NOT NULL, PRIMARY KEY (tenant_id, event_id)); SELECT onceward_meta.protect('feed.activity');";
const INSERT: &str = "INSERT INTO feed.activity (tenant_id, event_id, event_type, payload) VALUES ($1, $2, $3, $4)";

/// Returns the service. Another program may declare the same exchange: equal declarations are one.
pub fn service() -> Service {
    Service::new("feed")
        .migrations(Migrations { schema: "feed", steps: &[Migration { name: "0001_activity", sql: MIGRATION }] })
        .topology(
            Topology::new()
                .exchange(Exchange::topic(SHOP_EXCHANGE))
                .exchange(Exchange::fanout("feed.dlq"))
                .queue(Queue::work(QUEUE).dead_letter("feed.dlq"))
                .queue(Queue::dead_letter_store("feed.dlq.v1"))
                .bind(SHOP_EXCHANGE, "tenant.#", QUEUE)
                .bind("feed.dlq", "", "feed.dlq.v1"),
        )
        .consumer(Consumer::transactional("collect", QUEUE).on_any(CollectActivity))
}

struct CollectActivity;

impl AnyHandler for CollectActivity {
    async fn handle_all(&self, tx: &mut Tx, batch: &[&Envelope]) -> Result<(), Failure> {
        for envelope in batch {
            let (tenant, event_type) = (envelope.tenant_id.as_str(), envelope.event_type.to_string());
            tx.execute(INSERT, &[&tenant, &envelope.event_id, &event_type, envelope.payload.value()]).await?;
        }
        Ok(())
    }
}
