//! Executes a requested change of a loan.

use super::{
    charge_off,
    modify::modify,
    refund_suspense::refund_suspense,
    status::{activate, change_status, close},
};
use crate::{
    LendingError,
    loans::{
        Loan,
        events::{LoanUpdate, LoanUpdated},
        position,
        request::LoanChange,
        store,
    },
    payments::replay_status_change,
};
use jiff::civil::Date;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::json;

/// Executes the requested change of a loan. Days default to `today`.
pub(crate) async fn update_loan(tx: &mut Tx, update: &LoanUpdate, today: Date) -> Result<Loan, LendingError> {
    let scope = &tx.scope().clone();
    let mut loan = position::lock(tx, update.loan_id).await?;
    if let Some(expected) = update.version.filter(|expected| *expected != loan.version) {
        return Err(LendingError::LoanChanged { expected, found: loan.version });
    }
    let before = loan.clone();
    match &update.change {
        LoanChange::Activate { funded_on, first_due_date } => {
            activate(tx, &mut loan, not_future(*funded_on, today)?, *first_due_date).await?;
        }
        LoanChange::ChangeStatus { status, effective_date, .. } => {
            let day = not_future(*effective_date, today)?;
            change_status(tx, &mut loan, *status, day)?;
        }
        LoanChange::Modify { effective_date, annual_rate, term_months, first_due_date } => {
            let day = not_before_accrued(&loan, not_future(*effective_date, today)?)?;
            modify(tx, scope, &mut loan, day, *annual_rate, *term_months, *first_due_date).await?;
        }
        LoanChange::ChargeOff { effective_date, .. } => {
            let day = not_before_accrued(&loan, not_future(*effective_date, today)?)?;
            charge_off::charge_off(tx, scope, &mut loan, day).await?;
        }
        LoanChange::ReverseChargeOff { effective_date, reason } => {
            let day = not_before_accrued(&loan, not_future(*effective_date, today)?)?;
            charge_off::reverse(tx, &mut loan, day, reason.as_deref()).await?;
        }
        LoanChange::RefundSuspense { amount_minor, effective_date, reason } => {
            let day = not_before_accrued(&loan, not_future(*effective_date, today)?)?;
            refund_suspense(tx, &loan, *amount_minor, day, reason.as_deref()).await?;
        }
        LoanChange::Close { .. } => close(tx, &mut loan, today).await?,
    }
    store::save_loan(tx, &mut loan).await?;
    record(tx, &before, &loan, &update.change)?;
    outbox::publish(tx, &LoanUpdated::new(&loan, update.change.action())).await?;
    if matches!(update.change, LoanChange::ChangeStatus { .. }) {
        replay_status_change(tx, &mut loan).await?;
    }
    Ok(loan)
}

/// Audits only the fields that differ, with their values before and after.
fn record(tx: &mut Tx, before: &Loan, loan: &Loan, change: &LoanChange) -> Result<(), LendingError> {
    let (old, new) = (before.view(), loan.view());
    let differs = |name: &&String| old.get(name.as_str()) != new.get(name.as_str());
    let names: Vec<String> =
        new.as_object().into_iter().flat_map(|fields| fields.keys()).filter(differs).cloned().collect();
    let only = |value: &serde_json::Value| {
        names.iter().map(|name| (name.clone(), value[name.as_str()].clone())).collect::<serde_json::Map<_, _>>()
    };
    let is_status = before.status != loan.status && matches!(change, LoanChange::ChangeStatus { .. });
    let entry = Entry::new(if is_status { "loan_status_changed" } else { "loan_updated" })
        .object("loan", loan.loan_id)
        .loan(loan.loan_id)
        .old(only(&old))
        .new_value(only(&new))
        .payload(json!({"change": change}));
    Ok(audit::record(tx, entry)?)
}

/// Returns the requested day, or today. Fails if it is in the future.
fn not_future(day: Option<Date>, today: Date) -> Result<Date, LendingError> {
    match day {
        Some(day) if day > today => Err(LendingError::FutureDate(day)),
        day => Ok(day.unwrap_or(today)),
    }
}

/// Returns `day`, or fails if interest is already booked beyond it or the loan is not funded.
fn not_before_accrued(loan: &Loan, day: Date) -> Result<Date, LendingError> {
    let (_, accrued_to) = loan.funded().ok_or(LendingError::NotFunded)?;
    if day < accrued_to { Err(LendingError::BeforeAccrued { day, accrued_to }) } else { Ok(day) }
}
