//! Reads the payloads of gateways.
//!
//! A mapping reads a gateway's payload and returns a [`ReportedPayment`], or all its errors. It decides nothing about the loan:
//! a readable payload is not necessarily a valid payment.

pub(crate) mod bank;
pub(crate) mod mock;
mod payload;
pub(crate) mod signature;
pub(crate) mod stripe;

pub(crate) use payload::{InvalidField, PayloadReader};

use super::events::PaymentMethod;
use crate::Settings;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use onceward_money::{Currency, Minor};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The gateway for tests and demonstrations, which `lending.mock_provider` enables.
pub(crate) const MOCK: &str = "mock";
/// Stripe's webhooks.
pub(crate) const STRIPE: &str = "stripe";
/// Files of ACH entries.
pub(crate) const BANK: &str = "bank";
/// Payments requested from us directly.
pub(crate) const DIRECT: &str = "direct";

/// A payment as its gateway reports it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReportedPayment {
    pub provider: &'static str,
    pub loan_id: Uuid,
    pub method: PaymentMethod,
    pub amount: Minor,
    pub currency: Currency,
    pub gateway_txn_id: String,
    /// The day from which it counts, if the gateway reports one.
    pub effective_date: Option<Date>,
    pub hints: Map<String, Value>,
    /// The gateway's original payload.
    pub raw: Value,
}

/// Returns the day of `time` in UTC.
pub(crate) fn utc_day(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// Returns whether JSON payloads of this gateway are accepted here.
pub(crate) fn accepts_json(provider: &str, settings: &Settings) -> bool {
    (provider == MOCK && settings.mock_provider) || provider == BANK
}

/// Reads one payment of a gateway that sends JSON. Returns `None` if payments from this gateway are not accepted here.
pub(crate) fn read(
    provider: &str,
    payload: &Value,
    settings: &Settings,
) -> Option<Result<ReportedPayment, Vec<InvalidField>>> {
    if !accepts_json(provider, settings) {
        return None;
    }
    Some(if provider == MOCK { mock::read(payload) } else { bank::read(payload) })
}
