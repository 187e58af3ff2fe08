//! Refunds money held in suspense to the borrower.

use crate::{
    LendingError,
    loans::{Loan, postings, store},
    payments::events::SuspenseRefunded,
};
use jiff::civil::Date;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger as ledger;
use onceward_money::Minor;
use serde_json::json;

/// Refunds `amount`, or the whole balance, effective on `day`. The amount must have been held on that day and ever
/// since. The status does not matter: a payment that was in transit when the loan was closed is held as well.
pub(super) async fn refund_suspense(
    tx: &mut Tx,
    loan: &Loan,
    amount: Option<Minor>,
    day: Date,
    reason: Option<&str>,
) -> Result<(), LendingError> {
    let held = store::lowest_suspense(tx, loan, day).await?.max(Minor::ZERO);
    let amount = amount.unwrap_or(held);
    if !amount.is_positive() || amount > held {
        return Err(LendingError::RefundTooLarge { amount, held });
    }
    let event = postings::suspense_refund(loan, amount, day);
    ledger::post(tx, &event).await?;
    let refunded = SuspenseRefunded {
        loan_id: loan.loan_id,
        event_id: event.event_id,
        effective_date: day,
        amount_minor: amount,
        currency: loan.currency,
        reason: reason.map(str::to_owned),
    };
    let entry = Entry::new("suspense_refunded").object("loan", loan.loan_id).loan(loan.loan_id);
    audit::record(tx, entry.payload(json!(refunded)))?;
    outbox::publish(tx, &refunded).await?;
    Ok(())
}
