//! A disbursement: the request and its outcome.

use jiff::{Timestamp, civil::Date};
use onceward_money::{Currency, Minor};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The recipient of the money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payee {
    /// The payee's name.
    pub name: String,
    /// The payee's reference for the payment: a parcel, a policy, an invoice.
    pub reference: String,
}

/// The purpose of a disbursement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Taxes.
    Tax,
    /// Insurance.
    Insurance,
    /// Anything else, such as returning the remainder to the borrower.
    Other,
}

impl Purpose {
    /// The name in messages and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tax => "tax",
            Self::Insurance => "insurance",
            Self::Other => "other",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Tax, Self::Insurance, Self::Other].into_iter().find(|purpose| purpose.as_str() == text)
    }
}

/// A disbursement to be paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisbursementRequest {
    /// The payee.
    pub payee: Payee,
    /// The amount.
    pub amount_minor: Minor,
    /// The purpose.
    pub purpose: Purpose,
    /// The day from which it counts.
    pub effective_date: Date,
    /// The day by which the payee must receive it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_date: Option<Date>,
}

/// The status of a disbursement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DisbursementStatus {
    /// Requested.
    Requested,
    /// Paid.
    Disbursed,
    /// Not paid, for a reason.
    Refused,
}

impl DisbursementStatus {
    /// The name in messages and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Disbursed => "disbursed",
            Self::Refused => "refused",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Requested, Self::Disbursed, Self::Refused].into_iter().find(|status| status.as_str() == text)
    }
}

/// A disbursement as it is stored, returned and published.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disbursement {
    /// The disbursement's id.
    pub disbursement_id: Uuid,
    /// The loan whose escrow pays it.
    pub loan_id: Uuid,
    /// The request.
    #[serde(flatten)]
    pub request: DisbursementRequest,
    /// The loan's currency.
    pub currency: Currency,
    /// The status.
    pub status: DisbursementStatus,
    /// The reason for a refusal.
    pub reason: Option<String>,
    /// The ledger event that paid it.
    pub event_id: Option<Uuid>,
    /// When it was requested.
    pub requested_at: Timestamp,
    /// When it was paid or refused.
    pub settled_at: Option<Timestamp>,
}
