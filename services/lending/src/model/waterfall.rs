//! The division of a payment.
//!
//! A payment pays in this order: the bucket that its hint names; what is due, in the product's order; the principal,
//! if the product takes prepayments; and the rest goes to `future`, which is held in suspense. Money that is enough to
//! end the loan ends it: escrow then comes last, even if the hint names it. If the payment and suspense together are
//! enough, the missing amount is taken from suspense: a negative `future` part. An amount that was refunded from
//! suspense and not covered afterwards is repaid before everything else.
//!
//! Invariant: the allocations add up to the payment, and no bucket except `future` receives more than is owed in it.

use super::division::Division;
use super::product::{Prepayment, ProductPolicy};
use super::rule_error::RuleError;
use onceward_money::Minor;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// The debts that a payment can pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentBucket {
    /// Charged fees.
    FeesDue,
    /// Interest of periods that have ended.
    InterestPastDue,
    /// Interest of the current period.
    InterestCurrent,
    /// The loan's principal.
    Principal,
    /// Deposits for taxes and insurance.
    Escrow,
    /// No debt yet: held in suspense.
    Future,
}

/// The order in which due amounts are paid: each bucket once, `future` always last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<PaymentBucket>", into = "Vec<PaymentBucket>")]
pub struct Waterfall(Vec<PaymentBucket>);

/// The amounts owed when a payment is divided; negative amounts count as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outstanding {
    /// Unpaid fees.
    pub fees_due: Minor,
    /// Unpaid interest of periods that have ended.
    pub interest_past_due: Minor,
    /// Unpaid interest of the current period.
    pub interest_current: Minor,
    /// The principal of instalments that are due.
    pub principal_due: Minor,
    /// All principal.
    pub principal_balance: Minor,
    /// Escrow deposits that are due, or the lender's advance.
    pub escrow: Minor,
    /// The lender's escrow advance. The loan does not end before it is repaid.
    pub escrow_advance: Minor,
    /// The suspense that can be used on that day; negative if more was refunded than was held.
    pub suspense: Minor,
}

/// A payment's allocation request: `{"bucket":"principal"}`. Other keys belong to the caller and are ignored.
///
/// The bucket is filled first, up to everything owed in it (for `principal` the whole balance, due or not); the rest
/// is divided as without a hint. `future` holds the whole payment in suspense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AllocationHints {
    /// The bucket to fill first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<PaymentBucket>,
}

impl AllocationHints {
    /// Reads the hints of a payment that passed validation.
    pub(crate) fn from_stored(stored: &Map<String, Value>) -> Self {
        serde_json::from_value(Value::Object(stored.clone())).unwrap_or_default()
    }
}

/// A part of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The bucket that it pays.
    pub bucket: PaymentBucket,
    /// The amount, never zero. Negative only for `future`: money that was held and is used now.
    #[serde(rename = "amount_minor")]
    pub amount: Minor,
}

/// Divides `amount`. Each bucket occurs at most once, in the order in which they were first paid.
pub fn allocate(
    amount: Minor,
    policy: &ProductPolicy,
    outstanding: &Outstanding,
    hints: AllocationHints,
) -> Result<Vec<Allocation>, RuleError> {
    if !amount.is_positive() {
        return Err(RuleError::PaymentAmount(amount));
    }
    let mut division = Division::new(amount);
    division.fill(PaymentBucket::Future, outstanding.suspense.checked_neg()?)?;
    if let Some(bucket) = hints.bucket {
        let up_to = match bucket {
            // Due deposits must not take money that ends the loan: in that case only the advance is owed in escrow.
            PaymentBucket::Escrow if division.ends(outstanding)? => outstanding.escrow_advance,
            other => outstanding.all_of(other),
        };
        division.fill(bucket, up_to)?;
    }
    if hints.bucket != Some(PaymentBucket::Future) {
        division.draw(outstanding)?;
    }
    if division.covers_loan(outstanding)? {
        for bucket in policy.waterfall.buckets().iter().filter(|bucket| **bucket != PaymentBucket::Escrow) {
            division.fill(*bucket, outstanding.all_of(*bucket))?;
        }
    }
    for bucket in policy.waterfall.buckets() {
        division.fill(*bucket, outstanding.due_in(*bucket))?;
    }
    if policy.prepayment == Prepayment::ReducePrincipal {
        division.fill(PaymentBucket::Principal, outstanding.all_of(PaymentBucket::Principal))?;
    }
    division.finish()
}

