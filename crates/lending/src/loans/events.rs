//! What is asked for and told by messages. Everything about a loan is ordered by the loan's id.

use super::{Loan, request::LoanChange, request::LoanData};
use crate::topology::{COMMANDS, EVENTS, SCHEDULES};
use jiff::Timestamp;
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// Make a loan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoanCreate {
    /// The id that it will have.
    pub loan_id: Uuid,
    /// What to make.
    pub loan_data: LoanData,
}

impl Event for LoanCreate {
    const TYPE: &'static str = "loan.create.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{COMMANDS}:tenant.{tenant}.loan.create")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.loan_id.to_string())
    }

    fn aggregate(&self) -> Option<(String, String)> {
        loan(self.loan_id)
    }
}

/// A loan was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoanCreated {
    /// As it is then.
    pub loan: Value,
    #[serde(skip)]
    loan_id: Uuid,
}

impl LoanCreated {
    pub(super) fn new(loan: &Loan) -> Self {
        Self { loan: loan.view(), loan_id: loan.loan_id }
    }
}

impl Event for LoanCreated {
    const TYPE: &'static str = "loan.created.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{EVENTS}:tenant.{tenant}.loan.created")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.loan_id.to_string())
    }

    fn idempotency_key(&self) -> Option<String> {
        Some(format!("evt:loan.created:{}", self.loan_id))
    }

    fn aggregate(&self) -> Option<(String, String)> {
        loan(self.loan_id)
    }
}

/// Change a loan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoanUpdate {
    /// Which one.
    pub loan_id: Uuid,
    /// The version that the caller saw, if only that may be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    /// What to do.
    pub change: LoanChange,
}

impl Event for LoanUpdate {
    const TYPE: &'static str = "loan.update.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{COMMANDS}:tenant.{tenant}.loan.update")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.loan_id.to_string())
    }

    fn aggregate(&self) -> Option<(String, String)> {
        loan(self.loan_id)
    }
}

/// A loan's status or terms were changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoanUpdated {
    /// What was done.
    pub action: String,
    /// As it is then.
    pub loan: Value,
    #[serde(skip)]
    loan_id: Uuid,
    #[serde(skip)]
    version: i32,
}

impl LoanUpdated {
    pub(super) fn new(loan: &Loan, action: &str) -> Self {
        Self { action: action.to_owned(), loan: loan.view(), loan_id: loan.loan_id, version: loan.version }
    }
}

impl Event for LoanUpdated {
    const TYPE: &'static str = "loan.updated.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{EVENTS}:tenant.{tenant}.loan.updated")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.loan_id.to_string())
    }

    fn idempotency_key(&self) -> Option<String> {
        Some(format!("evt:loan.updated:{}:{}", self.loan_id, self.version))
    }

    fn aggregate(&self) -> Option<(String, String)> {
        loan(self.loan_id)
    }
}

/// Book interest and late fees of a tenant's loans: by the clock, and again for those that one turn did not reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoanAccrue {
    /// The schedule's name.
    pub schedule: String,
    /// The tick's time; its day in UTC is booked up to.
    pub scheduled_for: Timestamp,
    /// Counts the messages of one tick.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: u32,
}

fn is_zero(part: &u32) -> bool {
    *part == 0
}

impl Event for LoanAccrue {
    const TYPE: &'static str = "loan.accrue.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{SCHEDULES}:tenant.{tenant}.loan.accrue")
    }
}

fn loan(loan_id: Uuid) -> Option<(String, String)> {
    Some(("loan".to_owned(), loan_id.to_string()))
}
