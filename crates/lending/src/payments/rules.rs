//! What makes a payment good. Pure: everything it depends on is given.
//!
//! Days are compared with the day on which the payment was received and not with today: a payment that came in time is
//! in time, however long it had to wait for us.

use crate::model::{Hints, LoanStatus};
use jiff::{Span, civil::Date};
use onceward_money::{Currency, Minor};
use serde_json::{Map, Value};

/// Why a payment may not be posted, as a word that others can rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// There is no such loan.
    LoanNotFound,
    /// The loan takes no payments in its status.
    LoanStatus,
    /// It is not in dollars, or not in the loan's currency.
    Currency,
    /// It is nothing, or less.
    AmountNotPositive,
    /// It is more than the settings allow.
    AmountTooLarge,
    /// It would count from too long ago.
    StaleEffectiveDate,
    /// It would count from a day that was still to come when it was received.
    FutureEffectiveDate,
    /// What it shall pay is nothing that can be paid.
    AllocationHints,
    /// The borrower may not pay.
    BorrowerNotEligible,
}

impl Reason {
    /// The word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::LoanNotFound => "loan_not_found",
            Self::LoanStatus => "loan_status",
            Self::Currency => "currency",
            Self::AmountNotPositive => "amount_not_positive",
            Self::AmountTooLarge => "amount_too_large",
            Self::StaleEffectiveDate => "stale_effective_date",
            Self::FutureEffectiveDate => "future_effective_date",
            Self::AllocationHints => "allocation_hints",
            Self::BorrowerNotEligible => "borrower_not_eligible",
        }
    }
}

/// The loan, as far as it matters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoanFacts {
    pub status: LoanStatus,
    pub currency: Currency,
    pub borrower_eligible: bool,
}

/// What is known of a payment.
#[derive(Debug, Clone)]
pub(crate) struct Facts<'a> {
    pub loan: Option<LoanFacts>,
    pub amount: Minor,
    pub currency: Currency,
    pub received_on: Date,
    pub effective_date: Date,
    pub hints: &'a Map<String, Value>,
}

/// What the settings allow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub max: Minor,
    pub max_staleness_days: i32,
}

/// The first rule that the payment breaks.
pub(crate) fn check(facts: &Facts<'_>, limits: Limits) -> Result<(), Reason> {
    let loan = facts.loan.ok_or(Reason::LoanNotFound)?;
    let oldest = facts.received_on.saturating_sub(Span::new().days(limits.max_staleness_days));
    let rules = [
        (takes_payments(loan.status), Reason::LoanStatus),
        (facts.currency == Currency::USD && facts.currency == loan.currency, Reason::Currency),
        (facts.amount.is_positive(), Reason::AmountNotPositive),
        (facts.amount <= limits.max, Reason::AmountTooLarge),
        (facts.effective_date >= oldest, Reason::StaleEffectiveDate),
        (facts.effective_date <= facts.received_on, Reason::FutureEffectiveDate),
        (serde_json::from_value::<Hints>(Value::Object(facts.hints.clone())).is_ok(), Reason::AllocationHints),
        (loan.borrower_eligible, Reason::BorrowerNotEligible),
    ];
    rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, reason)| Err(reason))
}

const fn takes_payments(status: LoanStatus) -> bool {
    matches!(status, LoanStatus::Active | LoanStatus::InModification | LoanStatus::Bankruptcy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;
    use serde_json::json;

    const LIMITS: Limits = Limits { max: Minor::new(500_000_000), max_staleness_days: 10 };

    fn check_changed(change: impl FnOnce(&mut Facts<'_>)) -> Result<(), Reason> {
        let hints = Map::new();
        let mut facts = Facts {
            loan: Some(LoanFacts { status: LoanStatus::Active, currency: Currency::USD, borrower_eligible: true }),
            amount: Minor::new(100),
            currency: Currency::USD,
            received_on: date(2026, 3, 11),
            effective_date: date(2026, 3, 11),
            hints: &hints,
        };
        change(&mut facts);
        check(&facts, LIMITS)
    }

    fn loan(facts: &mut Facts<'_>, change: impl FnOnce(&mut LoanFacts)) {
        facts.loan.as_mut().map(change);
    }

    #[test]
    fn a_payment_within_all_limits_is_good() {
        assert_eq!(check_changed(|_| {}), Ok(()));
        assert_eq!(check_changed(|facts| facts.amount = LIMITS.max), Ok(()));
        assert_eq!(check_changed(|facts| facts.effective_date = date(2026, 3, 1)), Ok(()));
    }

    #[test]
    fn loans_take_payments_in_three_statuses() {
        for status in LoanStatus::ALL {
            let good = ["active", "in_modification", "bankruptcy"].contains(&status.as_str());
            let found = check_changed(|facts| loan(facts, |loan| loan.status = status));
            assert_eq!(found, if good { Ok(()) } else { Err(Reason::LoanStatus) }, "{status}");
        }
    }

    #[test]
    fn every_rule_has_its_word() {
        let beer = json!({"bucket": "beer"});
        let beer = beer.as_object().unwrap();
        let found = [
            check_changed(|facts| facts.loan = None),
            check_changed(|facts| facts.currency = Currency::EUR),
            check_changed(|facts| loan(facts, |loan| loan.currency = Currency::EUR)),
            check_changed(|facts| facts.amount = Minor::ZERO),
            check_changed(|facts| facts.amount = Minor::new(-1)),
            check_changed(|facts| facts.amount = LIMITS.max.checked_add(Minor::new(1)).unwrap()),
            check_changed(|facts| facts.effective_date = date(2026, 2, 28)),
            check_changed(|facts| facts.effective_date = date(2026, 3, 12)),
            check_changed(|facts| loan(facts, |loan| loan.borrower_eligible = false)),
        ];
        let words: Vec<&str> = found.iter().map(|found| found.expect_err("a rule is broken").as_str()).collect();
        assert_eq!(
            words,
            [
                "loan_not_found",
                "currency",
                "currency",
                "amount_not_positive",
                "amount_not_positive",
                "amount_too_large",
                "stale_effective_date",
                "future_effective_date",
                "borrower_not_eligible",
            ]
        );
        let hints = Facts { hints: beer, ..facts_for(beer) };
        assert_eq!(check(&hints, LIMITS), Err(Reason::AllocationHints));
    }

    fn facts_for(hints: &Map<String, Value>) -> Facts<'_> {
        Facts {
            loan: Some(LoanFacts { status: LoanStatus::Active, currency: Currency::USD, borrower_eligible: true }),
            amount: Minor::new(100),
            currency: Currency::USD,
            received_on: date(2026, 3, 11),
            effective_date: date(2026, 3, 11),
            hints,
        }
    }
}
