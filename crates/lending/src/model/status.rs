//! What a loan is, and what it can become.
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
//! A paid loan becomes active again when the payment that ended it comes back, a charged-off one when
//! that is reversed.

use super::rule_error::RuleError;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A loan's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoanStatus {
    /// Agreed on, not funded.
    Created,
    /// Funded and served as agreed.
    Active,
    /// New terms are being agreed on; the old ones hold until then.
    InModification,
    /// The borrower is under a court's protection.
    Bankruptcy,
    /// Nothing is owed.
    PaidOff,
    /// Given up as a loss.
    ChargedOff,
    /// Nothing more will happen.
    Closed,
}

/// What happens to a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentRule {
    /// It is divided by the waterfall.
    Apply,
    /// It is taken and held in suspense, until somebody decides what it may pay.
    Hold,
    /// It is refused, for this reason.
    Refuse(&'static str),
}

impl LoanStatus {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Active,
        Self::InModification,
        Self::Bankruptcy,
        Self::PaidOff,
        Self::ChargedOff,
        Self::Closed,
    ];

    /// What it can become.
    pub const fn next(self) -> &'static [Self] {
        use LoanStatus::{Active, Bankruptcy, ChargedOff, Closed, Created, InModification, PaidOff};
        match self {
            Created => &[Active, Closed],
            Active => &[InModification, Bankruptcy, PaidOff, ChargedOff],
            InModification => &[Active, Bankruptcy, PaidOff, ChargedOff],
            Bankruptcy => &[Active, InModification, PaidOff, ChargedOff],
            PaidOff => &[Active, Closed],
            ChargedOff => &[Active, PaidOff, Closed],
            Closed => &[],
        }
    }

    /// `to`, if that can follow. A status does not follow itself.
    pub fn become_status(self, to: Self) -> Result<Self, RuleError> {
        if self.next().contains(&to) { Ok(to) } else { Err(RuleError::Transition { from: self, to }) }
    }

    /// What happens to a payment for such a loan.
    ///
    /// In bankruptcy the court decides what a payment may pay; taking it to old interest and fees first, as
    /// the waterfall would, can break the stay. A charged-off loan has no receivable left to pay: money for
    /// it is a recovery, which somebody must book on purpose.
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

    /// Whether interest runs. It does in bankruptcy; what may be collected of it is another question.
    pub const fn accrues_interest(self) -> bool {
        matches!(self, Self::Active | Self::InModification | Self::Bankruptcy)
    }

    /// Whether late instalments cost a fee: not while new terms or a court's word are awaited.
    pub const fn charges_late_fees(self) -> bool {
        matches!(self, Self::Active)
    }

    /// Its name in messages and in the database.
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
    fn a_loan_goes_its_way_and_no_other() {
        for (from, to) in [
            (Created, Active),
            (Active, InModification),
            (InModification, Active),
            (Active, Bankruptcy),
            (Bankruptcy, Active),
            (Active, PaidOff),
            (PaidOff, Active),
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
    fn a_refused_change_names_the_choices() {
        let error = Created.become_status(PaidOff).unwrap_err().to_string();
        assert_eq!(error, "a loan that is created cannot become paid_off: choose active, closed");
        assert!(Closed.become_status(Active).unwrap_err().to_string().ends_with("that is final"));
    }

    #[test]
    fn payments_are_taken_where_something_can_be_paid() {
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
        assert_eq!("dreaming".parse::<LoanStatus>(), Err(RuleError::UnknownStatus));
    }
}
