//! The messages of the pipeline: four facts by the specification, and what we add around them.
//!
//! Everything about a loan has the loan's id as its ordering key, so a loan's payments are validated and posted in the
//! order in which they came. Amounts are strings of digits.

use crate::model::Allocation;
use crate::topology::COMMANDS;
use jiff::{Timestamp, civil::Date};
use onceward::{Event, TenantId};
use onceward_money::{Currency, Minor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use uuid::Uuid;

const VALIDATION: &str = "payments.validation";
const SAGA: &str = "payments.saga";
const EVENTS: &str = "payments.events";

/// How the money came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum PaymentMethod {
    Ach,
    Card,
    Wire,
    Check,
    Cash,
    Other,
}

impl PaymentMethod {
    /// Its name in messages and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ach => "ach",
            Self::Card => "card",
            Self::Wire => "wire",
            Self::Check => "check",
            Self::Cash => "cash",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for PaymentMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A gateway told us of a payment, and it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentReceived {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub method: PaymentMethod,
    pub amount_minor: Minor,
    pub currency: Currency,
    pub received_at: Timestamp,
    pub gateway_txn_id: String,
    /// The provider's code.
    pub source: String,
    pub idempotency_key: String,
    pub effective_date: Date,
}

/// It may be posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentValidated {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub amount_minor: Minor,
    pub currency: Currency,
    pub effective_date: Date,
    pub allocation_hints: Map<String, Value>,
}

/// It is in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentPosted {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    /// The ledger's event.
    pub event_id: Uuid,
    pub effective_date: Date,
    pub applied: Vec<Allocation>,
    pub new_balances: NewBalances,
}

/// It may not be posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentFailed {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub reason: String,
    /// Seconds after which it may be tried again; nothing that fails here gets better by waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

/// The loan's balances after a posting. What is owed to us is positive, and so is what we hold for the borrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NewBalances {
    pub principal_minor: Minor,
    pub interest_receivable_minor: Minor,
    pub escrow_liability_minor: Minor,
    pub fees_receivable_minor: Minor,
    pub cash_minor: Minor,
}

/// A gateway's own words, from a queue instead of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentRaw {
    pub provider: String,
    pub payload: Value,
}

/// Somebody asked us to take a payment: the command behind `POST /api/payments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ProcessPayment {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub method: PaymentMethod,
    pub amount_minor: Minor,
    pub currency: Currency,
    pub effective_date: Date,
    pub allocation_hints: Map<String, Value>,
}

/// An operator asked for a payment to be posted again, or to be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PostPayment {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    #[serde(flatten)]
    pub action: Action,
}

/// What is to be done with a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Post it if it is not posted; else post it and what came after it again, by the rules as they are now.
    Post,
    /// The bank took the money back.
    Return {
        /// The bank's word for it.
        reason: String,
        /// When it came back.
        returned_on: Date,
        /// What the borrower is charged for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fee_minor: Option<Minor>,
    },
}

/// Money that a loan holds in suspense shall pay what is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct AllocateSuspense {
    pub allocation_id: Uuid,
    pub loan_id: Uuid,
    pub effective_date: Date,
}

/// Money from suspense has paid what was due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SuspenseAllocated {
    pub allocation_id: Uuid,
    pub loan_id: Uuid,
    pub event_id: Uuid,
    pub effective_date: Date,
    pub applied: Vec<Allocation>,
    pub new_balances: NewBalances,
}

/// A payment was taken back; what it had paid is open again, from its own day on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentReturned {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    /// The event that is reversed.
    pub event_id: Uuid,
    pub reversal_id: Uuid,
    pub effective_date: Date,
    pub returned_on: Date,
    pub amount_minor: Minor,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fee_minor: Option<Minor>,
    pub new_balances: NewBalances,
}

/// A payment stands in the ledger anew, because something before it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentReposted {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub event_id: Uuid,
    /// The event before, which is reversed.
    pub replaces: Uuid,
    /// 2 for the first time that it is posted again.
    pub version: i32,
    pub effective_date: Date,
    pub applied: Vec<Allocation>,
}

/// The story of a payment from its posting on.
pub(crate) fn story_of(payment_id: Uuid) -> String {
    format!("payment:{payment_id}")
}

