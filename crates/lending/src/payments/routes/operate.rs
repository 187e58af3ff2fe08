//! What operators ask for: by messages, in the order of the loan.

use crate::LendingError;
use crate::loans::store::{begin, find_loan};
use crate::payments::{
    events::{Action, AllocateSuspense, PostPayment},
    problems::{PAYMENT_REFUSES, no_such_payment},
    provider::utc_day,
    store::{self, Whole},
};
use jiff::{Timestamp, civil::Date};
use onceward::prelude::*;
use onceward_money::Minor;
use serde::Deserialize;
use uuid::Uuid;

#[derive(Deserialize)]
pub(super) struct Return {
    reason: String,
    returned_on: Option<Date>,
    fee_minor: Option<Minor>,
}

pub(super) async fn give_back(Path(payment_id): Path<Uuid>, command: Command<Return>) -> Result<Response, Problem> {
    let (Return { reason, returned_on, fee_minor }, command) = command.into_parts();
    let whole = find(&command, payment_id).await?;
    match whole.status {
        "failed" => return Err(refused("The payment failed and was never posted; there is nothing to take back.")),
        "returned" => return Err(refused("The payment was returned already.")),
        _ => {}
    }
    let today = utc_day(Timestamp::now());
    let returned_on = returned_on.unwrap_or(today);
    if returned_on > today {
        return Err(LendingError::Future(returned_on).into());
    }
    ask(command, payment_id, whole.loan_id, Action::Return { reason, returned_on, fee_minor }).await
}

pub(super) async fn post(Path(payment_id): Path<Uuid>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, command) = command.into_parts();
    let whole = find(&command, payment_id).await?;
    match whole.status {
        "failed" | "received" => return Err(refused("Only a payment that was found good can be posted.")),
        "returned" => return Err(refused("The payment was returned.")),
        _ => {}
    }
    ask(command, payment_id, whole.loan_id, Action::Post).await
}

#[derive(Deserialize)]
pub(super) struct Allocate {
    loan_id: Uuid,
    effective_date: Option<Date>,
}

pub(super) async fn allocate(command: Command<Allocate>) -> Result<Response, Problem> {
    let (Allocate { loan_id, effective_date }, mut command) = command.into_parts();
    find_loan(&command.tx, loan_id).await?.ok_or(LendingError::LoanMissing(loan_id))?;
    let today = utc_day(Timestamp::now());
    let effective_date = effective_date.unwrap_or(today);
    if effective_date > today {
        return Err(LendingError::Future(effective_date).into());
    }
    let allocation_id = Uuid::now_v7();
    begin(&command.tx, AllocateSuspense::TYPE, allocation_id, None).await?;
    outbox::publish(&mut command.tx, &AllocateSuspense { allocation_id, loan_id, effective_date }).await?;
    let body = json!({"status": "processing", "allocationId": allocation_id});
    command.accepted(format!("/api/loans/{loan_id}/ledger"), &body).await
}

async fn ask(mut command: Command, payment_id: Uuid, loan_id: Uuid, action: Action) -> Result<Response, Problem> {
    begin(&command.tx, PostPayment::TYPE, payment_id, None).await?;
    outbox::publish(&mut command.tx, &PostPayment { payment_id, loan_id, action }).await?;
    let body = json!({"status": "processing", "paymentId": payment_id});
    command.accepted(format!("/api/payments/{payment_id}"), &body).await
}

async fn find(command: &Command, payment_id: Uuid) -> Result<Whole, Problem> {
    store::find_whole(&command.tx, payment_id).await?.ok_or_else(no_such_payment)
}

fn refused(detail: &str) -> Problem {
    Problem::new(PAYMENT_REFUSES).detail(detail)
}
