//! A disbursement: what is asked for, and what became of it.

use jiff::{Timestamp, civil::Date};
use onceward_money::{Currency, Minor};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Who gets the money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payee {
    /// Their name.
    pub name: String,
    /// By what they know what it is for: a parcel, a policy, an invoice.
    pub reference: String,
}

/// What it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Taxes.
    Tax,
    /// Insurance.
    Insurance,
    /// Anything else, such as what is left going back to the borrower.
    Other,
}

impl Purpose {
    /// Its name in messages and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tax => "tax",
            Self::Insurance => "insurance",
            Self::Other => "other",
        }
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        [Self::Tax, Self::Insurance, Self::Other].into_iter().find(|purpose| purpose.as_str() == text)
    }
}

/// What is to be paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// To whom.
    pub payee: Payee,
    /// How much.
    pub amount_minor: Minor,
    /// What for.
    pub purpose: Purpose,
    /// From which day it counts.
    pub effective_date: Date,
    /// When the payee must have it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_date: Option<Date>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Asked for.
    Requested,
    /// Paid.
    Disbursed,
    /// Not paid, for a reason.
    Refused,
}

impl Status {
    /// Its name in messages and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Disbursed => "disbursed",
            Self::Refused => "refused",
        }
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        [Self::Requested, Self::Disbursed, Self::Refused].into_iter().find(|status| status.as_str() == text)
    }
}

/// A disbursement as it is kept, shown and told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disbursement {
    /// Its id.
    pub disbursement_id: Uuid,
    /// Out of which loan's escrow.
    pub loan_id: Uuid,
    /// What was asked for.
    #[serde(flatten)]
    pub request: Request,
    /// The loan's currency.
    pub currency: Currency,
    /// How far it is.
    pub status: Status,
    /// Why it was refused.
    pub reason: Option<String>,
    /// The ledger's event that paid it.
    pub event_id: Option<Uuid>,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// When it was paid or refused.
    pub settled_at: Option<Timestamp>,
}
