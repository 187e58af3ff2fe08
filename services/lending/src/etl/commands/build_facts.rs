//! Builds the facts of one shard of a window, replaces the existing ones, and completes the window with its last shard.

use crate::{
    LendingError,
    etl::{events::EtlJob, metrics, store},
};
use jiff::Timestamp;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::json;

/// The outcome of a job.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::etl) enum JobOutcome {
    /// The facts are written.
    Done,
    /// The facts exist already, or a later generation will write them.
    NotNeeded,
    /// The window or shard was never opened.
    Unknown,
}

/// Builds the facts that a job requests.
pub(in crate::etl) async fn build_facts(tx: &mut Tx, job: &EtlJob) -> Result<JobOutcome, LendingError> {
    let Some(shard) = store::lock_shard(tx, job.window_start, job.shard).await? else {
        return Ok(JobOutcome::Unknown);
    };
    if job.generation > shard.generation {
        return Ok(JobOutcome::Unknown);
    }
    if job.generation < shard.generation || shard.done {
        return Ok(JobOutcome::NotNeeded);
    }
    let counts = store::replace_facts(tx, job.window_start, job.shard).await?;
    store::finish_shard(tx, job.window_start, job.shard, counts).await?;
    complete_if_last(tx, job.window_start).await?;
    Ok(JobOutcome::Done)
}

/// Completes the window if no shard is pending.
async fn complete_if_last(tx: &mut Tx, window_start: Timestamp) -> Result<(), LendingError> {
    let Some((completed, tick_at)) = store::complete_window(tx, window_start).await? else {
        return Ok(());
    };
    let entry = Entry::new("etl_window_completed").object("etl_window", window_start).payload(json!(completed));
    audit::record(tx, entry)?;
    outbox::publish(tx, &completed).await?;
    metrics::completed(tx, tick_at, completed.completed_at);
    Ok(())
}
