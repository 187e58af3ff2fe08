//! A payment comes back: what it had paid is open again, from its own day on.

use super::{
    place::Schedules,
    replay::{self, Because},
};
use crate::LendingError;
use crate::loans::{self, Loan, postings};
use crate::payments::{
    events::{PaymentReturned, story_of},
    posting::{self, RETURN_FEE},
    store::{self, Posted, Return},
};
use jiff::civil::Date;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger as ledger;
use onceward_money::Minor;
use serde_json::json;
use uuid::Uuid;

/// What is said of a return.
pub(crate) struct ReturnFacts<'a> {
    pub reason: &'a str,
    pub returned_on: Date,
    pub fee: Option<Minor>,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is taken back now.
    Returned,
    /// It was before.
    Before,
    /// It is not posted, so there is nothing to take back.
    NotPosted,
}

pub(crate) async fn return_payment(
    tx: &mut Tx,
    schedules: &Schedules,
    payment_id: Uuid,
    loan_id: Uuid,
    facts: ReturnFacts<'_>,
) -> Result<Outcome, LendingError> {
    let mut loan = loans::store::lock_loan(tx, loan_id).await?.ok_or(LendingError::LoanMissing(loan_id))?;
    let Some(posted) = store::find_posted(tx, &[payment_id]).await?.pop().filter(|posted| posted.loan_id == loan_id)
    else {
        return Ok(Outcome::NotPosted);
    };
    if posted.returned {
        return Ok(Outcome::Before);
    }
    let reversal_id = take_back(tx, schedules, &mut loan, &posted).await?;
    let fee = charge_fee(tx, &loan, payment_id, &facts).await?;
    let ReturnFacts { reason, returned_on, .. } = facts;
    let row = Return { payment_id, event_id: posted.event_id, reversal_id, returned_on, reason, fee };
    store::insert_return(tx, &row).await?;
    loans::reopen_if_owed(tx, &mut loan).await?;
    tell(tx, &loan, &posted, &row).await?;
    Ok(Outcome::Returned)
}

/// What came after it is posted again. Where that cannot be, because the payment is older than the terms in force or the
/// loan has ended, it is reversed alone.
async fn take_back(tx: &mut Tx, schedules: &Schedules, loan: &mut Loan, posted: &Posted) -> Result<Uuid, LendingError> {
    let day = posted.effective_date;
    if replay::can_be_replayed(loan) && day >= loan.calendar.funded_on() {
        let replayed = replay::replay(tx, schedules, loan, day, posted.payment_id, Because::Returned).await?;
        return Ok(replayed.reversal.expect("a payment that is posted stands in the ledger"));
    }
    let reversal_id = Uuid::now_v7();
    let correlation_id = format!("{}:return", story_of(posted.payment_id));
    ledger::reverse(tx, posted.event_id, reversal_id, day, &correlation_id, Some("the payment was returned")).await?;
    Ok(reversal_id)
}

async fn charge_fee(
    tx: &Tx,
    loan: &Loan,
    payment_id: Uuid,
    facts: &ReturnFacts<'_>,
) -> Result<Option<(Minor, Uuid)>, LendingError> {
    let Some(fee) = facts.fee.filter(|fee| fee.is_positive()) else {
        return Ok(None);
    };
    let correlation_id = format!("{}:return_fee", story_of(payment_id));
    let event = postings::event(loan, RETURN_FEE, facts.returned_on, correlation_id, posting::fee_lines(fee));
    ledger::post(tx, &event).await?;
    Ok(Some((fee, event.event_id)))
}

async fn tell(tx: &mut Tx, loan: &Loan, posted: &Posted, row: &Return<'_>) -> Result<(), LendingError> {
    let (payment_id, loan_id) = (posted.payment_id, loan.loan_id);
    let fee_minor = row.fee.map(|(fee, _)| fee);
    let payload = json!({
        "event_id": row.event_id, "reversal_id": row.reversal_id, "returned_on": row.returned_on,
        "reason": row.reason, "fee_minor": fee_minor
    });
    audit::record(tx, Entry::new("payment_returned").object("payment", payment_id).loan(loan_id).payload(payload))?;
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
        new_balances: posting::told(&balances)?,
    };
    outbox::publish(tx, &returned).await?;
    Ok(())
}
