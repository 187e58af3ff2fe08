//! What is asked for and told by messages, in the order of the loan.

use super::{Disbursement, Request};
use crate::topology::{COMMANDS, EVENTS};
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// Pay something out of a loan's escrow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EscrowDisburse {
    /// The id that the disbursement has, or will have. With an id that is settled nothing happens.
    pub disbursement_id: Uuid,
    /// Out of which loan's escrow.
    pub loan_id: Uuid,
    /// What to pay.
    pub disbursement: Request,
}

impl Event for EscrowDisburse {
    const TYPE: &'static str = "escrow.disburse.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{COMMANDS}:tenant.{tenant}.escrow.disburse")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.loan_id.to_string())
    }

    fn idempotency_key(&self) -> Option<String> {
        Some(format!("escrow-disburse:{}", self.disbursement_id))
    }

    fn aggregate(&self) -> Option<(String, String)> {
        loan(self.loan_id)
    }
}

/// It was paid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EscrowDisbursed {
    /// As it is then.
    pub disbursement: Value,
    #[serde(skip)]
    subject: Subject,
}

/// It was not paid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EscrowRefused {
    /// As it is then, with the reason.
    pub disbursement: Value,
    #[serde(skip)]
    subject: Subject,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, Default)]
struct Subject {
    loan_id: Uuid,
    disbursement_id: Uuid,
}

impl Subject {
    fn of(disbursement: &Disbursement) -> Self {
        Self { loan_id: disbursement.loan_id, disbursement_id: disbursement.disbursement_id }
    }
}

impl EscrowDisbursed {
    pub(super) fn new(disbursement: &Disbursement) -> Self {
        Self { disbursement: json!(disbursement), subject: Subject::of(disbursement) }
    }
}

impl EscrowRefused {
    pub(super) fn new(disbursement: &Disbursement) -> Self {
        Self { disbursement: json!(disbursement), subject: Subject::of(disbursement) }
    }
}

impl Event for EscrowDisbursed {
    const TYPE: &'static str = "escrow.disbursed.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{EVENTS}:tenant.{tenant}.escrow.disbursed")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.subject.loan_id.to_string())
    }

    fn idempotency_key(&self) -> Option<String> {
        Some(format!("evt:escrow.disbursed:{}", self.subject.disbursement_id))
    }

    fn aggregate(&self) -> Option<(String, String)> {
        loan(self.subject.loan_id)
    }
}

impl Event for EscrowRefused {
    const TYPE: &'static str = "escrow.refused.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{EVENTS}:tenant.{tenant}.escrow.refused")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.subject.loan_id.to_string())
    }

    fn idempotency_key(&self) -> Option<String> {
        Some(format!("evt:escrow.refused:{}", self.subject.disbursement_id))
    }

    fn aggregate(&self) -> Option<(String, String)> {
        loan(self.subject.loan_id)
    }
}

fn loan(loan_id: Uuid) -> Option<(String, String)> {
    Some(("loan".to_owned(), loan_id.to_string()))
}
