//! What a payment can pay on its day: the loan's books as of that day, the amounts that follow from them, and how a
//! payment is divided among them.

use crate::LendingError;
use crate::loans::{self, Loan};
use crate::model::{
    self, Allocation, AllocationHints, Dues, LateCharge, LoanBooks, Outstanding, PaymentRule, RepaymentSchedule,
};
use jiff::civil::Date;
use onceward::{Scope, Tx};
use onceward_ledger::{self as ledger, Account, Balances};
use onceward_money::Minor;
use serde_json::{Map, Value};

/// Returns the loan's books and balances on a day after which they contain no events.
pub(crate) async fn latest_books(
    tx: &Tx,
    loan: &Loan,
    schedule: &RepaymentSchedule,
    day: Date,
) -> Result<(LoanBooks, Balances), LendingError> {
    loans::books_and_balances(tx, loan, day, has_due_instalment(schedule, day)).await
}

/// Returns whether an instalment is due by `day`. Before the first one, earlier receipts cannot have paid any.
pub(crate) fn has_due_instalment(schedule: &RepaymentSchedule, day: Date) -> bool {
    !schedule.due_by(day).is_empty()
}

/// Returns the books on a day after which they contain events, such as a disbursement from escrow.
pub(crate) async fn books_as_of(tx: &Tx, loan: &Loan, day: Date) -> Result<LoanBooks, LendingError> {
    let books = loans::books(tx, loan, day).await?;
    let balances = ledger::balances_as_of(tx, loan.loan_id, loan.currency, day).await?;
    let suspense = balances.normal(Account::Suspense)?;
    Ok(LoanBooks {
        interest_receivable: balances.get(Account::InterestReceivable),
        fees_receivable: balances.get(Account::FeesReceivable),
        escrow_balance: balances.normal(Account::EscrowLiability)?,
        suspense,
        // Later refunds reduce what can be used now.
        usable_suspense: suspense.min(books.suspense),
        ..books
    })
}

/// Returns what a payment on `day` can pay.
pub(crate) fn outstanding(
    loan: &Loan,
    schedule: &RepaymentSchedule,
    books: &LoanBooks,
    day: Date,
) -> Result<Outstanding, LendingError> {
    Ok(Dues::on(day, &loan.policy, &loan.calendar, schedule, books)?.outstanding)
}

/// As [`outstanding`], for money that is already held.
pub(crate) fn outstanding_without_suspense(
    loan: &Loan,
    schedule: &RepaymentSchedule,
    books: LoanBooks,
    day: Date,
) -> Result<Outstanding, LendingError> {
    outstanding(loan, schedule, &books.without_suspense(day)?, day)
}

/// Returns the day on which a payment is divided: its own, but not before the schedule in force begins.
pub(crate) fn division_day(loan: &Loan, day: Date) -> Date {
    day.max(loan.calendar.funded_on())
}

/// Returns whether a payment that counts from `day` is held as a whole: because the loan has ended, or because a court
/// decides what a payment of that day may pay.
pub(crate) async fn is_held(tx: &Tx, loan: &Loan, day: Date) -> Result<bool, LendingError> {
    if matches!(loan.status.payment_rule(), PaymentRule::Refuse(_)) {
        return Ok(true);
    }
    let status = if day >= loan.status_since { loan.status } else { loans::statuses(tx, loan).await?.on(day) };
    Ok(status.payment_rule() == PaymentRule::Hold)
}

/// Divides a payment according to its loan's policy.
pub(crate) fn divide(
    loan: &Loan,
    outstanding: &Outstanding,
    amount: Minor,
    hints: AllocationHints,
) -> Result<Vec<Allocation>, LendingError> {
    Ok(model::allocate(amount, &loan.policy, outstanding, hints)?)
}

/// Parses the hints of a validated payment.
pub(crate) fn parse_hints(stored: &Map<String, Value>) -> AllocationHints {
    serde_json::from_value(Value::Object(stored.clone())).unwrap_or_default()
}

/// Charges the late fees that are due by `day` and withdraws those that are not. Returns whether any changed.
pub(crate) async fn update_late_fees(
    tx: &mut Tx,
    scope: &Scope,
    loan: &Loan,
    schedule: &RepaymentSchedule,
    books: &LoanBooks,
    day: Date,
) -> Result<bool, LendingError> {
    if loan.policy.late_fee.charge == LateCharge::None {
        return Ok(false);
    }
    let statuses = loans::statuses(tx, loan).await?;
    let known = loans::store::late_fees(tx, loan).await?;
    let charged: Vec<u32> = known.iter().filter(|fee| fee.event_id.is_some()).map(|fee| fee.number).collect();
    let changes = loan.policy.late_fee.changes(day, schedule, &books.receipts, &statuses, &charged)?;
    if changes.charge.is_empty() && changes.withdraw.is_empty() {
        return Ok(false);
    }
    Ok(loans::review_late_fees(tx, scope, loan, day).await? > 0)
}
