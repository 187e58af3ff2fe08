//! A loan as it is kept.

use crate::model::{Calendar, LoanStatus, ProductPolicy};
use jiff::{Timestamp, civil::Date};
use onceward_money::{Currency, Minor};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// A loan. What it owes is in the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Loan {
    /// Its id, unique within its tenant.
    pub loan_id: Uuid,
    /// Who owes it.
    pub borrower_entity_id: Uuid,
    /// The product that it was made by.
    pub product_code: String,
    /// Which version of it.
    pub product_version: i32,
    /// The terms in force: the product's, and what modifications changed.
    pub policy: ProductPolicy,
    /// What it is.
    pub status: LoanStatus,
    /// The amount lent.
    pub principal: Minor,
    /// The currency of all its amounts.
    pub currency: Currency,
    /// When it was agreed to begin.
    pub start_date: Date,
    /// The due dates of the schedule in force. It starts with the funding, or with the last modification.
    pub calendar: Calendar,
    /// 1 for the first schedule; every modification makes another.
    pub schedule_no: i32,
    /// When the money was paid out.
    pub funded_on: Option<Date>,
    /// Interest is booked up to and without this day.
    pub accrued_to: Option<Date>,
    /// The daily run has been here for all days before this one.
    pub serviced_to: Option<Date>,
    /// What had come in for instalments before the schedule in force.
    pub received_before: Minor,
    /// What had come in for escrow before the schedule in force.
    pub escrow_before: Minor,
    /// The posting that gave it up.
    pub charge_off_event_id: Option<Uuid>,
    /// Counts changes of status and terms.
    pub version: i32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A loan as it is shown, published and audited.
#[derive(Serialize)]
struct View<'a> {
    loan_id: Uuid,
    borrower_entity_id: Uuid,
    product_code: &'a str,
    product_version: i32,
    status: LoanStatus,
    principal_minor: Minor,
    currency: Currency,
    start_date: Date,
    first_due_date: Date,
    due_day: i8,
    schedule_no: i32,
    funded_on: Option<Date>,
    accrued_to: Option<Date>,
    policy: &'a ProductPolicy,
    version: i32,
}

impl Loan {
    /// The days that matter once money was paid out: funding, and up to when interest is booked.
    pub fn funded(&self) -> Option<(Date, Date)> {
        self.funded_on.zip(self.accrued_to)
    }

    /// As it is shown to callers and told in events.
    pub fn view(&self) -> Value {
        json!(View {
            loan_id: self.loan_id,
            borrower_entity_id: self.borrower_entity_id,
            product_code: &self.product_code,
            product_version: self.product_version,
            status: self.status,
            principal_minor: self.principal,
            currency: self.currency,
            start_date: self.start_date,
            first_due_date: self.calendar.first_due(),
            due_day: self.calendar.due_day(),
            schedule_no: self.schedule_no,
            funded_on: self.funded_on,
            accrued_to: self.accrued_to,
            policy: &self.policy,
            version: self.version,
        })
    }
}
