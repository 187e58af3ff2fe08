//! `etl.job.v1`: makes the facts of a shard.

use crate::etl::{
    commands::{Outcome, make_facts},
    events::EtlJob,
};
use onceward::{Failure, Handler, Received, Tx};

pub(in crate::etl) struct OnJob;

impl Handler for OnJob {
    type Event = EtlJob;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, EtlJob>) -> Result<(), Failure> {
        match make_facts(tx, &received.event).await? {
            Outcome::Done | Outcome::NotNeeded => Ok(()),
            Outcome::Unknown => {
                Err(Failure::permanent("no such window, shard or generation was opened: wait for the schedule"))
            }
        }
    }
}
