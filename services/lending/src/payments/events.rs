//! The events about payments, for any consumer. [`PaymentPosted`] and [`PaymentFailed`] are fixed for compatibility with
//! existing consumers, as are [`PaymentReceived`] and [`PaymentValidated`]; the others are our additions. The messages
//! that payments read themselves are declared with their queues and consumers, in `payments/consumers`.
//!
//! The ordering key of every message about a loan is the loan's id, so a loan's payments are validated and posted in
//! the order of their arrival. Amounts are strings of digits.

use crate::model::Allocation;
use crate::topology::exchanges;
use jiff::civil::Date;
use onceward_ledger::{Account, Balances};
use onceward_money::{Currency, Minor, MoneyError};
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

pub use super::consumers::{
    on_allocate::AllocateSuspense,
    on_post::{PaymentAction, PostPayment},
    on_process::ProcessPayment,
    on_raw::PaymentRaw,
    on_received::PaymentReceived,
    on_validated::PaymentValidated,
};

/// The payment method.
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
    /// The name in messages and in the database.
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

/// A payment was posted to the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentPosted {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    /// The ledger event.
    pub event_id: Uuid,
    pub effective_date: Date,
    pub applied: Vec<Allocation>,
    pub new_balances: NewBalances,
}

/// A payment failed and may not be posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentFailed {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub reason: String,
    /// Seconds after which a retry may succeed; waiting does not help any failure here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// The ledger event that books the money as unapplied cash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unapplied_event_id: Option<Uuid>,
    /// The correlation id, if it is not that of the message that caused the failure.
    #[serde(skip)]
    story: Option<String>,
}

impl PaymentFailed {
    pub(crate) fn new(payment_id: Uuid, loan_id: Uuid, reason: &str, unapplied_event_id: Option<Uuid>) -> Self {
        let reason = reason.to_owned();
        Self { payment_id, loan_id, reason, retry_after: None, unapplied_event_id, story: None }
    }

    /// Assigns the event to another story than that of the message or request that caused the failure.
    pub(crate) fn in_story(mut self, correlation_id: &str) -> Self {
        self.story = Some(correlation_id.to_owned());
        self
    }
}

/// The loan's balances after a posting. Debts of the borrower are positive, and so is money held for the borrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NewBalances {
    pub principal_minor: Minor,
    pub interest_receivable_minor: Minor,
    pub escrow_liability_minor: Minor,
    pub fees_receivable_minor: Minor,
    pub cash_minor: Minor,
}

impl NewBalances {
    pub(crate) fn of(balances: &Balances) -> Result<Self, MoneyError> {
        Ok(Self {
            principal_minor: balances.normal(Account::LoanPrincipal)?,
            interest_receivable_minor: balances.normal(Account::InterestReceivable)?,
            escrow_liability_minor: balances.normal(Account::EscrowLiability)?,
            fees_receivable_minor: balances.normal(Account::FeesReceivable)?,
            cash_minor: balances.normal(Account::Cash)?,
        })
    }
}

/// Suspense was applied to what was due.
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

/// A payment was reversed; what it had paid is owed again, from its own day on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentReturned {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    /// The reversed event.
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

/// A payment was posted again, because something before it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentReposted {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub event_id: Uuid,
    /// The previous event, which is reversed.
    pub replaces: Uuid,
    /// 2 for the first repetition.
    pub version: i32,
    pub effective_date: Date,
    pub applied: Vec<Allocation>,
}

/// Returns the correlation id of a payment from its posting on.
pub(crate) fn payment_story(payment_id: Uuid) -> String {
    format!("payment:{payment_id}")
}

