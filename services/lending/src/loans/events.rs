//! The commands and events about loans. All messages about a loan are ordered by the loan's id.

use super::{Loan, request::LoanChange, request::LoanData};
use crate::topology::{WorkQueue, exchanges, tenant_key};
use jiff::Timestamp;
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// The command to create a loan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoanCreate {
    /// The id of the new loan.
    pub loan_id: Uuid,
    /// The loan to create.
    pub loan_data: LoanData,
}

/// The queue of [`LoanCreate`].
pub(crate) const CREATE_QUEUE: WorkQueue =
    WorkQueue { name: "loan.create.v1", exchange: exchanges::COMMANDS, key: "loan.create" };

impl Event for LoanCreate {
    const TYPE: &'static str = "loan.create.v1";
    const EXCHANGE: &'static str = CREATE_QUEUE.exchange;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, CREATE_QUEUE.key)
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.loan_id.to_string())
    }

    fn aggregate(&self) -> Option<(String, String)> {
        loan(self.loan_id)
    }
}

/// A loan was created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoanCreated {
    /// The loan after its creation.
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
    const EXCHANGE: &'static str = exchanges::EVENTS;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, "loan.created")
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

/// The command to change a loan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoanUpdate {
    /// The loan's id.
    pub loan_id: Uuid,
    /// The version that the caller saw, if only that version may be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    /// The requested change.
    pub change: LoanChange,
}

/// The queue of [`LoanUpdate`].
pub(crate) const UPDATE_QUEUE: WorkQueue =
    WorkQueue { name: "loan.update.v1", exchange: exchanges::COMMANDS, key: "loan.update" };

impl Event for LoanUpdate {
    const TYPE: &'static str = "loan.update.v1";
    const EXCHANGE: &'static str = UPDATE_QUEUE.exchange;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, UPDATE_QUEUE.key)
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
    /// The action taken.
    pub action: String,
    /// The loan after the change.
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
    const EXCHANGE: &'static str = exchanges::EVENTS;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, "loan.updated")
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

/// The command to book interest and late fees of a tenant's loans: published by the schedule, and again for loans that
/// one turn did not reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoanAccrue {
    /// The schedule's name.
    pub schedule: String,
    /// The tick's time; loans are booked up to its day in UTC.
    pub scheduled_for: Timestamp,
    /// The position among the messages of one tick.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: u32,
}

fn is_zero(part: &u32) -> bool {
    *part == 0
}

/// The queue of [`LoanAccrue`].
pub(crate) const ACCRUE_QUEUE: WorkQueue =
    WorkQueue { name: "loan.accrue.v1", exchange: exchanges::SCHEDULES, key: "loan.accrue" };

impl Event for LoanAccrue {
    const TYPE: &'static str = "loan.accrue.v1";
    const EXCHANGE: &'static str = ACCRUE_QUEUE.exchange;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, ACCRUE_QUEUE.key)
    }
}

/// The aggregate of every message here.
fn loan(loan_id: Uuid) -> Option<(String, String)> {
    Some(("loan".to_owned(), loan_id.to_string()))
}
