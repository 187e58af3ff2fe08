//! The facts of one shard of a window are made, in place of those that are there.

use super::complete::complete_if_last;
use crate::{
    LendingError,
    etl::{events::EtlJob, store},
};
use onceward::Tx;

/// What became of a job.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::etl) enum Outcome {
    /// The facts are there.
    Done,
    /// They were there, or a later generation will make them.
    NotNeeded,
    /// Nobody asked for such a window or shard.
    Unknown,
}

pub(in crate::etl) async fn make_facts(tx: &mut Tx, job: &EtlJob) -> Result<Outcome, LendingError> {
    let Some(shard) = store::lock_shard(tx, job.window_start, job.shard).await? else {
        return Ok(Outcome::Unknown);
    };
    if job.generation > shard.generation {
        return Ok(Outcome::Unknown);
    }
    if job.generation < shard.generation || shard.done {
        return Ok(Outcome::NotNeeded);
    }
    let made = store::replace_facts(tx, job.window_start, job.shard).await?;
    store::finish_shard(tx, job.window_start, job.shard, made).await?;
    complete_if_last(tx, job.window_start).await?;
    Ok(Outcome::Done)
}
