//! Creates borrowers, products and loans.

use crate::{
    LendingError,
    loans::{
        Loan,
        events::LoanCreated,
        request::LoanData,
        store::{self, Borrower, NewBorrower},
    },
    model::{Calendar, LoanStatus, ProductPolicy, RepaymentSchedule, amortise},
    payments::CURRENCY,
};
use jiff::Timestamp;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_money::Minor;
use serde_json::json;
use uuid::Uuid;

/// Creates a borrower. Fails if another one has the same reference.
pub(crate) async fn create_borrower(tx: &mut Tx, data: NewBorrower) -> Result<Borrower, LendingError> {
    let id = Uuid::now_v7();
    let reference = data.external_ref.clone().unwrap_or_default();
    let borrower =
        store::insert_borrower(tx, id, data).await?.ok_or_else(|| LendingError::BorrowerExists(reference))?;
    // Names and addresses stay out of the audit trail, which cannot be deleted from.
    let new = json!({"kind": borrower.data.kind, "external_ref": borrower.data.external_ref});
    audit::record(tx, Entry::new("borrower_created").object("borrower_entity", id).new_value(new))?;
    Ok(borrower)
}

/// Creates the next version of a product and returns its number. Loans created from earlier versions keep theirs.
/// Refuses a currency in which payments are not accepted.
pub(crate) async fn create_product(tx: &mut Tx, policy: &ProductPolicy) -> Result<i32, LendingError> {
    if policy.currency != CURRENCY {
        return Err(LendingError::CurrencyNotPayable(policy.currency));
    }
    let version = store::insert_product(tx, policy).await?;
    let entry = Entry::new("product_created")
        .object("product_policy", format!("{}:{version}", policy.code))
        .new_value(json!({"version": version, "policy": policy}));
    audit::record(tx, entry)?;
    Ok(version)
}

/// The terms of a loan to be created.
pub(crate) struct LoanTerms {
    pub product_version: i32,
    policy: ProductPolicy,
    calendar: Calendar,
    schedule: RepaymentSchedule,
}

/// Returns the terms that `data` requests, or the rule that they break. Does not check that the borrower exists.
pub(crate) async fn loan_terms(tx: &Tx, data: &LoanData) -> Result<LoanTerms, LendingError> {
    if data.loan_id == Some(onceward_ledger::NO_LOAN) {
        return Err(LendingError::ZeroLoanId);
    }
    let missing = || LendingError::ProductMissing { code: data.product_code.clone(), version: data.product_version };
    let product = store::find_product(tx, &data.product_code, data.product_version).await?;
    let (product_version, policy) = product.ok_or_else(missing)?;
    if policy.currency != data.currency {
        return Err(LendingError::CurrencyMismatch { product: policy.currency, loan: data.currency });
    }
    // The product may be older than the rule for new products.
    if policy.currency != CURRENCY {
        return Err(LendingError::CurrencyNotPayable(policy.currency));
    }
    let calendar = match data.first_due_date {
        Some(first_due) => Calendar::new(data.start_date, first_due)?,
        None => Calendar::monthly(data.start_date)?,
    };
    let schedule = amortise(data.principal_minor, &policy, &calendar)?;
    Ok(LoanTerms { product_version, policy, calendar, schedule })
}

/// Creates a loan with its schedule. It is agreed on, and not funded yet.
pub(crate) async fn create_loan(tx: &mut Tx, loan_id: Uuid, data: &LoanData) -> Result<Loan, LendingError> {
    if !store::has_borrower(tx, data.borrower_entity_id).await? {
        return Err(LendingError::BorrowerMissing(data.borrower_entity_id));
    }
    let loan_terms = loan_terms(tx, data).await?;
    let actor = tx.scope().actor.clone();
    let mut loan = Loan {
        loan_id,
        borrower_entity_id: data.borrower_entity_id,
        product_code: data.product_code.clone(),
        product_version: loan_terms.product_version,
        policy: loan_terms.policy,
        status: LoanStatus::Created,
        status_since: data.start_date,
        status_by: actor.user_id.or(actor.service),
        principal: data.principal_minor,
        currency: data.currency,
        start_date: data.start_date,
        calendar: loan_terms.calendar,
        schedule_no: 1,
        funded_on: None,
        accrued_to: None,
        serviced_to: None,
        suspense_applied_to: None,
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
    store::write_schedule(tx, loan_id, loan.schedule_no, &loan_terms.schedule).await?;
    let entry = Entry::new("loan_created").object("loan", loan_id).loan(loan_id).new_value(loan.view());
    audit::record(tx, entry)?;
    outbox::publish(tx, &LoanCreated::new(&loan)).await?;
    Ok(loan)
}
