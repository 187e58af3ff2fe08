//! Operators' requests. Those about payments are executed asynchronously, in the loan's order.

use crate::LendingError;
use crate::loans::store::{find_loan, mark_processing};
use crate::payments::{
    events::{AllocateSuspense, PaymentAction, PostPayment},
    problems::{PAYMENT_REFUSES, PROVIDER_UNKNOWN, no_such_payment},
    provider::{STRIPE, utc_day},
    store::{self, PaymentDetails},
};
use jiff::{Timestamp, civil::Date};
use onceward::prelude::*;
use onceward_audit::{self as audit, Entry};
use onceward_money::Minor;
use serde::Deserialize;
use uuid::Uuid;

#[derive(Deserialize)]
pub(super) struct ReturnRequest {
    reason: String,
    returned_on: Option<Date>,
    fee_minor: Option<Minor>,
}

pub(super) async fn return_payment(
    Path(payment_id): Path<Uuid>,
    command: Command<ReturnRequest>,
) -> Result<Response, Problem> {
    let (ReturnRequest { reason, returned_on, fee_minor }, command) = command.into_parts();
    let payment = find_payment(&command, payment_id).await?;
    match payment.status {
        "failed" | "moved" | "refunded" => {
            return Err(refusal("The payment failed and was never posted. Refund it or move it instead."));
        }
        "returned" => return Err(refusal("The payment was already returned.")),
        _ => {}
    }
    let today = utc_day(Timestamp::now());
    let returned_on = returned_on.unwrap_or(today);
    if returned_on > today {
        return Err(LendingError::FutureDate(returned_on).into());
    }
    accept_request(command, payment_id, payment.loan_id, PaymentAction::Return { reason, returned_on, fee_minor }).await
}

pub(super) async fn post(Path(payment_id): Path<Uuid>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, command) = command.into_parts();
    let payment = find_payment(&command, payment_id).await?;
    match payment.status {
        "failed" => return Err(refusal("Only a valid payment can be posted. Validate it again first.")),
        "received" | "moved" | "refunded" => {
            return Err(refusal("Only a valid payment can be posted."));
        }
        "returned" => return Err(refusal("The payment was returned.")),
        _ => {}
    }
    accept_request(command, payment_id, payment.loan_id, PaymentAction::Post).await
}

#[derive(Deserialize)]
pub(super) struct AllocateRequest {
    loan_id: Uuid,
    effective_date: Option<Date>,
}

pub(super) async fn allocate(command: Command<AllocateRequest>) -> Result<Response, Problem> {
    let (AllocateRequest { loan_id, effective_date }, mut command) = command.into_parts();
    find_loan(&command.tx, loan_id).await?.ok_or(LendingError::LoanMissing(loan_id))?;
    let today = utc_day(Timestamp::now());
    let effective_date = effective_date.unwrap_or(today);
    if effective_date > today {
        return Err(LendingError::FutureDate(effective_date).into());
    }
    let allocation_id = Uuid::now_v7();
    mark_processing(&command.tx, AllocateSuspense::TYPE, allocation_id, None).await?;
    outbox::publish(&mut command.tx, &AllocateSuspense { allocation_id, loan_id, effective_date }).await?;
    let body = json!({"status": "processing", "allocation_id": allocation_id});
    command.accepted(format!("/api/loans/{loan_id}/ledger"), &body).await
}

/// Publishes an operator's request about a payment and responds that it was accepted.
pub(super) async fn accept_request(
    mut command: Command,
    payment_id: Uuid,
    loan_id: Uuid,
    action: PaymentAction,
) -> Result<Response, Problem> {
    mark_processing(&command.tx, PostPayment::TYPE, payment_id, None).await?;
    outbox::publish(&mut command.tx, &PostPayment { payment_id, loan_id, action }).await?;
    let body = json!({"status": "processing", "payment_id": payment_id});
    command.accepted(format!("/api/payments/{payment_id}"), &body).await
}

pub(super) async fn find_payment(command: &Command, payment_id: Uuid) -> Result<PaymentDetails, Problem> {
    store::find_payment_details(&command.tx, payment_id).await?.ok_or_else(no_such_payment)
}

pub(super) fn refusal(detail: &str) -> Problem {
    Problem::new(PAYMENT_REFUSES).detail(detail)
}

#[derive(Deserialize)]
pub(super) struct ProviderSecretRequest {
    webhook_secret: String,
}

/// Sets the secret with which a provider signs its webhooks. It is never returned, and never audited.
pub(super) async fn set_provider_secret(
    Path(provider): Path<String>,
    command: Command<ProviderSecretRequest>,
) -> Result<Response, Problem> {
    let (request, mut command) = command.into_parts();
    if provider != STRIPE {
        return Err(Problem::new(PROVIDER_UNKNOWN).detail("Only stripe signs its webhooks."));
    }
    store::set_secret(&command.tx, &provider, &request.webhook_secret).await?;
    let entry = Entry::new("payment_provider_secret_set").object("provider", &provider);
    audit::record(&mut command.tx, entry).map_err(LendingError::from)?;
    command.respond(StatusCode::OK, &json!({"provider": provider})).await
}