/// An event of one loan: its type, its topic, the key that it is published once by, the aggregate that it is about.
macro_rules! loan_event {
    ($event:ty, $type:literal, $exchange:expr, $key:literal, $once:expr, $about:expr $(, story: $story:expr)?) => {
        impl Event for $event {
            const TYPE: &'static str = $type;

            fn topic(&self, _: &TenantId) -> String {
                format!("{}:{}", $exchange, $key)
            }

            fn ordering_key(&self) -> Option<String> {
                Some(self.loan_id.to_string())
            }

            fn idempotency_key(&self) -> Option<String> {
                let once: fn(&$event) -> Option<String> = $once;
                once(self)
            }

            fn aggregate(&self) -> Option<(String, String)> {
                let about: fn(&$event) -> (&'static str, Uuid) = $about;
                let (kind, id) = about(self);
                Some((kind.to_owned(), id.to_string()))
            }

            $(fn correlation_id(&self) -> Option<String> {
                let story: fn(&$event) -> String = $story;
                Some(story(self))
            })?
        }
    };
}

loan_event!(
    PaymentReceived, "payment.received.v1", VALIDATION, "received.v1",
    |event| Some(format!("payment.received:{}", event.payment_id)), |event| ("payment", event.payment_id),
    story: |event| event.idempotency_key.clone()
);
loan_event!(
    PaymentValidated,
    "payment.validated.v1",
    SAGA,
    "validated.v1",
    |event| Some(format!("payment.validated:{}:{}", event.payment_id, event.effective_date)),
    |event| ("payment", event.payment_id)
);
loan_event!(
    PaymentPosted, "payment.posted.v1", EVENTS, "payment.posted.v1",
    |event| Some(format!("payment.posted:{}", event.payment_id)), |event| ("payment", event.payment_id),
    story: |event| story_of(event.payment_id)
);
loan_event!(
    PaymentFailed,
    "payment.failed.v1",
    EVENTS,
    "payment.failed.v1",
    |event| Some(format!("payment.failed:{}", event.payment_id)),
    |event| ("payment", event.payment_id)
);
loan_event!(PostPayment, "payment.post.v1", SAGA, "post.v1", |_| None, |event| ("payment", event.payment_id));
loan_event!(
    PaymentReturned, "payment.returned.v1", EVENTS, "payment.returned.v1",
    |event| Some(format!("payment.returned:{}", event.payment_id)), |event| ("payment", event.payment_id),
    story: |event| story_of(event.payment_id)
);
loan_event!(
    PaymentReposted, "payment.reposted.v1", EVENTS, "payment.reposted.v1",
    |event| Some(format!("payment.reposted:{}:{}", event.payment_id, event.version)), |event| ("payment", event.payment_id),
    story: |event| story_of(event.payment_id)
);
loan_event!(
    SuspenseAllocated,
    "payment.allocated.v1",
    EVENTS,
    "payment.allocated.v1",
    |event| Some(format!("payment.allocated:{}", event.allocation_id)),
    |event| ("loan", event.loan_id)
);

impl Event for PaymentRaw {
    const TYPE: &'static str = "payment.raw.v1";

    fn topic(&self, _: &TenantId) -> String {
        "payments.inbound:received.raw".to_owned()
    }
}

impl Event for ProcessPayment {
    const TYPE: &'static str = "payment.process.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{COMMANDS}:tenant.{tenant}.payment.process")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.loan_id.to_string())
    }
}

impl Event for AllocateSuspense {
    const TYPE: &'static str = "payment.allocate.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{COMMANDS}:tenant.{tenant}.payment.allocate")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.loan_id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Bucket;
    use serde_json::json;

    #[test]
    fn facts_are_written_as_the_specification_says() {
        let posted = PaymentPosted {
            payment_id: Uuid::nil(),
            loan_id: Uuid::nil(),
            event_id: Uuid::nil(),
            effective_date: "2026-01-31".parse().unwrap(),
            applied: vec![Allocation { bucket: Bucket::InterestPastDue, amount: Minor::new(125) }],
            new_balances: NewBalances {
                principal_minor: Minor::new(100_000),
                interest_receivable_minor: Minor::ZERO,
                escrow_liability_minor: Minor::new(-5),
                fees_receivable_minor: Minor::ZERO,
                cash_minor: Minor::new(125),
            },
        };
        let nil = Uuid::nil().to_string();
        let expected = json!({
            "payment_id": nil, "loan_id": nil, "event_id": nil, "effective_date": "2026-01-31",
            "applied": [{"bucket": "interest_past_due", "amount_minor": "125"}],
            "new_balances": {
                "principal_minor": "100000", "interest_receivable_minor": "0", "escrow_liability_minor": "-5",
                "fees_receivable_minor": "0", "cash_minor": "125"
            }
        });
        assert_eq!(serde_json::to_value(&posted).unwrap(), expected);
        assert_eq!(posted.correlation_id().unwrap(), format!("payment:{nil}"));
        let failed =
            PaymentFailed { payment_id: Uuid::nil(), loan_id: Uuid::nil(), reason: "x".into(), retry_after: None };
        assert_eq!(serde_json::to_value(&failed).unwrap(), json!({"payment_id": nil, "loan_id": nil, "reason": "x"}));
    }

    #[test]
    fn what_an_operator_asks_for_names_its_action() {
        let nil = Uuid::nil();
        let given = json!({
            "payment_id": nil, "loan_id": nil, "action": "return", "reason": "R01", "returned_on": "2026-02-03",
            "fee_minor": "2500"
        });
        let read: PostPayment = serde_json::from_value(given.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), given);
        let post: PostPayment =
            serde_json::from_value(json!({"payment_id": nil, "loan_id": nil, "action": "post"})).unwrap();
        assert_eq!(post.action, Action::Post);
    }
}
