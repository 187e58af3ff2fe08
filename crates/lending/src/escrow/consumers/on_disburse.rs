//! `escrow.disburse.v1`: settles a disbursement.

use crate::escrow::{
    commands::{Outcome, disburse},
    events::EscrowDisburse,
};
use jiff::tz::TimeZone;
use onceward::{Failure, Handler, Received, Tx};

pub(in crate::escrow) struct OnDisburse;

impl Handler for OnDisburse {
    type Event = EscrowDisburse;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, EscrowDisburse>) -> Result<(), Failure> {
        let today = received.envelope.occurred_at.to_zoned(TimeZone::UTC).date();
        match disburse(tx, &received.event, today).await? {
            Outcome::Settled => Ok(()),
            Outcome::OtherDisbursement => Err(Failure::permanent(
                "a disbursement with this id is known and is something else: ask again under another id",
            )),
        }
    }
}
