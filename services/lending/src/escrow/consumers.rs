//! The consumer of escrow commands.

use super::{
    commands::{DisburseOutcome, disburse},
    events::{DISBURSE_QUEUE, EscrowDisburse},
};
use jiff::tz::TimeZone;
use onceward::{Consumer, Failure, Handler, Received, Service, Tx};

pub(crate) fn consumers(service: Service) -> Service {
    // One message per transaction: transactions that lock several loans could deadlock.
    service.consumer(Consumer::transactional("disburse-escrow", DISBURSE_QUEUE.name).prefetch(1).on(OnDisburse))
}

/// `escrow.disburse.v1`: settles a disbursement.
struct OnDisburse;

impl Handler for OnDisburse {
    type Event = EscrowDisburse;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, EscrowDisburse>) -> Result<(), Failure> {
        let today = received.envelope.occurred_at.to_zoned(TimeZone::UTC).date();
        match disburse(tx, &received.event, today).await? {
            DisburseOutcome::Settled => Ok(()),
            DisburseOutcome::OtherDisbursement => Err(Failure::permanent(
                "a disbursement with this id already exists with different data; use another id",
            )),
        }
    }
}
