//! Failed payments whose money is held as unapplied cash, for operators.

use super::{
    PaymentListQuery,
    operate::{accept_request, find_payment, refusal},
};
use crate::LendingError;
use crate::loans::store::find_loan;
use crate::payments::{events::PaymentAction, provider::utc_day, store};
use jiff::{Timestamp, civil::Date};
use onceward::{prelude::*, web::axum::extract::Query};
use serde::Deserialize;
use uuid::Uuid;

pub(super) async fn list(Query(query): Query<PaymentListQuery>, reader: Reader) -> Result<Response, Problem> {
    let rows = store::list_unapplied(&reader.tx, query.all, query.after, query.rows()).await?;
    let (payments, next) = query.page(rows, |last| last.payment_id);
    reader.respond(&json!({"payments": payments, "next": next})).await
}

#[derive(Deserialize)]
pub(super) struct RevalidateRequest {
    effective_date: Option<Date>,
}

pub(super) async fn revalidate(
    Path(payment_id): Path<Uuid>,
    command: Command<RevalidateRequest>,
) -> Result<Response, Problem> {
    let (RevalidateRequest { effective_date }, command) = command.into_parts();
    let loan_id = loan_of_held(&command, payment_id).await?;
    check_not_future(effective_date)?;
    accept_request(command, payment_id, loan_id, PaymentAction::Revalidate { effective_date }).await
}

#[derive(Deserialize)]
pub(super) struct MoveRequest {
    loan_id: Uuid,
    effective_date: Option<Date>,
    reason: Option<String>,
}

pub(super) async fn move_to(Path(payment_id): Path<Uuid>, command: Command<MoveRequest>) -> Result<Response, Problem> {
    let (MoveRequest { loan_id: to_loan_id, effective_date, reason }, command) = command.into_parts();
    let loan_id = loan_of_held(&command, payment_id).await?;
    check_not_future(effective_date)?;
    if find_loan(&command.tx, to_loan_id).await?.is_none() {
        let text = LendingError::LoanMissing(to_loan_id).to_string();
        return Err(Problem::new(codes::VALIDATION_FAILED).detail(&text).error("/loan_id", text));
    }
    if to_loan_id == loan_id {
        return Err(refusal("The payment already names this loan. Validate it again instead of moving it."));
    }
    let to_payment_id = Uuid::now_v7();
    accept_request(
        command,
        payment_id,
        loan_id,
        PaymentAction::Move { to_loan_id, to_payment_id, effective_date, reason },
    )
    .await
}

#[derive(Deserialize)]
pub(super) struct RefundRequest {
    reason: String,
    refunded_on: Option<Date>,
}

pub(super) async fn refund(Path(payment_id): Path<Uuid>, command: Command<RefundRequest>) -> Result<Response, Problem> {
    let (RefundRequest { reason, refunded_on }, command) = command.into_parts();
    let loan_id = loan_of_held(&command, payment_id).await?;
    check_not_future(refunded_on)?;
    let refunded_on = refunded_on.unwrap_or_else(|| utc_day(Timestamp::now()));
    accept_request(command, payment_id, loan_id, PaymentAction::Refund { reason, refunded_on }).await
}

/// Returns the loan named by a payment whose money is held.
async fn loan_of_held(command: &Command, payment_id: Uuid) -> Result<Uuid, Problem> {
    let payment = find_payment(command, payment_id).await?;
    match payment.document["unapplied"]["status"].as_str() {
        Some("held") => Ok(payment.loan_id),
        _ => Err(refusal("The payment is not held as unapplied cash.")),
    }
}

fn check_not_future(day: Option<Date>) -> Result<(), Problem> {
    match day {
        Some(day) if day > utc_day(Timestamp::now()) => Err(LendingError::FutureDate(day).into()),
        _ => Ok(()),
    }
}
