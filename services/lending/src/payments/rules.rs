//! The rules of validation. They are pure: everything they depend on is an argument.
//!
//! Days are compared with the day on which the payment was received and not with today: a payment that arrived in time
//! is in time, however long it waited to be handled.

use super::CURRENCY;
use crate::Settings;
use crate::model::{AllocationHints, LoanStatus};
use jiff::{Span, civil::Date};
use onceward_money::{Currency, Minor};
use serde_json::{Map, Value};

/// Why a payment may not be posted, as a stable code for consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureReason {
    /// The loan does not exist.
    LoanNotFound,
    /// The loan's status does not allow payments.
    LoanStatus,
    /// It is not in dollars, or not in the loan's currency.
    Currency,
    /// The amount is zero or negative.
    AmountNotPositive,
    /// It exceeds the maximum in the settings.
    AmountTooLarge,
    /// The effective day is too long ago.
    StaleEffectiveDate,
    /// The effective day was in the future when the payment was received.
    FutureEffectiveDate,
    /// The hints do not name a bucket that can be paid.
    AllocationHints,
    /// The borrower may not pay.
    BorrowerNotEligible,
    /// All rules are met, but the loan's books refuse the posting.
    PostingRefused,
}

impl FailureReason {
    /// The code.
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
            Self::PostingRefused => "posting_refused",
        }
    }
}

/// What the rules depend on, of the loan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoanToPay {
    pub status: LoanStatus,
    pub currency: Currency,
    pub borrower_eligible: bool,
}

/// What the rules depend on, of a payment.
#[derive(Debug, Clone)]
pub(crate) struct PaymentFacts<'a> {
    pub loan: Option<LoanToPay>,
    pub amount: Minor,
    pub currency: Currency,
    pub received_on: Date,
    /// The last allowed effective day: the day of receipt, or a later day on which the payment is checked again.
    pub latest: Date,
    pub effective_date: Date,
    pub hints: &'a Map<String, Value>,
}

/// The limits from the settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaymentLimits {
    pub max: Minor,
    pub max_staleness_days: i32,
}

impl From<&Settings> for PaymentLimits {
    fn from(settings: &Settings) -> Self {
        Self { max: Minor::new(settings.payment_max_minor), max_staleness_days: settings.payment_max_staleness_days }
    }
}

/// Returns the first rule that the payment breaks.
pub(crate) fn check(facts: &PaymentFacts<'_>, limits: PaymentLimits) -> Result<(), FailureReason> {
    let loan = facts.loan.ok_or(FailureReason::LoanNotFound)?;
    let oldest = facts.received_on.saturating_sub(Span::new().days(limits.max_staleness_days));
    let rules = [
        (accepts_payments(loan.status), FailureReason::LoanStatus),
        (facts.currency == CURRENCY && facts.currency == loan.currency, FailureReason::Currency),
        (facts.amount.is_positive(), FailureReason::AmountNotPositive),
        (facts.amount <= limits.max, FailureReason::AmountTooLarge),
        (facts.effective_date >= oldest, FailureReason::StaleEffectiveDate),
        (facts.effective_date <= facts.latest.max(facts.received_on), FailureReason::FutureEffectiveDate),
        (
            serde_json::from_value::<AllocationHints>(Value::Object(facts.hints.clone())).is_ok(),
            FailureReason::AllocationHints,
        ),
        (loan.borrower_eligible, FailureReason::BorrowerNotEligible),
    ];
    rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, reason)| Err(reason))
}

const fn accepts_payments(status: LoanStatus) -> bool {
    matches!(status, LoanStatus::Active | LoanStatus::InModification | LoanStatus::Bankruptcy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;
    use serde_json::json;

    const LIMITS: PaymentLimits = PaymentLimits { max: Minor::new(500_000_000), max_staleness_days: 10 };

    fn check_changed(change: impl FnOnce(&mut PaymentFacts<'_>)) -> Result<(), FailureReason> {
        let hints = Map::new();
        let mut facts = PaymentFacts {
            loan: Some(LoanToPay { status: LoanStatus::Active, currency: Currency::USD, borrower_eligible: true }),
            amount: Minor::new(100),
            currency: Currency::USD,
            received_on: date(2026, 3, 11),
            latest: date(2026, 3, 11),
            effective_date: date(2026, 3, 11),
            hints: &hints,
        };
        change(&mut facts);
        check(&facts, LIMITS)
    }

    fn loan(facts: &mut PaymentFacts<'_>, change: impl FnOnce(&mut LoanToPay)) {
        facts.loan.as_mut().map(change);
    }

    #[test]
    fn a_payment_within_all_limits_is_valid() {
        assert_eq!(check_changed(|_| {}), Ok(()));
        assert_eq!(check_changed(|facts| facts.amount = LIMITS.max), Ok(()));
        assert_eq!(check_changed(|facts| facts.effective_date = date(2026, 3, 1)), Ok(()));
        let checked_again = check_changed(|facts| {
            facts.effective_date = date(2026, 3, 12);
            facts.latest = date(2026, 3, 12);
        });
        assert_eq!(checked_again, Ok(()), "the effective day has come");
    }

    #[test]
    fn loans_accept_payments_in_three_statuses() {
        for status in LoanStatus::ALL {
            let accepted = ["active", "in_modification", "bankruptcy"].contains(&status.as_str());
            let found = check_changed(|facts| loan(facts, |loan| loan.status = status));
            assert_eq!(found, if accepted { Ok(()) } else { Err(FailureReason::LoanStatus) }, "{status}");
        }
    }

    #[test]
    fn every_rule_has_its_reason_code() {
        let unknown = json!({"bucket": "unknown"});
        let unknown = unknown.as_object().unwrap();
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
        let codes: Vec<&str> = found.iter().map(|found| found.expect_err("a rule is broken").as_str()).collect();
        assert_eq!(
            codes,
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
        let hints = facts_for(unknown);
        assert_eq!(check(&hints, LIMITS), Err(FailureReason::AllocationHints));
    }

    fn facts_for(hints: &Map<String, Value>) -> PaymentFacts<'_> {
        PaymentFacts {
            loan: Some(LoanToPay { status: LoanStatus::Active, currency: Currency::USD, borrower_eligible: true }),
            amount: Minor::new(100),
            currency: Currency::USD,
            received_on: date(2026, 3, 11),
            latest: date(2026, 3, 11),
            effective_date: date(2026, 3, 11),
            hints,
        }
    }
}
