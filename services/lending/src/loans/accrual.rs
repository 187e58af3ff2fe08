//! Books accrued interest.
//!
//! Each range of days is posted once: the loan's `accrued_to` advances in the transaction that posts, and the
//! posting's correlation id names the range. After an outage the missed interest is posted per schedule period.

use super::{Loan, position, postings, store};
use crate::{
    LendingError,
    model::{self, Accrual},
};
use jiff::civil::Date;
use onceward::{Scope, Tx};
use onceward_audit::{self as audit, Entry};
use onceward_ledger::{self as ledger, MAX_EVENTS, NewLedgerEvent};
use onceward_money::Minor;
use serde_json::json;

/// Books the interest of `loan`, which must be locked, up to but excluding `up_to`. Returns the amount booked.
///
/// Does nothing before funding, in a status that accrues no interest, or if the interest is already booked.
pub async fn accrue(tx: &mut Tx, scope: &Scope, loan: &mut Loan, up_to: Date) -> Result<Minor, LendingError> {
    let accruals = accrue_all(tx, scope, std::slice::from_mut(loan), up_to).await?;
    Ok(Minor::sum(accruals.iter().map(|accrual| accrual.amount))?)
}

/// As [`accrue`], for many loans, with a handful of statements.
pub(super) async fn accrue_all(
    tx: &mut Tx,
    scope: &Scope,
    loans: &mut [Loan],
    up_to: Date,
) -> Result<Vec<Accrual>, LendingError> {
    let due: Vec<(&Loan, Date)> = loans.iter().filter_map(|loan| Some((loan, accrues_from(loan, up_to)?))).collect();
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let principals = position::principals(tx, &due).await?;
    let (mut events, mut booked, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    for (loan, accrued_to) in &due {
        let statuses = position::statuses_in_period(tx, loan, *accrued_to).await?;
        let principal = principals[&loan.loan_id].while_accruing(&statuses);
        for accrual in model::accruals(&loan.policy, &loan.calendar, &principal, *accrued_to, up_to)? {
            let correlation_id = format!("accrual:{}:{}:{}", loan.loan_id, accrual.from, accrual.to);
            let event = postings::accrual(loan, &accrual, correlation_id);
            entries.push(entry(loan, &event, &accrual));
            events.push(event);
            booked.push(accrual);
        }
    }
    let ids: Vec<_> = due.iter().map(|(loan, _)| loan.loan_id).collect();
    post(tx, &events).await?;
    store::set_accrued_to(tx, &ids, &vec![up_to; ids.len()]).await?;
    for entry in entries {
        audit::record_as(tx, scope, entry)?;
    }
    for loan in loans.iter_mut().filter(|loan| accrues_from(loan, up_to).is_some()) {
        loan.accrued_to = Some(up_to);
    }
    Ok(booked)
}

/// Returns the day from which interest is missing, if any is.
fn accrues_from(loan: &Loan, up_to: Date) -> Option<Date> {
    let (_, accrued_to) = loan.funded()?;
    (loan.status.accrues_interest() && accrued_to < up_to).then_some(accrued_to)
}

async fn post(tx: &Tx, events: &[NewLedgerEvent]) -> Result<(), LendingError> {
    for events in events.chunks(MAX_EVENTS) {
        ledger::post_all(tx, events).await?;
    }
    Ok(())
}

fn entry(loan: &Loan, event: &NewLedgerEvent, accrual: &Accrual) -> Entry {
    let payload = json!({"event_id": event.event_id, "accrual": accrual});
    Entry::new("interest_accrued").object("loan", loan.loan_id).loan(loan.loan_id).payload(payload)
}
