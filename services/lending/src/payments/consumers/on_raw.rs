//! `payment.raw.v1`: gateway payloads from a queue. An invalid payload becomes a dead letter with the reason.

use crate::Settings;
use crate::payments::{
    commands::receive_payment::{IncomingPayment, ReceiveOutcome, receive_payments},
    provider::{self, InvalidField, ReportedPayment},
};
use crate::topology::{WorkQueue, exchanges};
use jiff::Timestamp;
use onceward::{BatchHandler, Consumer, Event, Failure, InBatch, TenantId, Tx};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

/// The queue of this message.
pub(crate) const QUEUE: WorkQueue =
    WorkQueue { name: "q.payments.intake", exchange: exchanges::PAYMENT_INBOUND, key: "received.raw" };

/// A gateway's original payload, from a queue instead of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentRaw {
    pub provider: String,
    pub payload: Value,
}

impl Event for PaymentRaw {
    const TYPE: &'static str = "payment.raw.v1";
    const EXCHANGE: &'static str = QUEUE.exchange;

    fn routing_key(&self, _: &TenantId) -> String {
        QUEUE.key.to_owned()
    }
}

pub(super) fn consumer(settings: &Arc<Settings>) -> Consumer {
    Consumer::transactional("take-payments-in", QUEUE.name).on_batch(OnRawPayment { settings: settings.clone() }).into()
}

const UNKNOWN_PROVIDER: &str = "payments from this provider are not accepted through this queue";

struct OnRawPayment {
    settings: Arc<Settings>,
}

impl BatchHandler for OnRawPayment {
    type Event = PaymentRaw;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, PaymentRaw>]) -> Result<(), Failure> {
        let payments = batch.iter().map(|message| {
            let reported = self.read(&message.received.event)?;
            Ok(IncomingPayment { payment_id: Uuid::now_v7(), reported, scope: message.scope() })
        });
        let payments = payments.collect::<Result<_, Failure>>()?;
        for outcome in receive_payments(tx, payments, Timestamp::now()).await? {
            match outcome {
                ReceiveOutcome::ProviderUnknown { .. } => return Err(Failure::permanent(UNKNOWN_PROVIDER)),
                // Only for payments requested from us directly, which do not come through this queue.
                ReceiveOutcome::LoanMissing { loan_id } => {
                    return Err(Failure::permanent(format!("there is no loan {loan_id}")));
                }
                // A conflict is stored and shown to an operator; a retry would not help.
                ReceiveOutcome::Accepted { .. }
                | ReceiveOutcome::Duplicate { .. }
                | ReceiveOutcome::Conflict { .. } => {}
            }
        }
        Ok(())
    }
}

impl OnRawPayment {
    fn read(&self, raw: &PaymentRaw) -> Result<ReportedPayment, Failure> {
        let read = provider::read(&raw.provider, &raw.payload, &self.settings);
        read.ok_or_else(|| Failure::permanent(UNKNOWN_PROVIDER))?
            .map_err(|errors| Failure::permanent(describe(&errors)))
    }
}

fn describe(errors: &[InvalidField]) -> String {
    let all: Vec<String> = errors.iter().map(|error| format!("{} {}", error.path, error.message)).collect();
    format!("the payment is invalid: {}", all.join("; "))
}
