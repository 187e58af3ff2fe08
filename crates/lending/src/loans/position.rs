//! Where a loan stands: what the books say of it, and what follows from that.

use super::{Loan, store};
use crate::{
    LendingError,
    model::{Books, Dues, Outstanding, PayoffQuote, PrincipalHistory, Receipt},
};
use futures_util::try_join;
use jiff::civil::Date;
use onceward::{DbError, Tx};
use onceward_ledger::{Account, Balances};
use onceward_money::Minor;
use std::collections::HashMap;
use uuid::Uuid;

/// What a payment on `day` can pay. Interest must be accrued up to `day` before; see [`super::accrue`].
pub async fn outstanding(tx: &Tx, loan: &Loan, day: Date) -> Result<Outstanding, LendingError> {
    Ok(dues(tx, loan, day).await?.outstanding)
}

/// What is due on `day`, and since when.
pub async fn dues(tx: &Tx, loan: &Loan, day: Date) -> Result<Dues, LendingError> {
    let books = books(tx, loan, day).await?;
    let schedule = store::find_schedule(tx, loan.loan_id).await?;
    Ok(Dues::on(day, &loan.policy, &loan.calendar, &schedule, &books)?)
}

/// What ends the loan if it arrives on `good_through`. Nothing is posted.
pub async fn payoff(tx: &Tx, loan: &Loan, good_through: Date) -> Result<PayoffQuote, LendingError> {
    let books = books(tx, loan, good_through).await?;
    Ok(PayoffQuote::new(&loan.policy, &loan.calendar, &books, good_through)?)
}

/// What the books say, as far as it matters on `day`.
pub async fn books(tx: &Tx, loan: &Loan, day: Date) -> Result<Books, LendingError> {
    Ok(books_and_balances(tx, loan, day, true).await?.0)
}

/// The same with the balances. Who knows that no instalment is due by `day` may leave the receipts out: there is nothing
/// that they could have paid.
pub async fn books_and_balances(
    tx: &Tx,
    loan: &Loan,
    day: Date,
    with_receipts: bool,
) -> Result<(Books, Balances), LendingError> {
    let mut all = books_of_all(tx, &[Asked { loan, day, with_receipts }]).await?;
    Ok(all.pop().expect("there are books for every loan that is asked for"))
}

/// A loan whose books are asked for.
pub(crate) struct Asked<'l> {
    pub loan: &'l Loan,
    pub day: Date,
    pub with_receipts: bool,
}

/// The books and balances of many loans, in the order given, by a handful of statements in one round trip.
pub(crate) async fn books_of_all(tx: &Tx, asked: &[Asked<'_>]) -> Result<Vec<(Books, Balances)>, LendingError> {
    let mut from = Vec::with_capacity(asked.len());
    for Asked { loan, day, .. } in asked {
        let (_, accrued_to) = loan.funded().ok_or(LendingError::NotFunded)?;
        from.push(period_start(loan, (*day).min(accrued_to)));
    }
    let loans: Vec<_> = asked.iter().map(|asked| (asked.loan.loan_id, asked.loan.currency)).collect();
    let ids: Vec<Uuid> = loans.iter().map(|(loan_id, _)| *loan_id).collect();
    let with_receipts: Vec<&Loan> = asked.iter().filter(|asked| asked.with_receipts).map(|asked| asked.loan).collect();
    let (balances, mut receipts, changes) = try_join!(
        async { Ok::<_, LendingError>(onceward_ledger::balances_of_all(tx, &loans).await?) },
        receipts_of_all(tx, &with_receipts),
        async { Ok(store::principal_changes(tx, &ids, &from).await?) },
    )?;
    let mut changes_of: HashMap<Uuid, Vec<(Date, Minor)>> = HashMap::new();
    for (loan_id, day, change) in changes {
        changes_of.entry(loan_id).or_default().push((day, change));
    }
    let mut all = Vec::with_capacity(asked.len());
    for ((Asked { loan, .. }, from), balances) in asked.iter().zip(from).zip(balances) {
        let changes = changes_of.remove(&loan.loan_id).unwrap_or_default();
        let (receipts, escrow_deposited) = receipts.remove(&loan.loan_id).unwrap_or_default();
        let (_, accrued_to) = loan.funded().ok_or(LendingError::NotFunded)?;
        let books = Books {
            principal: history(from, balances.get(Account::LoanPrincipal), changes)?,
            interest_receivable: balances.get(Account::InterestReceivable),
            accrued_to,
            fees_receivable: balances.get(Account::FeesReceivable),
            receipts,
            escrow_deposited,
            escrow_balance: balances.normal(Account::EscrowLiability)?,
            suspense: balances.normal(Account::Suspense)?,
        };
        all.push((books, balances));
    }
    Ok(all)
}

/// What came for the instalments of the schedule in force, and for escrow since then.
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
            // It paid the instalments of earlier schedules and is not there for these.
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

/// What each loan owed over time, from the beginning of the period in which its day is.
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

/// From what is owed in the end, backwards to `from`.
fn history(from: Date, balance: Minor, changes: Vec<(Date, Minor)>) -> Result<PrincipalHistory, LendingError> {
    let since = Minor::sum(changes.iter().map(|(_, change)| *change))?;
    let at_first = (from, balance.checked_sub(since)?);
    Ok(PrincipalHistory::from_changes(std::iter::once(at_first).chain(changes))?)
}

/// Reads the loan or says that there is none.
pub(super) async fn lock(tx: &Tx, loan_id: Uuid) -> Result<Loan, LendingError> {
    let found: Result<Option<Loan>, DbError> = store::lock_loan(tx, loan_id).await;
    found?.ok_or(LendingError::LoanMissing(loan_id))
}
