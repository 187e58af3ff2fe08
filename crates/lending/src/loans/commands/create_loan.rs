//! A loan is made: agreed on, with its schedule, and not funded yet.

use crate::{
    LendingError,
    loans::{Loan, events::LoanCreated, request::LoanData, store},
    model::{Calendar, LoanStatus, ProductPolicy, Schedule, amortise},
};
use jiff::Timestamp;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_money::Minor;
use uuid::Uuid;

/// What a loan would be.
pub(crate) struct Terms {
    pub product_version: i32,
    policy: ProductPolicy,
    calendar: Calendar,
    schedule: Schedule,
}

/// The terms that `data` asks for, or what is wrong with it. Whether the borrower exists is not looked at.
pub(crate) async fn terms(tx: &Tx, data: &LoanData) -> Result<Terms, LendingError> {
    let missing = || LendingError::ProductMissing { code: data.product_code.clone(), version: data.product_version };
    let product = store::find_product(tx, &data.product_code, data.product_version).await?;
    let (product_version, policy) = product.ok_or_else(missing)?;
    if policy.currency != data.currency {
        return Err(LendingError::OtherCurrency { product: policy.currency, loan: data.currency });
    }
    let calendar = match data.first_due_date {
        Some(first_due) => Calendar::new(data.start_date, first_due)?,
        None => Calendar::monthly(data.start_date)?,
    };
    let schedule = amortise(data.principal_minor, &policy, &calendar)?;
    Ok(Terms { product_version, policy, calendar, schedule })
}

pub(crate) async fn create_loan(tx: &mut Tx, loan_id: Uuid, data: &LoanData) -> Result<Loan, LendingError> {
    if !store::has_borrower(tx, data.borrower_entity_id).await? {
        return Err(LendingError::BorrowerMissing(data.borrower_entity_id));
    }
    let terms = terms(tx, data).await?;
    let mut loan = Loan {
        loan_id,
        borrower_entity_id: data.borrower_entity_id,
        product_code: data.product_code.clone(),
        product_version: terms.product_version,
        policy: terms.policy,
        status: LoanStatus::Created,
        principal: data.principal_minor,
        currency: data.currency,
        start_date: data.start_date,
        calendar: terms.calendar,
        schedule_no: 1,
        funded_on: None,
        accrued_to: None,
        serviced_to: None,
        received_before: Minor::ZERO,
        escrow_before: Minor::ZERO,
        charge_off_event_id: None,
        version: 1,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    };
    if !store::insert_loan(tx, &mut loan).await? {
        return Err(LendingError::LoanExists(loan_id));
    }
    store::replace_schedule(tx, loan_id, &terms.schedule).await?;
    let entry = Entry::new("loan_created").object("loan", loan_id).loan(loan_id).new_value(loan.view());
    audit::record(tx, entry)?;
    outbox::publish(tx, &LoanCreated::new(&loan)).await?;
    Ok(loan)
}
