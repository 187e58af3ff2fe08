//! The daily servicing of a loan: suspense pays what fell due, interest accrues, and late instalments incur a fee.

use crate::{
    LendingError,
    loans::{
        Loan,
        accrual::accrue_all,
        late_fees::{grace_ended_between, review_late_fees},
        store::{self, ScheduleCache},
    },
    payments::{apply_suspense, has_unprocessed_due_date},
};
use jiff::civil::Date;
use onceward::{Scope, Tx};
use onceward_audit::{self as audit, Entry};
use serde_json::json;
use std::collections::HashSet;
use uuid::Uuid;

/// Books everything up to `day` for `loans`, which must be locked.
///
/// A loan whose books a rule refuses is left for the next day, with an audit entry that contains the reason: it must
/// not prevent the others from being serviced.
pub(crate) async fn service_loans(tx: &mut Tx, loans: &[Loan], day: Date) -> Result<(), LendingError> {
    let ids: Vec<_> = loans.iter().map(|loan| loan.loan_id).collect();
    if let ServicingOutcome::Refused(_) = try_service(tx, loans, day).await? {
        for loan in loans {
            if let ServicingOutcome::Refused(reason) = try_service(tx, std::slice::from_ref(loan), day).await? {
                tracing::error!(
                    loan_id = %loan.loan_id, %reason,
                    "servicing a loan failed because its books break a rule; correct its postings"
                );
                let payload = json!({"day": day, "reason": reason});
                let entry = Entry::new("loan_not_served").object("loan", loan.loan_id).loan(loan.loan_id);
                audit::record(tx, entry.payload(payload))?;
            }
        }
    }
    Ok(store::set_serviced_to(tx, &ids, day).await?)
}

/// The outcome of servicing some loans.
enum ServicingOutcome {
    Done,
    /// Everything was rolled back.
    Refused(String),
}

async fn try_service(tx: &mut Tx, loans: &[Loan], day: Date) -> Result<ServicingOutcome, LendingError> {
    let scope = &tx.scope().clone();
    let savepoint = tx.savepoint();
    let outcome = match book(tx, scope, &mut loans.to_vec(), day).await {
        Ok(()) => ServicingOutcome::Done,
        Err(refusal) if refusal.is_refusal() => {
            tx.rollback_to(savepoint).await?;
            ServicingOutcome::Refused(refusal.to_string())
        }
        Err(error) => return Err(error),
    };
    tx.release(savepoint);
    Ok(outcome)
}

async fn book(tx: &mut Tx, scope: &Scope, loans: &mut [Loan], day: Date) -> Result<(), LendingError> {
    apply_suspense_of_all(tx, scope, loans, day).await?;
    accrue_all(tx, scope, loans, day).await?;
    for loan in loans {
        if loan.serviced_to.is_some_and(|since| grace_ended_between(loan, since, day)) {
            review_late_fees(tx, scope, loan, day).await?;
        }
    }
    Ok(())
}

/// Runs before interest is booked up to `day`: money applied on a due date reduces the principal from that day on.
/// Loans without suspense cost one statement together.
async fn apply_suspense_of_all(tx: &mut Tx, scope: &Scope, loans: &mut [Loan], day: Date) -> Result<(), LendingError> {
    let due: Vec<Uuid> =
        loans.iter().filter(|loan| has_unprocessed_due_date(loan, day)).map(|loan| loan.loan_id).collect();
    if due.is_empty() {
        return Ok(());
    }
    let holding: HashSet<Uuid> = store::suspense_balances(tx, &due).await?.into_iter().map(|(id, _)| id).collect();
    let schedules = ScheduleCache::with_capacity(holding.len().max(1));
    for loan in loans.iter_mut().filter(|loan| holding.contains(&loan.loan_id)) {
        apply_suspense(tx, scope, &schedules, loan, day).await?;
    }
    Ok(store::set_suspense_applied_to(tx, &due, day).await?)
}
