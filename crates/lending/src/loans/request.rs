//! What callers ask for.

use crate::model::LoanStatus;
use jiff::civil::Date;
use onceward_money::{Currency, Minor, Rate};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A loan to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoanData {
    /// Its id, if the caller chooses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan_id: Option<Uuid>,
    /// Who will owe it.
    pub borrower_entity_id: Uuid,
    /// The product to make it by.
    pub product_code: String,
    /// Which version of it; the latest, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_version: Option<i32>,
    /// How much to lend.
    pub principal_minor: Minor,
    /// In which currency.
    pub currency: Currency,
    /// When it begins, unless it is funded on another day.
    pub start_date: Date,
    /// When the first instalment is due; a month later, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_due_date: Option<Date>,
}

/// What to do with a loan. Days are today's, unless said.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoanChange {
    /// Pay the money out.
    Activate {
        /// When.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        funded_on: Option<Date>,
        /// When the first instalment is due, if not as agreed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_due_date: Option<Date>,
    },
    /// Move it on by the status machine, where nothing has to be booked.
    ChangeStatus {
        /// To what.
        status: LoanStatus,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// New terms from a day on, for the principal that is owed then.
    Modify {
        /// From when.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
        /// The new rate, if it changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annual_rate: Option<Rate>,
        /// The new number of instalments, if it changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        term_months: Option<u32>,
        /// When the first of them is due; a month later, unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_due_date: Option<Date>,
    },
    /// Give it up.
    ChargeOff {
        /// When.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// It was given up too early: put back what was owed.
    ReverseChargeOff {
        /// When.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nothing more will happen.
    Close {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl LoanChange {
    /// Its name.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Activate { .. } => "activate",
            Self::ChangeStatus { .. } => "change_status",
            Self::Modify { .. } => "modify",
            Self::ChargeOff { .. } => "charge_off",
            Self::ReverseChargeOff { .. } => "reverse_charge_off",
            Self::Close { .. } => "close",
        }
    }
}
