//! `loan.accrue.v1`: serves a tenant's loans for a day, some at a time.

use crate::loans::{commands::serve, events::LoanAccrue, store};
use jiff::tz::TimeZone;
use onceward::{Failure, Handler, NewMessage, Received, Tx, outbox};
use std::time::Duration;

/// Loans of one transaction.
const BATCH: usize = 200;
/// Far more than a tenant has batches of loans.
const PARTS_AT_MOST: u32 = 1_000_000;
/// Loans that somebody else held are looked at again after this.
const HELD_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct OnAccrualTick;

impl Handler for OnAccrualTick {
    type Event = LoanAccrue;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, LoanAccrue>) -> Result<(), Failure> {
        let tick = &received.event;
        let day = tick.scheduled_for.to_zoned(TimeZone::UTC).date();
        let loans = store::take_unserviced(tx, day, BATCH as i64).await?;
        serve(tx, &loans, day).await?;
        if !store::any_unserviced(tx, day).await? {
            return Ok(());
        }
        if tick.part >= PARTS_AT_MOST {
            return Err(Failure::permanent("a tick was cut into too many parts; the next one goes on"));
        }
        let next = LoanAccrue { part: tick.part + 1, ..tick.clone() };
        let message = NewMessage::from_event(&next, tx.tenant()?)?
            .once_per(format!("loan.accrue:{}", received.envelope.event_id));
        let message = if loans.len() < BATCH { message.after(HELD_WAIT) } else { message };
        outbox::send(tx, message).await?;
        Ok(())
    }
}
