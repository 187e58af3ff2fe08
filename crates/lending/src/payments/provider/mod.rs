//! What each gateway says, in our words.
//!
//! A mapping reads a gateway's payload and gives a [`Claim`], or everything that is wrong with it. It decides nothing
//! about the loan: that a claim can be read does not mean that the payment is good.

pub(crate) mod bank;
mod fields;
pub(crate) mod mock;
pub(crate) mod signature;
pub(crate) mod stripe;

pub(crate) use fields::{Fields, Wrong};

use super::events::PaymentMethod;
use super::idempotency;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use onceward_money::{Currency, Minor};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The gateway for tests and demonstrations.
pub(crate) const MOCK: &str = "mock";
/// Stripe's webhooks.
pub(crate) const STRIPE: &str = "stripe";
/// Files of ACH entries.
pub(crate) const BANK: &str = "bank";
/// Payments that we are asked to take ourselves.
pub(crate) const DIRECT: &str = "direct";

/// A payment as its gateway tells of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    pub provider: &'static str,
    pub loan_id: Uuid,
    pub method: PaymentMethod,
    pub amount: Minor,
    pub currency: Currency,
    pub gateway_txn_id: String,
    /// The day from which it counts, if the gateway says.
    pub effective_date: Option<Date>,
    pub hints: Map<String, Value>,
    /// What the gateway sent.
    pub raw: Value,
}

impl Claim {
    /// The day from which it counts: the one it names, or else the day on which we heard of it, in UTC.
    pub(crate) fn effective_on(&self, received_at: Timestamp) -> Date {
        self.effective_date.unwrap_or_else(|| utc_day(received_at))
    }

    /// The key by which it is the same payment.
    pub(crate) fn key(&self, effective: Date) -> String {
        idempotency::key(self.loan_id, &self.gateway_txn_id, self.amount, self.currency, effective)
    }
}

/// The day that it is at `time` in UTC.
pub(crate) fn utc_day(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// Reads one payment of a gateway that sends JSON. `None`: there is no such gateway here.
pub(crate) fn read(provider: &str, payload: &Value) -> Option<Result<Claim, Vec<Wrong>>> {
    match provider {
        MOCK => Some(mock::read(payload)),
        BANK => Some(bank::read(payload)),
        _ => None,
    }
}
