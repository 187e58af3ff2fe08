//! `q.payments.intake`: a gateway's words from a queue. What they cannot say is a dead letter with the reason.

use crate::payments::{
    commands::take_in::{self, Taken},
    events::PaymentRaw,
    provider::{self, Wrong},
};
use jiff::Timestamp;
use onceward::{Failure, Handler, Received, Tx};

const UNKNOWN: &str = "its provider is none that payments are taken from by this queue";

pub(crate) struct OnRaw;

impl Handler for OnRaw {
    type Event = PaymentRaw;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, PaymentRaw>) -> Result<(), Failure> {
        let PaymentRaw { provider, payload } = &received.event;
        let read = provider::read(provider, payload).ok_or_else(|| Failure::permanent(UNKNOWN))?;
        let claim = read.map_err(|wrong| Failure::permanent(in_words(&wrong)))?;
        match take_in::take_in(tx, claim, Timestamp::now()).await? {
            Taken::NoProvider { .. } => Err(Failure::permanent(UNKNOWN)),
            Taken::NoLoan { loan_id } => Err(Failure::permanent(format!("there is no loan {loan_id}"))),
            // A conflict is written down and shown to an operator; there is nothing to try again.
            Taken::Accepted { .. } | Taken::Duplicate { .. } | Taken::Conflict { .. } => Ok(()),
        }
    }
}

fn in_words(wrong: &[Wrong]) -> String {
    let all: Vec<String> = wrong.iter().map(|wrong| format!("{} {}", wrong.path, wrong.message)).collect();
    format!("the payment cannot be read: {}", all.join("; "))
}
