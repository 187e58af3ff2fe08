//! The commands and events about escrow, ordered by loan.

use super::{Disbursement, DisbursementRequest};
use crate::topology::{WorkQueue, exchanges, tenant_key};
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// The command to pay a disbursement out of a loan's escrow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EscrowDisburse {
    /// The id of the disbursement, which may be new. A command with a settled id has no effect.
    pub disbursement_id: Uuid,
    /// The loan whose escrow pays it.
    pub loan_id: Uuid,
    /// The disbursement to pay.
    pub disbursement: DisbursementRequest,
}

/// The queue of [`EscrowDisburse`].
pub(crate) const DISBURSE_QUEUE: WorkQueue =
    WorkQueue { name: "escrow.disburse.v1", exchange: exchanges::COMMANDS, key: "escrow.disburse" };

impl Event for EscrowDisburse {
    const TYPE: &'static str = "escrow.disburse.v1";
    const EXCHANGE: &'static str = DISBURSE_QUEUE.exchange;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, DISBURSE_QUEUE.key)
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

/// A disbursement was paid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EscrowDisbursed {
    /// The disbursement after the payment.
    pub disbursement: Value,
    #[serde(skip)]
    subject: Subject,
}

/// A disbursement was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EscrowRefused {
    /// The disbursement after the refusal, with the reason.
    pub disbursement: Value,
    #[serde(skip)]
    subject: Subject,
}

/// The subject of an event.
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
    const EXCHANGE: &'static str = exchanges::EVENTS;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, "escrow.disbursed")
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
    const EXCHANGE: &'static str = exchanges::EVENTS;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, "escrow.refused")
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

/// The aggregate of every message here.
fn loan(loan_id: Uuid) -> Option<(String, String)> {
    Some(("loan".to_owned(), loan_id.to_string()))
}
