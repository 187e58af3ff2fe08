//! A disbursement is settled: paid, or refused with a reason.

use crate::{
    LendingError,
    escrow::{
        Disbursement, Status,
        events::{EscrowDisburse, EscrowDisbursed, EscrowRefused},
        store,
    },
    loans::{self, Loan, postings},
    model::{EscrowPolicy, LoanStatus},
};
use jiff::civil::Date;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger::{self as ledger, Account, LedgerError, NewEvent, credit, debit};
use onceward_money::{Minor, MoneyError};
use serde_json::json;
use uuid::Uuid;

/// What became of a command.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::escrow) enum Outcome {
    /// It is settled, now or before.
    Settled,
    /// Its id belongs to something else.
    OtherDisbursement,
}

pub(in crate::escrow) async fn disburse(
    tx: &mut Tx,
    command: &EscrowDisburse,
    today: Date,
) -> Result<Outcome, LendingError> {
    let missing = LendingError::LoanMissing(command.loan_id);
    let loan = loans::store::lock_loan(tx, command.loan_id).await?.ok_or(missing)?;
    // One that came by a message alone has no row yet.
    store::insert(tx, &loan, command).await?;
    let found = store::find(tx, command.disbursement_id).await?;
    let asked = |found: &Disbursement| found.loan_id == command.loan_id && found.request == command.disbursement;
    let Some(mut disbursement) = found.filter(asked) else {
        return Ok(Outcome::OtherDisbursement);
    };
    if disbursement.status != Status::Requested {
        return Ok(Outcome::Settled);
    }
    match may_be_paid(tx, &loan, &disbursement, today).await {
        Ok(()) => pay(tx, &loan, &mut disbursement).await?,
        Err(refusal) if refusal.is_refusal() => refuse(tx, &mut disbursement, &refusal).await?,
        Err(error) => return Err(error),
    }
    Ok(Outcome::Settled)
}

async fn may_be_paid(tx: &Tx, loan: &Loan, disbursement: &Disbursement, today: Date) -> Result<(), LendingError> {
    let day = disbursement.request.effective_date;
    let (funded_on, _) = loan.funded().ok_or(LendingError::NotFunded)?;
    if loan.status == LoanStatus::Closed {
        let (action, needs) = ("an escrow disbursement", "not closed");
        return Err(LendingError::WrongStatus { action, needs, status: loan.status });
    }
    if day > today {
        return Err(LendingError::Future(day));
    }
    if day < funded_on {
        return Err(LendingError::BeforeFunding { day, funded_on });
    }
    let held = ledger::balances_as_of(tx, loan.loan_id, loan.currency, day).await?.normal(Account::EscrowLiability)?;
    let later = store::changes_after(tx, loan.loan_id, loan.currency, day).await?;
    Ok(policy(loan).may_disburse(lowest(held, &later)?, disbursement.request.amount_minor)?)
}

/// Nothing is advanced for a loan that nothing is expected from any more.
fn policy(loan: &Loan) -> EscrowPolicy {
    let served = loan.status.accrues_interest();
    let advance_limit_minor = if served { loan.policy.escrow.advance_limit_minor } else { Minor::ZERO };
    EscrowPolicy { advance_limit_minor, ..loan.policy.escrow }
}

/// The least that was there at the end of any day. What is backdated must have been there all the time since.
fn lowest(held: Minor, changes: &[Minor]) -> Result<Minor, MoneyError> {
    let (mut balance, mut lowest) = (held, held);
    for change in changes {
        balance = balance.checked_add(*change)?;
        lowest = lowest.min(balance);
    }
    Ok(lowest)
}

async fn pay(tx: &mut Tx, loan: &Loan, disbursement: &mut Disbursement) -> Result<(), LendingError> {
    disbursement.status = Status::Disbursed;
    disbursement.event_id = Some(post(tx, &posting(loan, disbursement)).await?);
    store::settle(tx, disbursement).await?;
    audit::record(tx, entry("escrow_disbursed", disbursement))?;
    outbox::publish(tx, &EscrowDisbursed::new(disbursement)).await?;
    Ok(())
}

/// A posting that is there already, without the row that says so, is the one.
async fn post(tx: &Tx, event: &NewEvent) -> Result<Uuid, LendingError> {
    match ledger::post(tx, event).await {
        Ok(posted) => Ok(posted.event_id),
        Err(LedgerError::AlreadyPosted { event_id }) => Ok(event_id),
        Err(error) => Err(error.into()),
    }
}

fn posting(loan: &Loan, disbursement: &Disbursement) -> NewEvent {
    let request = &disbursement.request;
    let memo = format!("{} to {}", request.purpose.as_str(), request.payee.name);
    let lines = vec![
        debit(Account::EscrowLiability, request.amount_minor, &memo),
        credit(Account::Cash, request.amount_minor, memo),
    ];
    let correlation_id = format!("escrow:{}", disbursement.disbursement_id);
    postings::event(loan, postings::ESCROW, request.effective_date, correlation_id, lines)
}

async fn refuse(tx: &mut Tx, disbursement: &mut Disbursement, refusal: &LendingError) -> Result<(), LendingError> {
    disbursement.status = Status::Refused;
    disbursement.reason = Some(refusal.to_string());
    store::settle(tx, disbursement).await?;
    audit::record(tx, entry("escrow_refused", disbursement))?;
    outbox::publish(tx, &EscrowRefused::new(disbursement)).await?;
    Ok(())
}

fn entry(what: &str, disbursement: &Disbursement) -> Entry {
    Entry::new(what)
        .object("escrow_disbursement", disbursement.disbursement_id)
        .loan(disbursement.loan_id)
        .new_value(json!(disbursement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_balance_is_that_of_the_worst_day() {
        let check = |held, changes: &[i64], expected| {
            let changes: Vec<Minor> = changes.iter().copied().map(Minor::new).collect();
            assert_eq!(lowest(Minor::new(held), &changes), Ok(Minor::new(expected)), "{held} {changes:?}");
        };
        check(100, &[], 100);
        check(100, &[50, 50], 100);
        check(100, &[-80, 200], 20);
        check(0, &[100, -130, 40], -30);
        assert_eq!(lowest(Minor::MAX, &[Minor::new(1)]), Err(MoneyError::Overflow));
    }
}
