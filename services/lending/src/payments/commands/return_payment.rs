//! Handles a returned payment: what it had paid is owed again, from its own day on.

use super::replay::{self, ReplayReason};
use crate::LendingError;
use crate::loans::store::ScheduleCache;
use crate::loans::{self, Loan, postings};
use crate::payments::{
    events::{NewBalances, PaymentReturned, payment_story},
    store::{self, NewReturn, PostedPayment},
};
use jiff::civil::Date;
use onceward::{Scope, Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger as ledger;
use onceward_money::Minor;
use serde_json::json;
use uuid::Uuid;

/// The details of a return.
pub(crate) struct ReturnDetails<'a> {
    pub reason: &'a str,
    pub returned_on: Date,
    pub fee: Option<Minor>,
}

/// The outcome of a return.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReturnOutcome {
    /// The payment was reversed now.
    Returned,
    /// The payment was reversed before.
    AlreadyReturned,
    /// The payment is not posted, so it cannot be reversed.
    NotPosted,
}

pub(crate) async fn return_payment(
    tx: &mut Tx,
    schedules: &ScheduleCache,
    payment_id: Uuid,
    loan_id: Uuid,
    details: ReturnDetails<'_>,
) -> Result<ReturnOutcome, LendingError> {
    let scope = &tx.scope().clone();
    let mut loan = loans::store::lock_loan(tx, loan_id).await?.ok_or(LendingError::LoanMissing(loan_id))?;
    let Some(posted) = store::find_posted(tx, &[payment_id]).await?.pop().filter(|posted| posted.loan_id == loan_id)
    else {
        return Ok(ReturnOutcome::NotPosted);
    };
    if posted.returned {
        return Ok(ReturnOutcome::AlreadyReturned);
    }
    let reversal_id = reverse(tx, scope, schedules, &mut loan, &posted).await?;
    let fee = charge_fee(tx, &loan, payment_id, &details).await?;
    let ReturnDetails { reason, returned_on, .. } = details;
    let row = NewReturn { payment_id, event_id: posted.event_id, reversal_id, returned_on, reason, fee };
    store::insert_return(tx, &row).await?;
    loans::reopen_if_owed(tx, scope, &mut loan).await?;
    publish(tx, scope, &loan, &posted, &row).await?;
    Ok(ReturnOutcome::Returned)
}

/// Reverses the payment and posts later events again. If that is not possible, because the payment is older than the
/// terms in force or the loan has ended, the payment alone is reversed.
async fn reverse(
    tx: &mut Tx,
    scope: &Scope,
    schedules: &ScheduleCache,
    loan: &mut Loan,
    posted: &PostedPayment,
) -> Result<Uuid, LendingError> {
    let day = posted.effective_date;
    if replay::can_be_replayed(loan) && day >= loan.calendar.funded_on() {
        let reason = ReplayReason::Returned { payment_id: posted.payment_id };
        let replayed = replay::replay(tx, scope, schedules, loan, day, reason).await?;
        return Ok(replayed.reversal.expect("a posted payment has an event in force"));
    }
    let reversal_id = Uuid::now_v7();
    let correlation_id = format!("{}:return", payment_story(posted.payment_id));
    ledger::reverse(tx, posted.event_id, reversal_id, day, &correlation_id, Some("the payment was returned")).await?;
    Ok(reversal_id)
}

async fn charge_fee(
    tx: &Tx,
    loan: &Loan,
    payment_id: Uuid,
    details: &ReturnDetails<'_>,
) -> Result<Option<(Minor, Uuid)>, LendingError> {
    let Some(fee) = details.fee.filter(|fee| fee.is_positive()) else {
        return Ok(None);
    };
    let correlation_id = format!("{}:return_fee", payment_story(payment_id));
    let event = postings::event(
        loan,
        postings::RETURN_FEE,
        details.returned_on,
        correlation_id,
        postings::return_fee_lines(fee),
    );
    ledger::post(tx, &event).await?;
    Ok(Some((fee, event.event_id)))
}

/// Records the return in the audit trail and publishes it.
async fn publish(
    tx: &mut Tx,
    scope: &Scope,
    loan: &Loan,
    posted: &PostedPayment,
    row: &NewReturn<'_>,
) -> Result<(), LendingError> {
    let (payment_id, loan_id) = (posted.payment_id, loan.loan_id);
    let fee_minor = row.fee.map(|(fee, _)| fee);
    let payload = json!({
        "event_id": row.event_id, "reversal_id": row.reversal_id, "returned_on": row.returned_on,
        "reason": row.reason, "fee_minor": fee_minor
    });
    let entry = Entry::new("payment_returned").object("payment", payment_id).loan(loan_id);
    audit::record_as(tx, scope, entry.payload(payload))?;
    let balances = ledger::balances(tx, loan_id, loan.currency).await?;
    let returned = PaymentReturned {
        payment_id,
        loan_id,
        event_id: row.event_id,
        reversal_id: row.reversal_id,
        effective_date: posted.effective_date,
        returned_on: row.returned_on,
        amount_minor: posted.amount,
        reason: row.reason.to_owned(),
        fee_minor,
        new_balances: NewBalances::of(&balances)?,
    };
    outbox::publish_as(tx, scope, &returned).await?;
    Ok(())
}
