//! Handle many messages with one statement.
//!
//! A batch handler receives all messages of a turn that have its type and belong to one tenant. It calls the database
//! once for all of them, and database calls are where a handler spends most of its time. If it fails, the batch is rolled
//! back and its messages are handled one at a time, so that one bad message does not delay the others.
//!
//! Run it: `cargo test -p onceward-example-recipes batch_totals`.

use onceward::prelude::*;
use serde::{Deserialize, Serialize};

const EXCHANGE: &str = "totals.events";
const QUEUE: &str = "totals.count.v1";
const MIGRATION: &str =
    "CREATE TABLE totals.page_views (tenant_id text NOT NULL, page text NOT NULL, views bigint NOT NULL,
    PRIMARY KEY (tenant_id, page)); SELECT onceward_meta.protect('totals.page_views');";
const ADD_VIEWS: &str = "INSERT INTO totals.page_views (tenant_id, page, views)
    SELECT $1, page, count(*) FROM unnest($2::text[]) AS page GROUP BY page ORDER BY page
    ON CONFLICT (tenant_id, page) DO UPDATE SET views = page_views.views + excluded.views";
const SCHEMA: &str = r#"{"$id": "page.viewed.v1", "type": "object", "required": ["page"],
    "properties": {"page": {"type": "string", "maxLength": 200}}, "additionalProperties": false}"#;

/// Returns the service.
pub fn service() -> Service {
    Service::new("totals")
        .migrations(Migrations { schema: "totals", steps: &[Migration { name: "0001_page_views", sql: MIGRATION }] })
        .schemas(&[SCHEMA])
        .topology(
            Topology::new()
                .exchange(Exchange::topic(EXCHANGE))
                .exchange(Exchange::fanout("totals.dlq"))
                .queue(Queue::work(QUEUE).dead_letter("totals.dlq"))
                .queue(Queue::dead_letter_store("totals.dlq.v1"))
                .bind(EXCHANGE, "tenant.*.page.viewed", QUEUE)
                .bind("totals.dlq", "", "totals.dlq.v1"),
        )
        .publishes::<PageViewed>()
        .consumer(Consumer::transactional("count-views", QUEUE).prefetch(1_000).on_batch(CountViews))
}

/// A page was viewed. The event has no ordering key, because the order does not matter for a total.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageViewed {
    /// The path of the page.
    pub page: String,
}

impl Event for PageViewed {
    const TYPE: &'static str = "page.viewed.v1";
    const EXCHANGE: &'static str = EXCHANGE;

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.page.viewed")
    }
}

struct CountViews;

impl BatchHandler for CountViews {
    type Event = PageViewed;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, PageViewed>]) -> Result<(), Failure> {
        let pages: Vec<&str> = batch.iter().map(|message| message.received.event.page.as_str()).collect();
        let tenant = tx.tenant()?.clone();
        tx.execute(ADD_VIEWS, &[&tenant.as_str(), &pages]).await?;
        Ok(())
    }
}
