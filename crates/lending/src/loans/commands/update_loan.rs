//! A loan is changed, by what the caller asks for.

use super::{activate::activate, change_status, charge_off, close::close, modify::modify};
use crate::{
    LendingError,
    loans::{
        Loan,
        events::{LoanUpdate, LoanUpdated},
        position,
        request::LoanChange,
        store,
    },
};
use jiff::civil::Date;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::json;

pub(crate) async fn update_loan(tx: &mut Tx, update: &LoanUpdate, today: Date) -> Result<Loan, LendingError> {
    let mut loan = position::lock(tx, update.loan_id).await?;
    if let Some(expected) = update.version.filter(|expected| *expected != loan.version) {
        return Err(LendingError::LoanChanged { expected, found: loan.version });
    }
    let before = loan.clone();
    match &update.change {
        LoanChange::Activate { funded_on, first_due_date } => {
            activate(tx, &mut loan, past(*funded_on, today)?, *first_due_date).await?;
        }
        LoanChange::ChangeStatus { status, .. } => change_status::change_status(&mut loan, *status)?,
        LoanChange::Modify { effective_date, annual_rate, term_months, first_due_date } => {
            let day = booked(&loan, past(*effective_date, today)?)?;
            modify(tx, &mut loan, day, *annual_rate, *term_months, *first_due_date).await?;
        }
        LoanChange::ChargeOff { effective_date, .. } => {
            let day = booked(&loan, past(*effective_date, today)?)?;
            charge_off::charge_off(tx, &mut loan, day).await?;
        }
        LoanChange::ReverseChargeOff { effective_date, reason } => {
            let day = booked(&loan, past(*effective_date, today)?)?;
            charge_off::reverse(tx, &mut loan, day, reason.as_deref()).await?;
        }
        LoanChange::Close { .. } => close(tx, &mut loan).await?,
    }
    store::save_loan(tx, &mut loan).await?;
    record(tx, &before, &loan, &update.change)?;
    outbox::publish(tx, &LoanUpdated::new(&loan, update.change.action())).await?;
    Ok(loan)
}

/// Only what is different is told, with its value before and after.
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

/// The day that was asked for, or today; never one that lies ahead.
fn past(day: Option<Date>, today: Date) -> Result<Date, LendingError> {
    match day {
        Some(day) if day > today => Err(LendingError::Future(day)),
        day => Ok(day.unwrap_or(today)),
    }
}

/// A day up to which nothing is booked beyond it.
fn booked(loan: &Loan, day: Date) -> Result<Date, LendingError> {
    let (_, accrued_to) = loan.funded().ok_or(LendingError::NotFunded)?;
    if day < accrued_to { Err(LendingError::BeforeAccrued { day, accrued_to }) } else { Ok(day) }
}