/// Returns the division of a payment that is held as a whole.
pub fn hold(amount: Minor) -> Vec<Allocation> {
    vec![Allocation { bucket: PaymentBucket::Future, amount }]
}

/// Divides suspense among what is due, or among everything owed if it covers that. It makes no prepayments; the
/// unneeded rest is omitted and stays held. `outstanding` must not count suspense as received.
pub fn allocate_held(
    held: Minor,
    policy: &ProductPolicy,
    outstanding: &Outstanding,
) -> Result<Vec<Allocation>, RuleError> {
    if !held.is_positive() {
        return Ok(Vec::new());
    }
    let policy = ProductPolicy { prepayment: Prepayment::Hold, ..policy.clone() };
    let outstanding = Outstanding { suspense: Minor::ZERO, ..*outstanding };
    let mut parts = allocate(held, &policy, &outstanding, AllocationHints::default())?;
    parts.retain(|part| part.bucket != PaymentBucket::Future);
    Ok(parts)
}

impl Outstanding {
    fn due_in(&self, bucket: PaymentBucket) -> Minor {
        match bucket {
            PaymentBucket::FeesDue => self.fees_due,
            PaymentBucket::InterestPastDue => self.interest_past_due,
            PaymentBucket::InterestCurrent => self.interest_current,
            PaymentBucket::Principal => self.principal_due.min(self.principal_balance),
            PaymentBucket::Escrow => self.escrow,
            PaymentBucket::Future => Minor::ZERO,
        }
    }

    pub(super) fn all_of(&self, bucket: PaymentBucket) -> Minor {
        match bucket {
            PaymentBucket::Principal => self.principal_balance,
            PaymentBucket::Future => Minor::MAX,
            other => self.due_in(other),
        }
    }
}

impl PaymentBucket {
    pub(super) const PAYABLE: [Self; 5] =
        [Self::FeesDue, Self::InterestPastDue, Self::InterestCurrent, Self::Principal, Self::Escrow];

    /// The name in messages and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FeesDue => "fees_due",
            Self::InterestPastDue => "interest_past_due",
            Self::InterestCurrent => "interest_current",
            Self::Principal => "principal",
            Self::Escrow => "escrow",
            Self::Future => "future",
        }
    }
}

impl fmt::Display for PaymentBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Waterfall {
    /// Creates a waterfall, or returns the rule that the order breaks.
    pub fn new(mut buckets: Vec<PaymentBucket>) -> Result<Self, RuleError> {
        if buckets.last() == Some(&PaymentBucket::Future) {
            buckets.pop();
        }
        for (index, bucket) in buckets.iter().enumerate() {
            if *bucket == PaymentBucket::Future {
                return Err(RuleError::WaterfallFuture);
            }
            if buckets[..index].contains(bucket) {
                return Err(RuleError::WaterfallTwice(*bucket));
            }
        }
        match PaymentBucket::PAYABLE.into_iter().find(|bucket| !buckets.contains(bucket)) {
            Some(missing) => Err(RuleError::WaterfallMissing(missing)),
            None => Ok(Self(buckets)),
        }
    }

    /// Returns the order, without `future`.
    pub fn buckets(&self) -> &[PaymentBucket] {
        &self.0
    }
}

impl Default for Waterfall {
    fn default() -> Self {
        Self(PaymentBucket::PAYABLE.to_vec())
    }
}

impl TryFrom<Vec<PaymentBucket>> for Waterfall {
    type Error = RuleError;

    fn try_from(buckets: Vec<PaymentBucket>) -> Result<Self, RuleError> {
        Self::new(buckets)
    }
}

