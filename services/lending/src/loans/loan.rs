//! The loan record.

use crate::model::{Calendar, LoanStatus, ProductPolicy};
use jiff::{Timestamp, civil::Date};
use onceward::envelope::Actor;
use onceward_money::{Currency, Minor};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// A loan. Its balances are in the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Loan {
    /// The id, unique within the tenant.
    pub loan_id: Uuid,
    /// The borrower.
    pub borrower_entity_id: Uuid,
    /// The product that the loan was created from.
    pub product_code: String,
    /// The product's version.
    pub product_version: i32,
    /// The terms in force: the product's, with later modifications.
    pub policy: ProductPolicy,
    /// The current status.
    pub status: LoanStatus,
    /// The day from which the status counts.
    pub status_since: Date,
    /// The person or service that set the status.
    pub status_by: Option<String>,
    /// The amount lent.
    pub principal: Minor,
    /// The currency of all its amounts.
    pub currency: Currency,
    /// The agreed start date.
    pub start_date: Date,
    /// The due dates of the schedule in force. It starts with the funding, or with the last modification.
    pub calendar: Calendar,
    /// 1 for the first schedule; every modification creates another.
    pub schedule_no: i32,
    /// The day on which the money was paid out.
    pub funded_on: Option<Date>,
    /// Interest is booked up to but excluding this day.
    pub accrued_to: Option<Date>,
    /// The daily run has serviced all days before this one.
    pub serviced_to: Option<Date>,
    /// Suspense has been applied to what fell due up to and including this day.
    pub suspense_applied_to: Option<Date>,
    /// Money received for instalments before the schedule in force.
    pub received_before: Minor,
    /// Money received for escrow before the schedule in force.
    pub escrow_before: Minor,
    /// The posting of the charge-off.
    pub charge_off_event_id: Option<Uuid>,
    /// Counts changes of status and terms.
    pub version: i32,
    /// When the loan was created.
    pub created_at: Timestamp,
    /// When the loan was last changed.
    pub updated_at: Timestamp,
}

/// A loan as it is returned, published and audited.
#[derive(Serialize)]
struct LoanView<'a> {
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
    /// Returns the funding day and the day up to which interest is booked, once the money was paid out.
    pub fn funded(&self) -> Option<(Date, Date)> {
        self.funded_on.zip(self.accrued_to)
    }

    /// Sets the status from `day` on, but not before the last change: a history has one order. The caller must have
    /// checked [`LoanStatus::become_status`].
    pub(crate) fn set_status(&mut self, status: LoanStatus, day: Date, actor: &Actor) {
        // A loan can be funded before the agreed day; no earlier status counts in that case.
        let is_first = self.status == LoanStatus::Created;
        self.status_since = if is_first { day } else { self.status_since.max(day) };
        self.status = status;
        self.status_by = actor.user_id.clone().or_else(|| actor.service.clone());
    }

    /// Returns the loan as callers and events see it.
    pub fn view(&self) -> Value {
        json!(LoanView {
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
