//! `q.payments.intake`: gateways' words from a queue. What they cannot say is a dead letter with the reason.

use crate::payments::{
    commands::take_in::{Taken, take_all_in},
    events::PaymentRaw,
    provider::{self, Claim, Wrong},
};
use jiff::Timestamp;
use onceward::{BatchHandler, Failure, InBatch, Tx};
use uuid::Uuid;

const UNKNOWN: &str = "its provider is none that payments are taken from by this queue";

pub(crate) struct OnRaw;

impl BatchHandler for OnRaw {
    type Event = PaymentRaw;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, PaymentRaw>]) -> Result<(), Failure> {
        let claims = batch.iter().map(|message| Ok((Uuid::now_v7(), read(&message.received.event)?)));
        let claims = claims.collect::<Result<_, Failure>>()?;
        for taken in take_all_in(tx, claims, Timestamp::now(), &|tx, nth| batch[nth].enter(tx)).await? {
            match taken {
                Taken::NoProvider { .. } => return Err(Failure::permanent(UNKNOWN)),
                Taken::NoLoan { loan_id } => return Err(Failure::permanent(format!("there is no loan {loan_id}"))),
                // A conflict is written down and shown to an operator; there is nothing to try again.
                Taken::Accepted { .. } | Taken::Duplicate { .. } | Taken::Conflict { .. } => {}
            }
        }
        Ok(())
    }
}

fn read(raw: &PaymentRaw) -> Result<Claim, Failure> {
    let read = provider::read(&raw.provider, &raw.payload).ok_or_else(|| Failure::permanent(UNKNOWN))?;
    read.map_err(|wrong| Failure::permanent(in_words(&wrong)))
}

fn in_words(wrong: &[Wrong]) -> String {
    let all: Vec<String> = wrong.iter().map(|wrong| format!("{} {}", wrong.path, wrong.message)).collect();
    format!("the payment cannot be read: {}", all.join("; "))
}
