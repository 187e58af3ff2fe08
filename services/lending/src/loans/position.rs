//! The position of a loan: its books, and the amounts that follow from them.

use super::{Loan, store};
use crate::{
    LendingError,
    model::{
        Dues, Forecast, LoanBooks, LoanStatus, Outstanding, PaymentRule, PayoffQuote, PrincipalHistory, Receipt,
        StatusHistory,
    },
};
use futures_util::try_join;
use jiff::civil::Date;
use onceward::{DbError, Tx};
use onceward_ledger::{Account, Balances};
use onceward_money::Minor;
use std::collections::HashMap;
use uuid::Uuid;

/// Returns what a payment on `day` can pay. Interest must already be accrued up to `day`; see [`super::accrue`].
pub async fn outstanding(tx: &Tx, loan: &Loan, day: Date) -> Result<Outstanding, LendingError> {
    Ok(dues(tx, loan, day).await?.outstanding)
}

/// Returns what is due on `day`, and since when.
pub async fn dues(tx: &Tx, loan: &Loan, day: Date) -> Result<Dues, LendingError> {
    let books = books(tx, loan, day).await?;
    let schedule = store::find_schedule(tx, loan.loan_id, loan.schedule_no).await?;
    Ok(Dues::on(day, &loan.policy, &loan.calendar, &schedule, &books)?)
}

/// Returns the quote that ends the loan if it is paid on `good_through`. Posts nothing.
pub async fn payoff(tx: &Tx, loan: &Loan, good_through: Date) -> Result<PayoffQuote, LendingError> {
    let books = books(tx, loan, good_through).await?;
    let schedule = store::find_schedule(tx, loan.loan_id, loan.schedule_no).await?;
    let statuses = statuses(tx, loan).await?;
    let fees = store::late_fees(tx, loan).await?;
    let forecast = Forecast {
        policy: &loan.policy,
        calendar: &loan.calendar,
        schedule: &schedule,
        statuses: &statuses,
        charged: fees.iter().filter(|fee| fee.event_id.is_some()).map(|fee| fee.number).collect(),
        suspense_applied_to: loan.suspense_applied_to.unwrap_or(loan.calendar.funded_on()),
    };
    let books = forecast.books_on(books, good_through)?;
    Ok(PayoffQuote::new(&loan.policy, &loan.calendar, &books, good_through)?)
}

/// Returns the parts of the books that matter on `day`.
pub async fn books(tx: &Tx, loan: &Loan, day: Date) -> Result<LoanBooks, LendingError> {
    Ok(books_and_balances(tx, loan, day, true).await?.0)
}

/// As [`books`], with the balances. A caller that knows that no instalment is due by `day` may omit the receipts: they
/// could not have paid any.
pub async fn books_and_balances(
    tx: &Tx,
    loan: &Loan,
    day: Date,
    with_receipts: bool,
) -> Result<(LoanBooks, Balances), LendingError> {
    let mut all = books_of_all(tx, &[BooksRequest { loan, day, with_receipts }]).await?;
    Ok(all.pop().expect("every requested loan has books"))
}

/// Returns the books on a day after which they contain events, such as a disbursement from escrow.
pub(crate) async fn books_as_of(tx: &Tx, loan: &Loan, day: Date) -> Result<LoanBooks, LendingError> {
    let books = books(tx, loan, day).await?;
    let balances = onceward_ledger::balances_as_of(tx, loan.loan_id, loan.currency, day).await?;
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

/// A loan whose books are requested.
pub(crate) struct BooksRequest<'l> {
    pub loan: &'l Loan,
    pub day: Date,
    pub with_receipts: bool,
}

