//! Operators' requests about single payments.

use crate::topology::{exchanges, keys};
use jiff::civil::Date;
use onceward::{Event, TenantId};
use onceward_money::Minor;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The command to execute an operator's request for a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PostPayment {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    #[serde(flatten)]
    pub action: PaymentAction,
}

/// The action to take on a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum PaymentAction {
    /// Post it if it is not posted; otherwise post it and what came after it again, by the current rules.
    Post,
    /// Reverse it, because the bank took the money back.
    Return {
        /// The bank's reason.
        reason: String,
        /// The day of the return.
        returned_on: Date,
        /// The fee charged to the borrower.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fee_minor: Option<Minor>,
    },
    /// Check a failed payment again, after its cause was resolved, and post it.
    Revalidate {
        /// The new effective day, if it changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
    },
    /// Move a failed payment to another loan.
    Move {
        /// The other loan.
        to_loan_id: Uuid,
        /// The id of the new payment on that loan.
        to_payment_id: Uuid,
        /// The new effective day, if it changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Refund a failed payment to its payer.
    Refund {
        /// The reason.
        reason: String,
        /// The day of the refund.
        refunded_on: Date,
    },
}

loan_event!(PostPayment, "payment.post.v1", exchanges::PAYMENT_SAGA, keys::PAYMENT_POST, |_| None, |event| (
    "payment",
    event.payment_id
));

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_names_its_action() {
        let nil = Uuid::nil();
        let given = json!({
            "payment_id": nil, "loan_id": nil, "action": "return", "reason": "R01", "returned_on": "2026-02-03",
            "fee_minor": "2500"
        });
        let read: PostPayment = serde_json::from_value(given.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), given);
        let post: PostPayment =
            serde_json::from_value(json!({"payment_id": nil, "loan_id": nil, "action": "post"})).unwrap();
        assert_eq!(post.action, PaymentAction::Post);
    }
}
