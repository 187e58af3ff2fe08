//! Run work on a schedule, for every tenant.
//!
//! A schedule publishes one message per tick and tenant, however many processes run it. A consumer does the work, so a
//! tick is retried, traced and dead-lettered like any other message, and an outage at two in the morning delays the report
//! instead of losing it.
//!
//! Run it: `cargo test -p onceward-example-recipes nightly_report`.

use onceward::prelude::*;
use serde::{Deserialize, Serialize};

const EXCHANGE: &str = "reports.events";
const ROUTING_KEY: &str = "report.due";
const QUEUE: &str = "reports.write.v1";
const MIGRATION: &str =
    "CREATE TABLE reports.nightly (tenant_id text NOT NULL, due_at text NOT NULL, PRIMARY KEY (tenant_id, due_at));
    SELECT onceward_meta.protect('reports.nightly');";
const INSERT: &str = "INSERT INTO reports.nightly (tenant_id, due_at) VALUES ($1, $2)";
const SCHEMA: &str = r#"{"$id": "report.due.v1", "type": "object", "required": ["schedule", "scheduledFor"],
    "properties": {"schedule": {"type": "string"}, "scheduledFor": {"type": "string", "format": "date-time"}}}"#;

/// Returns the service. `cron` is `0 2 * * *` for two in the morning. By default, one missed tick is made up after an
/// outage.
pub fn service(cron: &str) -> Service {
    let nightly = Schedule::new("nightly-report", cron, format!("{EXCHANGE}:{ROUTING_KEY}"), ReportDue::TYPE)
        .time_zone("Europe/Berlin")
        .each_tenant();
    Service::new("reports")
        .migrations(Migrations { schema: "reports", steps: &[Migration { name: "0001_nightly", sql: MIGRATION }] })
        .schemas(&[SCHEMA])
        .topology(
            Topology::new()
                .exchange(Exchange::topic(EXCHANGE))
                .exchange(Exchange::fanout("reports.dlq"))
                .queue(Queue::work(QUEUE).dead_letter("reports.dlq"))
                .queue(Queue::dead_letter_store("reports.dlq.v1"))
                .bind(EXCHANGE, ROUTING_KEY, QUEUE)
                .bind("reports.dlq", "", "reports.dlq.v1"),
        )
        .publishes::<ReportDue>()
        .schedule(nightly)
        .consumer(Consumer::transactional("write-report", QUEUE).on(WriteReport))
}

/// A tick of the schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportDue {
    /// The time of the tick.
    pub scheduled_for: String,
}

impl Event for ReportDue {
    const TYPE: &'static str = "report.due.v1";
    const EXCHANGE: &'static str = EXCHANGE;

    fn routing_key(&self, _: &TenantId) -> String {
        ROUTING_KEY.to_owned()
    }
}

struct WriteReport;

impl Handler for WriteReport {
    type Event = ReportDue;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, ReportDue>) -> Result<(), Failure> {
        tx.execute(INSERT, &[&received.envelope.tenant_id.as_str(), &received.event.scheduled_for]).await?;
        Ok(())
    }
}
