//! Reporting: facts about loans, payments and balances by windows of time, that agree with the ledger to the cent.
//!
//! ```text
//! cron ──etl.schedule──► look at what was posted ──► open windows ──etl.job, one a shard──► facts ──► etl.completed.event
//!                              └── something belongs to a window that is there: its next generation ──┘
//! ```
//!
//! **By which time windows are cut.** What is posted has two times: when it was posted (`created_at`), which is never late,
//! and the day on which it takes effect, which is what a report is about. A fact belongs to the window in which its
//! *business time* lies: the moment of its effective day that is nearest to when it was posted. So what is posted on its own
//! day counts when it was posted; what comes later counts in the last window of its day, and what was posted ahead in the
//! first. The balances at the end of a day's last window are those that the ledger has as of that day. A change of status
//! has no effective day and counts when it was made.
//!
//! **What is late.** Whatever was posted for a window after its facts were made: because it is backdated, or because its
//! transaction began within the window and committed after it. With every tick the ledger is looked at again from an hour
//! before the last look on ([`commands`] say why), and each loan's events of a window are counted. The ledger only grows, so
//! another number means that something is new: then the window is opened again for the shards concerned, with the next
//! generation, and so is every later window that has a balance of the same loan. A window of long ago that was never opened,
//! because nothing had happened in it, is opened then.
//!
//! Invariants: a job makes the facts of its shard from the ledger alone, so jobs may come twice and in any order; a job of an
//! older generation does nothing. `etl.completed.event` is published once for each generation that was completed.

mod commands;
mod consumers;
pub mod events;
mod metrics;
mod routes;
mod store;
mod window;

pub(crate) use routes::routes;

use crate::{Settings, topology::SCHEDULES};
use onceward::prelude::*;
use std::{sync::Arc, time::Duration};

/// The tables that reports read.
pub(crate) const REPORTING: Migrations = Migrations {
    schema: "reporting",
    steps: &[Migration { name: "0001_facts", sql: include_str!("../../migrations/reporting_0001_facts.sql") }],
};

/// Columns without which no window must be opened.
pub(crate) const REQUIRED: &[RequiredTable] = &[
    RequiredTable { table: "lending.etl_progress", columns: &["tenant_id", "window_minutes", "next_window"] },
    RequiredTable { table: "lending.etl_window", columns: &["tenant_id", "window_start", "shards", "generation"] },
    RequiredTable { table: "lending.etl_shard", columns: &["tenant_id", "window_start", "shard", "generation"] },
    RequiredTable { table: "lending.etl_loan", columns: &["tenant_id", "window_start", "loan_id", "events", "stale"] },
    RequiredTable { table: "reporting.loan_fact", columns: &["tenant_id", "window_start", "loan_id", "shard"] },
    RequiredTable { table: "reporting.payment_fact", columns: &["tenant_id", "window_start", "event_id", "shard"] },
    RequiredTable { table: "reporting.balance_fact", columns: &["tenant_id", "window_start", "loan_id", "account"] },
];

/// The contracts.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/etl.schedule.v1.json"),
    include_str!("../../schemas/etl.job.v1.json"),
    include_str!("../../schemas/etl.completed.event.v1.json"),
    include_str!("../../schemas/etl.status.v1.json"),
];

/// A shard of a busy window is much work.
const JOB_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn consumers(service: Service, settings: &Arc<Settings>) -> Service {
    let topic = format!("{SCHEDULES}:tenant.{{tenant}}.etl.schedule");
    let schedule = Schedule::new("lending-etl", &settings.etl_cron, topic, events::EtlSchedule::TYPE)
        .each_tenant()
        .once_per("etl-sched:{tenant}:{tick}");
    // Each in a transaction of its own: see the order of locks in `store::windows`.
    let on_schedule = Consumer::transactional("schedule-etl", "etl.schedule.v1").prefetch(1);
    let on_job = Consumer::transactional("run-etl-jobs", "etl.job.v1").prefetch(1).timeout(JOB_TIMEOUT);
    service
        .consumer(on_schedule.on(consumers::OnSchedule { settings: settings.clone() }))
        .consumer(on_job.on(consumers::OnJob))
        .schedule(schedule)
}
