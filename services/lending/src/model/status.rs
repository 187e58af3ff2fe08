//! The loan status and its transitions.
//!
//! ```text
//! created ──► active ◄──► in_modification
//!    │        │ ▲ ▲ ◄──► bankruptcy ◄──► in_modification
//!    │        │ │ └───────── charged_off ◄── active, in_modification, bankruptcy
//!    │        ▼ │                │  │
//!    │      paid_off ◄───────────┘  │      (paid_off also from in_modification and bankruptcy)
//!    ▼          ▼                   ▼
//!  closed ◄─────┴───────────────────┘      final
//! ```
//!
//! A paid-off loan returns to its previous status when the payment that ended it is returned; a charged-off loan
//! becomes active when the charge-off is reversed.

use super::rule_error::RuleError;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A loan's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoanStatus {
    /// Agreed on, but not funded.
    Created,
    /// Funded and serviced as agreed.
    Active,
    /// New terms are being agreed on; the old ones hold until then.
    InModification,
    /// The borrower is under a court's protection.
    Bankruptcy,
    /// Nothing is owed.
    PaidOff,
    /// Written off as a loss.
    ChargedOff,
    /// Final: nothing more happens.
    Closed,
}

/// How a payment is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentRule {
    /// It is divided by the waterfall.
    Apply,
    /// It is accepted and held in suspense, until an operator decides what it may pay.
    Hold,
    /// It is refused, for this reason.
    Refuse(&'static str),
}

impl LoanStatus {
    /// All statuses.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Active,
        Self::InModification,
        Self::Bankruptcy,
        Self::PaidOff,
        Self::ChargedOff,
        Self::Closed,
    ];

    /// Returns the statuses that may follow.
    pub const fn next(self) -> &'static [Self] {
        use LoanStatus::{Active, Bankruptcy, ChargedOff, Closed, Created, InModification, PaidOff};
        match self {
            Created => &[Active, Closed],
            Active => &[InModification, Bankruptcy, PaidOff, ChargedOff],
            InModification => &[Active, Bankruptcy, PaidOff, ChargedOff],
            Bankruptcy => &[Active, InModification, PaidOff, ChargedOff],
            PaidOff => &[Active, InModification, Bankruptcy, Closed],
            ChargedOff => &[Active, PaidOff, Closed],
            Closed => &[],
        }
    }

    /// Returns `to`, or an error if `to` may not follow. A status does not follow itself.
    pub fn become_status(self, to: Self) -> Result<Self, RuleError> {
        if self.next().contains(&to) { Ok(to) } else { Err(RuleError::Transition { from: self, to }) }
    }

    /// Returns how a payment to a loan with this status is treated.
    ///
    /// In bankruptcy the court decides what a payment may pay; applying it to old interest and fees first, as the
    /// waterfall would, can break the stay. A charged-off loan has no receivable left to pay: money for it is a
    /// recovery, which must be booked explicitly.
    pub const fn payment_rule(self) -> PaymentRule {
        match self {
            Self::Active | Self::InModification => PaymentRule::Apply,
            Self::Bankruptcy => PaymentRule::Hold,
            Self::Created => PaymentRule::Refuse("the loan is not funded yet: activate it, or return the payment"),
            Self::PaidOff => PaymentRule::Refuse("the loan is paid off: return the payment"),
            Self::ChargedOff => {
                PaymentRule::Refuse("the loan is charged off: reverse the charge-off, or return the payment")
            }
            Self::Closed => PaymentRule::Refuse("the loan is closed: return the payment"),
        }
    }

    /// Returns whether interest accrues. It does in bankruptcy; how much of it may be collected is another question.
    pub const fn accrues_interest(self) -> bool {
        matches!(self, Self::Active | Self::InModification | Self::Bankruptcy)
    }

    /// Returns whether late instalments incur a fee: not while new terms or a court's decision are pending.
    pub const fn charges_late_fees(self) -> bool {
        matches!(self, Self::Active)
    }

    /// The name in messages and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Active => "active",
            Self::InModification => "in_modification",
            Self::Bankruptcy => "bankruptcy",
            Self::PaidOff => "paid_off",
            Self::ChargedOff => "charged_off",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for LoanStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for LoanStatus {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(RuleError::UnknownStatus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LoanStatus::{Active, Bankruptcy, ChargedOff, Closed, Created, InModification, PaidOff};

    #[test]
    fn only_allowed_transitions_succeed() {
        for (from, to) in [
            (Created, Active),
            (Active, InModification),
            (InModification, Active),
            (Active, Bankruptcy),
            (Bankruptcy, Active),
            (Active, PaidOff),
            (PaidOff, Active),
            (PaidOff, Bankruptcy),
            (Active, ChargedOff),
            (ChargedOff, Active),
            (PaidOff, Closed),
        ] {
            assert_eq!(from.become_status(to), Ok(to));
        }
        for (from, to) in
            [(Created, PaidOff), (Active, Created), (Active, Closed), (Active, Active), (PaidOff, ChargedOff)]
        {
            assert_eq!(from.become_status(to), Err(RuleError::Transition { from, to }));
        }
        assert!(LoanStatus::ALL.into_iter().all(|to| Closed.become_status(to).is_err()));
    }

    #[test]
    fn a_rejected_transition_names_the_alternatives() {
        let error = Created.become_status(PaidOff).unwrap_err().to_string();
        assert_eq!(error, "a loan that is created cannot become paid_off: choose active, closed");
        assert!(Closed.become_status(Active).unwrap_err().to_string().ends_with("its status is final"));
    }

    #[test]
    fn payments_are_applied_held_or_refused_by_status() {
        assert_eq!([Active, InModification].map(LoanStatus::payment_rule), [PaymentRule::Apply; 2]);
        assert_eq!(Bankruptcy.payment_rule(), PaymentRule::Hold);
        for status in [Created, PaidOff, ChargedOff, Closed] {
            assert!(matches!(status.payment_rule(), PaymentRule::Refuse(_)), "{status}");
        }
    }

    #[test]
    fn every_status_survives_text_and_json() {
        for status in LoanStatus::ALL {
            assert_eq!(status.to_string().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        assert_eq!("unknown".parse::<LoanStatus>(), Err(RuleError::UnknownStatus));
    }
}
