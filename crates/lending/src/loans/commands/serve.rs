//! What a day brings: interest, and fees for what is late.

use crate::{
    LendingError,
    loans::{
        Loan,
        accrual::accrue_all,
        late_fees::{grace_ended_between, review_late_fees},
        store,
    },
};
use jiff::civil::Date;
use onceward::Tx;
use onceward_audit::{self as audit, Entry};
use serde_json::json;

/// Books everything up to `day` for `loans`, which are locked.
///
/// A loan whose books a rule refuses is left for the next day, with an audit entry that says why: it must not keep the
/// others from being served.
pub(crate) async fn serve(tx: &mut Tx, loans: &[Loan], day: Date) -> Result<(), LendingError> {
    let ids: Vec<_> = loans.iter().map(|loan| loan.loan_id).collect();
    if let Attempt::Refused(_) = attempt(tx, loans, day).await? {
        for loan in loans {
            if let Attempt::Refused(reason) = attempt(tx, std::slice::from_ref(loan), day).await? {
                tracing::error!(loan_id = %loan.loan_id, %reason, "a loan cannot be served; correct its books");
                let payload = json!({"day": day, "reason": reason});
                let entry = Entry::new("loan_not_served").object("loan", loan.loan_id).loan(loan.loan_id);
                audit::record(tx, entry.payload(payload))?;
            }
        }
    }
    Ok(store::set_serviced_to(tx, &ids, day).await?)
}

enum Attempt {
    Done,
    /// All of it was undone.
    Refused(String),
}

async fn attempt(tx: &mut Tx, loans: &[Loan], day: Date) -> Result<Attempt, LendingError> {
    let before = tx.savepoint();
    let attempt = match book(tx, &mut loans.to_vec(), day).await {
        Ok(()) => Attempt::Done,
        Err(refusal) if refusal.is_refusal() => {
            tx.rollback_to(before).await?;
            Attempt::Refused(refusal.to_string())
        }
        Err(error) => return Err(error),
    };
    tx.release(before);
    Ok(attempt)
}

async fn book(tx: &mut Tx, loans: &mut [Loan], day: Date) -> Result<(), LendingError> {
    accrue_all(tx, loans, day).await?;
    for loan in loans {
        if loan.serviced_to.is_some_and(|since| grace_ended_between(loan, since, day)) {
            review_late_fees(tx, loan, day).await?;
        }
    }
    Ok(())
}
