//! Where a payment meets its loan: what is owed on its day, and how it is divided.

use crate::LendingError;
use crate::loans::{self, Loan};
use crate::model::{self, Allocation, Books, Dues, Hints, LateCharge, Outstanding, Receipt, Schedule};
use jiff::civil::Date;
use onceward::{DbError, TenantId, Tx};
use onceward_ledger::{self as ledger, Account, Balances};
use onceward_money::Minor;
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use uuid::Uuid;

/// Schedules that are kept at most. They are small; the bound is there because there are many loans.
const MOST_SCHEDULES: usize = 4_096;

/// Schedules by tenant, loan and number. A number's schedule never changes: a modification makes the next one.
#[derive(Default)]
pub(crate) struct Schedules(Mutex<HashMap<(TenantId, Uuid, i32), Arc<Schedule>>>);

impl Schedules {
    /// The schedule in force of `loan`, which is locked.
    pub(crate) async fn of(&self, tx: &Tx, loan: &Loan) -> Result<Arc<Schedule>, DbError> {
        let key = (tx.tenant()?.clone(), loan.loan_id, loan.schedule_no);
        if let Some(known) = self.0.lock().expect("no panic while held").get(&key) {
            return Ok(known.clone());
        }
        let schedule = Arc::new(loans::store::find_schedule(tx, loan.loan_id).await?);
        let mut known = self.0.lock().expect("no panic while held");
        if known.len() >= MOST_SCHEDULES {
            known.clear();
        }
        known.insert(key, schedule.clone());
        Ok(schedule)
    }
}

/// What the books of a loan say on a day that nothing in them lies behind, and its balances.
pub(crate) async fn books_now(
    tx: &Tx,
    loan: &Loan,
    schedule: &Schedule,
    day: Date,
) -> Result<(Books, Balances), LendingError> {
    loans::books_and_balances(tx, loan, day, something_is_due(schedule, day)).await
}

/// Whether what came before can have paid anything.
pub(crate) fn something_is_due(schedule: &Schedule, day: Date) -> bool {
    !schedule.due_by(day).is_empty()
}

/// The same on a day behind which there is more, such as a disbursement from escrow.
pub(crate) async fn books_as_of(tx: &Tx, loan: &Loan, day: Date) -> Result<Books, LendingError> {
    let books = loans::books(tx, loan, day).await?;
    let then = ledger::balances_as_of(tx, loan.loan_id, loan.currency, day).await?;
    Ok(Books {
        interest_receivable: then.get(Account::InterestReceivable),
        fees_receivable: then.get(Account::FeesReceivable),
        escrow_balance: then.normal(Account::EscrowLiability)?,
        suspense: then.normal(Account::Suspense)?,
        ..books
    })
}

/// What a payment on `day` can pay.
pub(crate) fn outstanding(
    loan: &Loan,
    schedule: &Schedule,
    books: &Books,
    day: Date,
) -> Result<Outstanding, LendingError> {
    Ok(Dues::on(day, &loan.policy, &loan.calendar, schedule, books)?.outstanding)
}

/// The same for money that is held already. It has been counted as received; what it shall pay is not paid yet.
pub(crate) fn outstanding_without_suspense(
    loan: &Loan,
    schedule: &Schedule,
    mut books: Books,
    day: Date,
) -> Result<Outstanding, LendingError> {
    books.receipts.push(Receipt { on: day, amount: books.suspense.checked_neg()? });
    outstanding(loan, schedule, &books, day)
}

/// The day on which a payment is divided: its own, but not before the schedule in force begins.
pub(crate) fn divided_on(loan: &Loan, day: Date) -> Date {
    day.max(loan.calendar.funded_on())
}

/// Divides a payment by its loan's policy.
pub(crate) fn divide(
    loan: &Loan,
    outstanding: &Outstanding,
    amount: Minor,
    hints: Hints,
) -> Result<Vec<Allocation>, LendingError> {
    Ok(model::allocate(amount, &loan.policy, outstanding, hints)?)
}

/// The hints of a payment that was found good.
pub(crate) fn hints(given: &Map<String, Value>) -> Hints {
    serde_json::from_value(Value::Object(given.clone())).unwrap_or_default()
}

/// Charges late fees that are due by `day`, or takes them back, if there is anything to do.
pub(crate) async fn late_fees_by(
    tx: &mut Tx,
    loan: &Loan,
    schedule: &Schedule,
    books: &Books,
    day: Date,
) -> Result<bool, LendingError> {
    if !loan.status.charges_late_fees() || loan.policy.late_fee.charge == LateCharge::None {
        return Ok(false);
    }
    let known = loans::store::late_fees(tx, loan.loan_id).await?;
    let charged: Vec<u32> = known.iter().filter(|fee| fee.event_id.is_some()).map(|fee| fee.number).collect();
    let changes = loan.policy.late_fee.changes(day, schedule, &books.receipts, &charged)?;
    if changes.charge.is_empty() && changes.withdraw.is_empty() {
        return Ok(false);
    }
    Ok(loans::review_late_fees(tx, loan, day).await? > 0)
}
