//! `POST /api/payments`, by which a borrower pays, and `GET /api/payments/{id}`.

use crate::LendingError;
use crate::loans::store::{find_loan, latest_command, mark_processing};
use crate::payments::{
    events::{PaymentMethod, PostPayment, ProcessPayment},
    problems::no_such_payment,
    provider::utc_day,
    store,
};
use jiff::{Timestamp, civil::Date};
use onceward::prelude::*;
use onceward_money::{Currency, Minor};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

#[derive(Deserialize)]
pub(super) struct MakePaymentRequest {
    loan_id: Uuid,
    amount_minor: Minor,
    currency: Option<Currency>,
    method: Option<PaymentMethod>,
    effective_date: Option<Date>,
    #[serde(default)]
    allocation_hints: Map<String, Value>,
}

pub(super) async fn make(command: Command<MakePaymentRequest>) -> Result<Response, Problem> {
    let (request, mut command) = command.into_parts();
    if !request.amount_minor.is_positive() {
        return Err(invalid("/amount_minor", "must be greater than 0".to_owned()));
    }
    if find_loan(&command.tx, request.loan_id).await?.is_none() {
        return Err(invalid("/loan_id", LendingError::LoanMissing(request.loan_id).to_string()));
    }
    let payment_id = Uuid::now_v7();
    let process = ProcessPayment {
        payment_id,
        loan_id: request.loan_id,
        method: request.method.unwrap_or(PaymentMethod::Other),
        amount_minor: request.amount_minor,
        currency: request.currency.unwrap_or(Currency::USD),
        effective_date: request.effective_date.unwrap_or_else(|| utc_day(Timestamp::now())),
        allocation_hints: request.allocation_hints,
    };
    mark_processing(&command.tx, ProcessPayment::TYPE, payment_id, None).await?;
    outbox::publish(&mut command.tx, &process).await?;
    let body = json!({"status": "processing", "payment_id": payment_id});
    command.accepted(format!("/api/payments/{payment_id}"), &body).await
}

fn invalid(path: &str, message: String) -> Problem {
    Problem::new(codes::VALIDATION_FAILED).detail("The payment is invalid; see `errors`.").error(path, message)
}

/// Right after a payment was requested, only the command may exist.
pub(super) async fn show(Path(payment_id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let last = latest_command(&reader.tx, payment_id, &[ProcessPayment::TYPE, PostPayment::TYPE]).await?;
    let command = last.as_ref().map(|last| {
        json!({
            "kind": last.kind, "state": last.state.as_str(), "reason": last.detail,
            "correlationId": last.correlation_id, "updated_at": last.updated_at
        })
    });
    let mut document = match (store::find_payment_details(&reader.tx, payment_id).await?, &last) {
        (Some(details), _) => details.document,
        (None, Some(last)) => json!({"payment_id": payment_id, "status": last.state.as_str()}),
        (None, None) => return Err(no_such_payment()),
    };
    document["command"] = json!(command);
    reader.respond(&document).await
}
