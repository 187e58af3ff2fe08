//! The escrow commands: request a disbursement, and settle it.

use super::{
    Disbursement, DisbursementStatus,
    events::{EscrowDisburse, EscrowDisbursed, EscrowRefused},
    store,
};
use crate::{
    LendingError,
    loans::{self, Loan, postings},
    model::{EscrowPolicy, LoanStatus},
};
use jiff::civil::Date;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger::{self as ledger, Account, LedgerError, NewLedgerEvent, credit, debit};
use onceward_money::{Minor, MoneyError};
use serde_json::json;
use uuid::Uuid;

/// Requests a disbursement. Whether it may be paid is decided when its turn among the loan's postings comes.
pub(super) async fn request_disbursement(
    tx: &mut Tx,
    loan: &Loan,
    command: &EscrowDisburse,
) -> Result<(), LendingError> {
    store::insert(tx, loan, command).await?;
    let entry = Entry::new("escrow_requested")
        .object("escrow_disbursement", command.disbursement_id)
        .loan(loan.loan_id)
        .new_value(json!(command.disbursement));
    audit::record(tx, entry)?;
    outbox::publish(tx, command).await?;
    Ok(())
}

/// The outcome of the command to pay a disbursement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DisburseOutcome {
    /// The disbursement is settled, now or earlier.
    Settled,
    /// The id belongs to a different disbursement.
    OtherDisbursement,
}

/// Settles a disbursement: pays it, or refuses it with a reason.
pub(super) async fn disburse(
    tx: &mut Tx,
    command: &EscrowDisburse,
    today: Date,
) -> Result<DisburseOutcome, LendingError> {
    let missing = LendingError::LoanMissing(command.loan_id);
    let loan = loans::store::lock_loan(tx, command.loan_id).await?.ok_or(missing)?;
    // A disbursement requested only by message has no row yet.
    store::insert(tx, &loan, command).await?;
    let found = store::find(tx, command.disbursement_id).await?;
    let is_same = |found: &Disbursement| found.loan_id == command.loan_id && found.request == command.disbursement;
    let Some(mut disbursement) = found.filter(is_same) else {
        return Ok(DisburseOutcome::OtherDisbursement);
    };
    if disbursement.status != DisbursementStatus::Requested {
        return Ok(DisburseOutcome::Settled);
    }
    match check_payable(tx, &loan, &disbursement, today).await {
        Ok(()) => pay(tx, &loan, &mut disbursement).await?,
        Err(refusal) if refusal.is_refusal() => refuse(tx, &mut disbursement, &refusal).await?,
        Err(error) => return Err(error),
    }
    Ok(DisburseOutcome::Settled)
}

async fn check_payable(tx: &Tx, loan: &Loan, disbursement: &Disbursement, today: Date) -> Result<(), LendingError> {
    let day = disbursement.request.effective_date;
    let (funded_on, _) = loan.funded().ok_or(LendingError::NotFunded)?;
    if loan.status == LoanStatus::Closed {
        let (action, needs) = ("an escrow disbursement", "not closed");
        return Err(LendingError::WrongStatus { action, needs, status: loan.status });
    }
    if day > today {
        return Err(LendingError::FutureDate(day));
    }
    if day < funded_on {
        return Err(LendingError::BeforeFunding { day, funded_on });
    }
    let held = ledger::balances_as_of(tx, loan.loan_id, loan.currency, day).await?.normal(Account::EscrowLiability)?;
    let later = store::changes_after(tx, loan.loan_id, loan.currency, day).await?;
    Ok(effective_policy(loan).may_disburse(lowest_balance(held, &later)?, disbursement.request.amount_minor)?)
}

/// No money is advanced for a loan from which nothing more is expected.
fn effective_policy(loan: &Loan) -> EscrowPolicy {
    let serviced = loan.status.accrues_interest();
    let advance_limit_minor = if serviced { loan.policy.escrow.advance_limit_minor } else { Minor::ZERO };
    EscrowPolicy { advance_limit_minor, ..loan.policy.escrow }
}

/// Returns the lowest balance at the end of any day. A backdated disbursement must have been covered ever since its
/// day.
fn lowest_balance(held: Minor, changes: &[Minor]) -> Result<Minor, MoneyError> {
    let (mut balance, mut lowest) = (held, held);
    for change in changes {
        balance = balance.checked_add(*change)?;
        lowest = lowest.min(balance);
    }
    Ok(lowest)
}

async fn pay(tx: &mut Tx, loan: &Loan, disbursement: &mut Disbursement) -> Result<(), LendingError> {
    disbursement.status = DisbursementStatus::Disbursed;
    disbursement.event_id = Some(post(tx, &ledger_event(loan, disbursement)).await?);
    store::settle(tx, disbursement).await?;
    audit::record(tx, entry("escrow_disbursed", disbursement))?;
    outbox::publish(tx, &EscrowDisbursed::new(disbursement)).await?;
    Ok(())
}

/// Posts the event. If it was already posted, without the row that records it, returns the existing event.
async fn post(tx: &Tx, event: &NewLedgerEvent) -> Result<Uuid, LendingError> {
    match ledger::post(tx, event).await {
        Ok(posted) => Ok(posted.event_id),
        Err(LedgerError::AlreadyPosted { event_id }) => Ok(event_id),
        Err(error) => Err(error.into()),
    }
}

fn ledger_event(loan: &Loan, disbursement: &Disbursement) -> NewLedgerEvent {
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
    disbursement.status = DisbursementStatus::Refused;
    disbursement.reason = Some(refusal.to_string());
    store::settle(tx, disbursement).await?;
    audit::record(tx, entry("escrow_refused", disbursement))?;
    outbox::publish(tx, &EscrowRefused::new(disbursement)).await?;
    Ok(())
}

fn entry(event_type: &str, disbursement: &Disbursement) -> Entry {
    Entry::new(event_type)
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
            assert_eq!(lowest_balance(Minor::new(held), &changes), Ok(Minor::new(expected)), "{held} {changes:?}");
        };
        check(100, &[], 100);
        check(100, &[50, 50], 100);
        check(100, &[-80, 200], 20);
        check(0, &[100, -130, 40], -30);
        assert_eq!(lowest_balance(Minor::MAX, &[Minor::new(1)]), Err(MoneyError::Overflow));
    }
}