impl From<Waterfall> for Vec<PaymentBucket> {
    fn from(waterfall: Waterfall) -> Self {
        waterfall.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::product::tests::policy;
    use PaymentBucket::{Escrow, FeesDue, Future, InterestCurrent, InterestPastDue, Principal};

    const OWED: Outstanding = Outstanding {
        fees_due: Minor::new(10),
        interest_past_due: Minor::new(20),
        interest_current: Minor::new(5),
        principal_due: Minor::new(100),
        principal_balance: Minor::new(1000),
        escrow: Minor::new(30),
        escrow_advance: Minor::ZERO,
        suspense: Minor::ZERO,
    };

    fn check(amount: i64, prepayment: Prepayment, hint: Option<PaymentBucket>, expected: &[(PaymentBucket, i64)]) {
        let policy = ProductPolicy { prepayment, ..policy("7", 12) };
        let parts = allocate(Minor::new(amount), &policy, &OWED, AllocationHints { bucket: hint }).unwrap();
        let found: Vec<_> = parts.iter().map(|part| (part.bucket, part.amount.get())).collect();
        assert_eq!(found, expected, "{amount} {prepayment:?} {hint:?}");
    }

    #[test]
    fn what_is_due_is_paid_in_order_and_escrow_does_not_wait_for_all_principal() {
        check(7, Prepayment::Hold, None, &[(FeesDue, 7)]);
        check(33, Prepayment::Hold, None, &[(FeesDue, 10), (InterestPastDue, 20), (InterestCurrent, 3)]);
        let due = [(FeesDue, 10), (InterestPastDue, 20), (InterestCurrent, 5), (Principal, 100), (Escrow, 30)];
        check(165, Prepayment::Hold, None, &due);
        check(165, Prepayment::ReducePrincipal, None, &due);
    }

    #[test]
    fn the_remainder_reduces_the_principal_or_is_held() {
        let [fees, past, current, escrow] = [(FeesDue, 10), (InterestPastDue, 20), (InterestCurrent, 5), (Escrow, 30)];
        check(200, Prepayment::Hold, None, &[fees, past, current, (Principal, 100), escrow, (Future, 35)]);
        check(200, Prepayment::ReducePrincipal, None, &[fees, past, current, (Principal, 135), escrow]);
        let everything = [fees, past, current, (Principal, 1000), escrow, (Future, 35)];
        check(1100, Prepayment::ReducePrincipal, None, &everything);
    }

    #[test]
    fn a_sufficient_payment_ends_the_loan_before_it_pays_escrow() {
        let [fees, past, current] = [(FeesDue, 10), (InterestPastDue, 20), (InterestCurrent, 5)];
        for prepayment in [Prepayment::Hold, Prepayment::ReducePrincipal] {
            check(1035, prepayment, None, &[fees, past, current, (Principal, 1000)]);
            check(1040, prepayment, None, &[fees, past, current, (Principal, 1000), (Escrow, 5)]);
        }
        check(1034, Prepayment::ReducePrincipal, None, &[fees, past, current, (Principal, 969), (Escrow, 30)]);
        check(1035, Prepayment::Hold, Some(Principal), &[(Principal, 1000), fees, past, current]);
    }

    #[test]
    fn a_payment_and_suspense_together_end_the_loan() {
        let ended = [(FeesDue, 10), (InterestPastDue, 20), (InterestCurrent, 5), (Principal, 1000)];
        let parts = |amount: i64, owed: Outstanding, prepayment, hint| {
            let policy = ProductPolicy { prepayment, ..policy("7", 12) };
            let parts = allocate(Minor::new(amount), &policy, &owed, AllocationHints { bucket: hint }).unwrap();
            parts.iter().map(|part| (part.bucket, part.amount.get())).collect::<Vec<_>>()
        };
        let held = Outstanding { suspense: Minor::new(400), ..OWED };
        for prepayment in [Prepayment::Hold, Prepayment::ReducePrincipal] {
            let expected = [&ended[..], &[(Future, -400)]].concat();
            assert_eq!(parts(635, held, prepayment, None), expected);
            assert_eq!(parts(634, held, prepayment, None).last().unwrap().1.signum(), 1, "a cent is missing");
            assert_eq!(parts(1035, held, prepayment, None), ended, "no suspense is needed");
            assert_eq!(parts(700, held, prepayment, Some(Future)), [(Future, 700)], "the payment is to be held");
            let advanced = Outstanding { escrow_advance: Minor::new(30), ..held };
            let expected = [&ended[..], &[(Escrow, 30), (Future, -400)]].concat();
            assert_eq!(parts(665, advanced, prepayment, None), expected);
            let overdrawn = Outstanding { suspense: Minor::new(-50), ..OWED };
            assert_eq!(parts(1085, overdrawn, prepayment, None), [&[(Future, 50)], &ended[..]].concat());
        }
    }

    #[test]
    fn a_hinted_bucket_is_paid_first_up_to_what_is_owed_in_it() {
        check(150, Prepayment::Hold, Some(Principal), &[(Principal, 150)]);
        check(1015, Prepayment::Hold, Some(Principal), &[(Principal, 1000), (FeesDue, 10), (InterestPastDue, 5)]);
        check(35, Prepayment::Hold, Some(Escrow), &[(Escrow, 30), (FeesDue, 5)]);
        check(5000, Prepayment::ReducePrincipal, Some(Future), &[(Future, 5000)]);
    }

    #[test]
    fn a_hint_for_escrow_does_not_prevent_a_payment_from_ending_the_loan() {
        let ended = [(FeesDue, 10), (InterestPastDue, 20), (InterestCurrent, 5), (Principal, 1000)];
        for prepayment in [Prepayment::Hold, Prepayment::ReducePrincipal] {
            check(1035, prepayment, Some(Escrow), &ended);
            check(1040, prepayment, Some(Escrow), &[&ended[..], &[(Escrow, 5)]].concat());
        }
        let owed = Outstanding { escrow_advance: Minor::new(12), suspense: Minor::new(400), ..OWED };
        let parts =
            allocate(Minor::new(647), &policy("7", 12), &owed, AllocationHints { bucket: Some(Escrow) }).unwrap();
        let found: Vec<_> = parts.iter().map(|part| (part.bucket, part.amount.get())).collect();
        assert_eq!(found, [&[(Escrow, 12)], &ended[..], &[(Future, -400)]].concat());
        let short =
            allocate(Minor::new(646), &policy("7", 12), &owed, AllocationHints { bucket: Some(Escrow) }).unwrap();
        assert_eq!(
            (short[0].bucket, short[0].amount),
            (Escrow, Minor::new(30)),
            "the hint is followed: the loan does not end"
        );
    }

    #[test]
    fn the_order_of_the_product_is_followed() {
        let order = vec![Escrow, Principal, InterestCurrent, InterestPastDue, FeesDue, Future];
        let policy = ProductPolicy { waterfall: Waterfall::new(order).unwrap(), ..policy("7", 12) };
        let parts = allocate(Minor::new(131), &policy, &OWED, AllocationHints::default()).unwrap();
        let found: Vec<_> = parts.iter().map(|part| (part.bucket, part.amount.get())).collect();
        assert_eq!(found, [(Escrow, 30), (Principal, 100), (InterestCurrent, 1)]);
    }

    #[test]
    fn an_amount_that_is_not_positive_cannot_be_divided() {
        for amount in [Minor::ZERO, Minor::new(-1)] {
            let refused = allocate(amount, &policy("7", 12), &OWED, AllocationHints::default());
            assert_eq!(refused, Err(RuleError::PaymentAmount(amount)));
        }
    }

    #[test]
    fn an_order_that_omits_a_bucket_is_rejected() {
        assert_eq!(Waterfall::new(vec![FeesDue, Future, Escrow]), Err(RuleError::WaterfallFuture));
        assert_eq!(Waterfall::new(vec![FeesDue, FeesDue]), Err(RuleError::WaterfallTwice(FeesDue)));
        assert_eq!(Waterfall::new(vec![Principal]), Err(RuleError::WaterfallMissing(FeesDue)));
    }

    #[test]
    fn json_has_bucket_names_and_amounts_as_strings() {
        let part = Allocation { bucket: InterestPastDue, amount: Minor::new(12) };
        assert_eq!(serde_json::to_string(&part).unwrap(), r#"{"bucket":"interest_past_due","amount_minor":"12"}"#);
        for bucket in PaymentBucket::PAYABLE.into_iter().chain([Future]) {
            assert_eq!(serde_json::to_value(bucket).unwrap(), bucket.as_str());
        }
        let read = |json: &str| serde_json::from_str::<AllocationHints>(json);
        assert_eq!(read("{}").unwrap(), AllocationHints::default());
        assert_eq!(read(r#"{"bucket":"principal","note":1}"#).unwrap(), AllocationHints { bucket: Some(Principal) });
        assert!(read(r#"{"bucket":"unknown"}"#).unwrap_err().to_string().contains("fees_due"), "names the choices");
    }
}