/// Returns the books and balances of many loans, in the order given, with a handful of statements in one round trip.
pub(crate) async fn books_of_all(
    tx: &Tx,
    requests: &[BooksRequest<'_>],
) -> Result<Vec<(LoanBooks, Balances)>, LendingError> {
    let mut from = Vec::with_capacity(requests.len());
    for BooksRequest { loan, day, .. } in requests {
        let (_, accrued_to) = loan.funded().ok_or(LendingError::NotFunded)?;
        from.push(period_start(loan, (*day).min(accrued_to)));
    }
    let loans: Vec<_> = requests.iter().map(|request| (request.loan.loan_id, request.loan.currency)).collect();
    let ids: Vec<Uuid> = loans.iter().map(|(loan_id, _)| *loan_id).collect();
    let with_receipts: Vec<&Loan> =
        requests.iter().filter(|request| request.with_receipts).map(|request| request.loan).collect();
    let (balances, mut receipts, changes) = try_join!(
        async { Ok::<_, LendingError>(onceward_ledger::balances_of_all(tx, &loans).await?) },
        receipts_of_all(tx, &with_receipts),
        async { Ok(store::principal_changes(tx, &ids, &from).await?) },
    )?;
    let mut changes_of: HashMap<Uuid, Vec<(Date, Minor)>> = HashMap::new();
    for (loan_id, day, change) in changes {
        changes_of.entry(loan_id).or_default().push((day, change));
    }
    let mut all = Vec::with_capacity(requests.len());
    for ((BooksRequest { loan, .. }, from), balances) in requests.iter().zip(from).zip(balances) {
        let changes = changes_of.remove(&loan.loan_id).unwrap_or_default();
        let (receipts, escrow_deposited) = receipts.remove(&loan.loan_id).unwrap_or_default();
        let (_, accrued_to) = loan.funded().ok_or(LendingError::NotFunded)?;
        let books = LoanBooks {
            principal: history(from, balances.get(Account::LoanPrincipal), changes)?,
            interest_receivable: balances.get(Account::InterestReceivable),
            accrued_to,
            fees_receivable: balances.get(Account::FeesReceivable),
            receipts,
            escrow_deposited,
            escrow_balance: balances.normal(Account::EscrowLiability)?,
            suspense: balances.normal(Account::Suspense)?,
            usable_suspense: balances.normal(Account::Suspense)?,
        };
        all.push((books, balances));
    }
    Ok(all)
}

/// Returns whether the borrower owes anything: the loan, an escrow advance, or a negative suspense balance.
pub(crate) fn owes(balances: &Balances) -> bool {
    [
        Account::LoanPrincipal,
        Account::InterestReceivable,
        Account::FeesReceivable,
        Account::EscrowLiability,
        Account::Suspense,
    ]
    .into_iter()
    .any(|account| balances.get(account).is_positive())
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
    let status = if day >= loan.status_since { loan.status } else { statuses(tx, loan).await?.on(day) };
    Ok(status.payment_rule() == PaymentRule::Hold)
}

/// Returns the status of `loan` on each day since the schedule in force began.
pub(crate) async fn statuses(tx: &Tx, loan: &Loan) -> Result<StatusHistory, LendingError> {
    statuses_since(tx, loan, loan.calendar.funded_on()).await
}

/// Returns the status of `loan` on each day since the start of the period that contains `day`. Most loans had one
/// status.
pub(super) async fn statuses_in_period(tx: &Tx, loan: &Loan, day: Date) -> Result<StatusHistory, LendingError> {
    statuses_since(tx, loan, period_start(loan, day)).await
}

async fn statuses_since(tx: &Tx, loan: &Loan, day: Date) -> Result<StatusHistory, LendingError> {
    if loan.status_since <= day {
        return Ok(StatusHistory::always(loan.status));
    }
    let changes = store::status_changes(tx, loan.loan_id).await?;
    let since_funding = changes.into_iter().filter(|change| change.to != LoanStatus::Created);
    Ok(StatusHistory::new(since_funding.map(|change| (change.effective_date, change.to))))
}

/// Returns the money received for the instalments of the schedule in force, and the escrow deposits since it began.
pub(super) async fn receipts(tx: &Tx, loan: &Loan) -> Result<(Vec<Receipt>, Minor), LendingError> {
    Ok(receipts_of_all(tx, &[loan]).await?.remove(&loan.loan_id).unwrap_or_default())
}

async fn receipts_of_all(tx: &Tx, loans: &[&Loan]) -> Result<HashMap<Uuid, (Vec<Receipt>, Minor)>, LendingError> {
    if loans.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<Uuid> = loans.iter().map(|loan| loan.loan_id).collect();
    let mut all: HashMap<Uuid, (Vec<Receipt>, Minor)> = HashMap::with_capacity(loans.len());
    for loan in loans {
        let (receipts, escrow) = all.entry(loan.loan_id).or_default();
        *escrow = loan.escrow_before.checked_neg()?;
        if !loan.received_before.is_zero() {
            // This money paid the instalments of earlier schedules and is not available to these.
            receipts.push(Receipt { on: loan.calendar.funded_on(), amount: loan.received_before.checked_neg()? });
        }
    }
    for received in store::received(tx, &ids).await? {
        let (receipts, escrow) = all.entry(received.loan_id).or_default();
        receipts.push(Receipt { on: received.day, amount: received.for_instalments });
        *escrow = escrow.checked_add(received.for_escrow)?;
    }
    Ok(all)
}

/// Returns each loan's principal over time, from the start of the period that contains its day.
pub(super) async fn principals(
    tx: &Tx,
    loans: &[(&Loan, Date)],
) -> Result<HashMap<Uuid, PrincipalHistory>, LendingError> {
    let ids: Vec<Uuid> = loans.iter().map(|(loan, _)| loan.loan_id).collect();
    let from: Vec<Date> = loans.iter().map(|(loan, day)| period_start(loan, *day)).collect();
    let balances: HashMap<Uuid, Minor> = store::principal_balances(tx, &ids).await?.into_iter().collect();
    let mut changes: HashMap<Uuid, Vec<(Date, Minor)>> = HashMap::new();
    for (loan_id, day, change) in store::principal_changes(tx, &ids, &from).await? {
        changes.entry(loan_id).or_default().push((day, change));
    }
    let mut principals = HashMap::with_capacity(ids.len());
    for (loan_id, from) in ids.into_iter().zip(from) {
        let balance = balances.get(&loan_id).copied().unwrap_or_default();
        principals.insert(loan_id, history(from, balance, changes.remove(&loan_id).unwrap_or_default())?);
    }
    Ok(principals)
}

fn period_start(loan: &Loan, day: Date) -> Date {
    loan.calendar.period(loan.calendar.period_number_at(day)).start
}

/// Computes the history backwards from the current balance to `from`.
fn history(from: Date, balance: Minor, changes: Vec<(Date, Minor)>) -> Result<PrincipalHistory, LendingError> {
    let since = Minor::sum(changes.iter().map(|(_, change)| *change))?;
    let at_first = (from, balance.checked_sub(since)?);
    Ok(PrincipalHistory::from_changes(std::iter::once(at_first).chain(changes))?)
}

/// Locks and returns the loan, or fails if it does not exist.
pub(super) async fn lock(tx: &Tx, loan_id: Uuid) -> Result<Loan, LendingError> {
    let found: Result<Option<Loan>, DbError> = store::lock_loan(tx, loan_id).await;
    found?.ok_or(LendingError::LoanMissing(loan_id))
}
