//! Events about money that is not applied to a loan.

use super::payment_story;
use crate::topology::exchanges;
use jiff::civil::Date;
use onceward::{Event, TenantId};
use onceward_money::{Currency, Minor};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

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