/// Implements [`onceward::Event`] for an event of one loan, from its type, exchange, routing key, idempotency key and aggregate,
/// and the story that it belongs to, if that is not the story of its cause.
macro_rules! loan_event {
    (
        $event:ty, $type:literal, $exchange:expr, $key:expr, $idempotency_key:expr, $aggregate:expr
        $(, story: $story:expr)?
    ) => {
        impl onceward::Event for $event {
            const TYPE: &'static str = $type;
            const EXCHANGE: &'static str = $exchange;

            fn routing_key(&self, _: &onceward::TenantId) -> String {
                $key.to_owned()
            }

            fn ordering_key(&self) -> Option<String> {
                Some(self.loan_id.to_string())
            }

            fn idempotency_key(&self) -> Option<String> {
                let idempotency_key: fn(&$event) -> Option<String> = $idempotency_key;
                idempotency_key(self)
            }

            fn aggregate(&self) -> Option<(String, String)> {
                let aggregate: fn(&$event) -> (&'static str, uuid::Uuid) = $aggregate;
                let (kind, id) = aggregate(self);
                Some((kind.to_owned(), id.to_string()))
            }

            $(fn correlation_id(&self) -> Option<String> {
                let story: fn(&$event) -> Option<String> = $story;
                story(self)
            })?
        }
    };
}

pub(crate) use loan_event;

loan_event!(
    PaymentPosted, "payment.posted.v1", exchanges::PAYMENT_EVENTS, "payment.posted.v1",
    |event| Some(format!("payment.posted:{}", event.payment_id)), |event| ("payment", event.payment_id),
    story: |event| Some(payment_story(event.payment_id))
);
loan_event!(
    PaymentFailed, "payment.failed.v1", exchanges::PAYMENT_EVENTS, "payment.failed.v1",
    |event| Some(format!("payment.failed:{}", event.payment_id)), |event| ("payment", event.payment_id),
    story: |event| event.story.clone()
);
loan_event!(
    PaymentReturned, "payment.returned.v1", exchanges::PAYMENT_EVENTS, "payment.returned.v1",
    |event| Some(format!("payment.returned:{}", event.payment_id)), |event| ("payment", event.payment_id),
    story: |event| Some(payment_story(event.payment_id))
);
loan_event!(
    PaymentReposted, "payment.reposted.v1", exchanges::PAYMENT_EVENTS, "payment.reposted.v1",
    |event| Some(format!("payment.reposted:{}:{}", event.payment_id, event.version)), |event| ("payment", event.payment_id),
    story: |event| Some(payment_story(event.payment_id))
);
loan_event!(
    SuspenseAllocated,
    "payment.allocated.v1",
    exchanges::PAYMENT_EVENTS,
    "payment.allocated.v1",
    |event| Some(format!("payment.allocated:{}", event.allocation_id)),
    |event| ("loan", event.loan_id)
);

/// Money held in a loan's suspense was refunded to the borrower.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SuspenseRefunded {
    pub loan_id: Uuid,
    /// The ledger event.
    pub event_id: Uuid,
    pub effective_date: Date,
    pub amount_minor: Minor,
    pub currency: Currency,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

loan_event!(
    SuspenseRefunded,
    "payment.suspense_refunded.v1",
    exchanges::PAYMENT_EVENTS,
    "payment.suspense_refunded.v1",
    |event| Some(format!("payment.suspense_refunded:{}", event.event_id)),
    |event| ("loan", event.loan_id)
);

/// A failed payment passed validation after all and was posted to its loan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentRevalidated {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    /// The ledger event that took it out of unapplied cash.
    pub release_id: Uuid,
    pub effective_date: Date,
}

/// A failed payment was posted to another loan, as another payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentMoved {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub to_payment_id: Uuid,
    pub to_loan_id: Uuid,
    /// The ledger event that took it out of unapplied cash.
    pub release_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A failed payment was refunded to its payer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentRefunded {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    /// The ledger event.
    pub event_id: Uuid,
    pub amount_minor: Minor,
    pub currency: Currency,
    pub refunded_on: Date,
    pub reason: String,
}

loan_event!(
    PaymentRevalidated, "payment.revalidated.v1", exchanges::PAYMENT_EVENTS, "payment.revalidated.v1",
    |event| Some(format!("payment.revalidated:{}", event.payment_id)), |event| ("payment", event.payment_id),
    story: |event| Some(payment_story(event.payment_id))
);

loan_event!(
    PaymentMoved, "payment.moved.v1", exchanges::PAYMENT_EVENTS, "payment.moved.v1",
    |event| Some(format!("payment.moved:{}", event.payment_id)), |event| ("payment", event.payment_id),
    story: |event| Some(payment_story(event.payment_id))
);

loan_event!(
    PaymentRefunded, "payment.refunded.v1", exchanges::PAYMENT_EVENTS, "payment.refunded.v1",
    |event| Some(format!("payment.refunded:{}", event.payment_id)), |event| ("payment", event.payment_id),
    story: |event| Some(payment_story(event.payment_id))
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PaymentBucket;
    use onceward::Event;
    use onceward_ledger::{credit, debit};
    use serde_json::json;

    #[test]
    fn events_have_the_published_json_form() {
        let posted = PaymentPosted {
            payment_id: Uuid::nil(),
            loan_id: Uuid::nil(),
            event_id: Uuid::nil(),
            effective_date: "2026-01-31".parse().unwrap(),
            applied: vec![Allocation { bucket: PaymentBucket::InterestPastDue, amount: Minor::new(125) }],
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
        let failed = PaymentFailed::new(Uuid::nil(), Uuid::nil(), "x", None);
        assert_eq!(serde_json::to_value(&failed).unwrap(), json!({"payment_id": nil, "loan_id": nil, "reason": "x"}));
    }

    #[test]
    fn amounts_owed_and_amounts_held_are_published_as_positive() {
        let mut balances = Balances::empty(Currency::USD);
        let amount = Minor::new(30);
        balances.apply(&[debit(Account::Cash, amount, ""), credit(Account::EscrowLiability, amount, "")]).unwrap();
        let published = NewBalances::of(&balances).unwrap();
        assert_eq!((published.escrow_liability_minor, published.cash_minor), (amount, amount));
    }
}
