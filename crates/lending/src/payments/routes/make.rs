//! `POST /api/payments`: the borrower's door to the same pipeline.

use crate::LendingError;
use crate::loans::store::{begin, find_loan};
use crate::payments::{
    events::{PaymentMethod, ProcessPayment},
    provider::utc_day,
};
use jiff::{Timestamp, civil::Date};
use onceward::prelude::*;
use onceward_money::{Currency, Minor};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

#[derive(Deserialize)]
pub(super) struct Make {
    loan_id: Uuid,
    amount_minor: Minor,
    currency: Option<Currency>,
    method: Option<PaymentMethod>,
    effective_date: Option<Date>,
    #[serde(default)]
    allocation_hints: Map<String, Value>,
}

pub(super) async fn make(command: Command<Make>) -> Result<Response, Problem> {
    let (make, mut command) = command.into_parts();
    if !make.amount_minor.is_positive() {
        return Err(wrong("/amount_minor", "must be above 0".to_owned()));
    }
    if find_loan(&command.tx, make.loan_id).await?.is_none() {
        return Err(wrong("/loan_id", LendingError::LoanMissing(make.loan_id).to_string()));
    }
    let payment_id = Uuid::now_v7();
    let process = ProcessPayment {
        payment_id,
        loan_id: make.loan_id,
        method: make.method.unwrap_or(PaymentMethod::Other),
        amount_minor: make.amount_minor,
        currency: make.currency.unwrap_or(Currency::USD),
        effective_date: make.effective_date.unwrap_or_else(|| utc_day(Timestamp::now())),
        allocation_hints: make.allocation_hints,
    };
    begin(&command.tx, ProcessPayment::TYPE, payment_id, None).await?;
    outbox::publish(&mut command.tx, &process).await?;
    let body = json!({"status": "processing", "paymentId": payment_id});
    command.accepted(format!("/api/payments/{payment_id}"), &body).await
}

fn wrong(path: &str, message: String) -> Problem {
    Problem::new(codes::VALIDATION_FAILED).detail("The payment cannot be made; `errors` says why.").error(path, message)
}
