//! The requests of callers.

use crate::model::LoanStatus;
use jiff::civil::Date;
use onceward_money::{Currency, Minor, Rate};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A loan to create.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoanData {
    /// The id, if the caller chooses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan_id: Option<Uuid>,
    /// The borrower.
    pub borrower_entity_id: Uuid,
    /// The product to create the loan from.
    pub product_code: String,
    /// The product's version; the latest by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_version: Option<i32>,
    /// The amount to lend.
    pub principal_minor: Minor,
    /// The currency of the loan.
    pub currency: Currency,
    /// The day on which the loan begins, unless it is funded on another day.
    pub start_date: Date,
    /// The due date of the first instalment; a month later by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_due_date: Option<Date>,
}

/// A change of a loan. Days default to today.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoanChange {
    /// Pay the money out.
    Activate {
        /// The funding day.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        funded_on: Option<Date>,
        /// The due date of the first instalment, if not as agreed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_due_date: Option<Date>,
    },
    /// Change the status where nothing has to be booked.
    ChangeStatus {
        /// The new status.
        status: LoanStatus,
        /// The day from which it counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Set new terms from a day on, for the principal owed on that day.
    Modify {
        /// The day from which the new terms apply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
        /// The new rate, if it changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annual_rate: Option<Rate>,
        /// The new number of instalments, if it changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        term_months: Option<u32>,
        /// The due date of the first new instalment; a month later by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_due_date: Option<Date>,
    },
    /// Charge the loan off.
    ChargeOff {
        /// The day of the charge-off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Restore the debt of a loan that was charged off too early.
    ReverseChargeOff {
        /// The day of the reversal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Refund money held in suspense to the borrower.
    RefundSuspense {
        /// The amount; the whole balance by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        amount_minor: Option<Minor>,
        /// The day of the refund.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Close the loan: nothing more happens to it.
    Close {
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl LoanChange {
    /// The action's name.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Activate { .. } => "activate",
            Self::ChangeStatus { .. } => "change_status",
            Self::Modify { .. } => "modify",
            Self::ChargeOff { .. } => "charge_off",
            Self::ReverseChargeOff { .. } => "reverse_charge_off",
            Self::RefundSuspense { .. } => "refund_suspense",
            Self::Close { .. } => "close",
        }
    }
}
