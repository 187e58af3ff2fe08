//! Reporting: facts about loans, payments and balances by time window, which agree with the ledger to the cent.
//!
//! ```text
//! cron ──etl.schedule──► scan new postings ──► open windows ──etl.job, one per shard──► facts ──► etl.completed.event
//!                              └── something new in an existing window: its next generation ──┘
//! ```
//!
//! **How windows are assigned.** A posting has two times: when it was posted (`created_at`), which is never late, and
//! the day on which it takes effect, which is what a report is about. A fact belongs to the window that contains its
//! *business time*: the moment of its effective day that is nearest to when it was posted. So an event posted on its
//! own day counts when it was posted; one posted later counts in the last window of its day, and one posted in advance
//! in the first. The balances at the end of a day's last window equal the ledger's as of that day. A change of status
//! has no effective day and counts when it was recorded.
//!
//! **What is late.** Everything posted for a window after its facts were built: because it is backdated, or because
//! its transaction began within the window and committed after it. With every tick the ledger is scanned again from an
//! hour before the end of the last scan (for the reason, see `commands/mod.rs`), and each loan's events per window are
//! counted. The ledger only grows, so a different number means that something is new: the window is then reopened for
//! the affected shards, with the next generation, and so is every later window that has a balance of the same loan. An
//! old window that was never opened, because nothing had happened in it, is opened then.
//!
//! Invariants: a job builds the facts of its shard from the ledger alone, so jobs may be delivered twice and in any
//! order; a job of an older generation does nothing. `etl.completed.event` is published once for each completed
//! generation.

mod commands;
mod consumers;
pub mod events;
pub(crate) mod metrics;
mod routes;
mod store;
mod window;

pub(crate) use consumers::consumers;
pub(crate) use routes::routes;

use events::{EtlCompleted, EtlJob, EtlSchedule};
use onceward::{Migration, Migrations, RequiredTable, Service};

/// The tables that reports read.
pub(crate) const REPORTING: Migrations = Migrations {
    schema: "reporting",
    steps: &[Migration { name: "0001_facts", sql: include_str!("../../migrations/reporting_0001_facts.sql") }],
};

/// Columns that must exist before a window is opened.
pub(crate) const REQUIRED: &[RequiredTable] = &[
    RequiredTable { table: "lending.etl_progress", columns: &["tenant_id", "window_minutes", "next_window"] },
    RequiredTable {
        table: "lending.etl_window",
        columns: &["tenant_id", "window_start", "shards", "generation", "tick_at"],
    },
    RequiredTable { table: "lending.etl_shard", columns: &["tenant_id", "window_start", "shard", "generation"] },
    RequiredTable { table: "lending.etl_loan", columns: &["tenant_id", "window_start", "loan_id", "events", "stale"] },
    RequiredTable { table: "reporting.loan_fact", columns: &["tenant_id", "window_start", "loan_id", "shard"] },
    RequiredTable { table: "reporting.payment_fact", columns: &["tenant_id", "window_start", "event_id", "shard"] },
    RequiredTable { table: "reporting.balance_fact", columns: &["tenant_id", "window_start", "loan_id", "account"] },
];

/// The JSON Schemas of the messages.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/etl.schedule.v1.json"),
    include_str!("../../schemas/etl.job.v1.json"),
    include_str!("../../schemas/etl.completed.event.v1.json"),
    include_str!("../../schemas/etl.status.v1.json"),
];

/// Declares the events that reporting publishes.
pub(crate) fn published(service: Service) -> Service {
    service.publishes::<EtlSchedule>().publishes::<EtlJob>().publishes::<EtlCompleted>()
}
