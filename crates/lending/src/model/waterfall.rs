//! How a payment is divided.
//!
//! In turns: the bucket that the payment's hint names; what is due, in the product's order; the
//! principal, if the product takes prepayments; and the rest to `future`, which is held in suspense.
//! Money that is enough to end the loan ends it: escrow then comes last.
//!
//! Invariant: the allocations add up to the payment, and no bucket but `future` gets more than is
//! owed in it.

use super::product::{Prepayment, ProductPolicy};
use super::rule_error::RuleError;
use onceward_money::Minor;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a payment can pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    /// Fees that were charged.
    FeesDue,
    /// Interest of periods that have ended.
    InterestPastDue,
    /// Interest of the period that runs.
    InterestCurrent,
    /// The loan itself.
    Principal,
    /// Deposits for taxes and insurance.
    Escrow,
    /// Nothing yet: held in suspense.
    Future,
}

/// What is paid first when several things are due: each bucket once, `future` always last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Bucket>", into = "Vec<Bucket>")]
pub struct Waterfall(Vec<Bucket>);

/// What is owed when a payment is divided; what is below zero counts as nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outstanding {
    /// Unpaid fees.
    pub fees_due: Minor,
    /// Unpaid interest of periods that have ended.
    pub interest_past_due: Minor,
    /// Unpaid interest of the period that runs.
    pub interest_current: Minor,
    /// The principal of instalments that are due.
    pub principal_due: Minor,
    /// All principal.
    pub principal_balance: Minor,
    /// Escrow deposits that are due, or what the lender advanced.
    pub escrow: Minor,
}

/// What a payment asks for: `{"bucket":"principal"}`. Other keys are not ours and are left alone.
///
/// The bucket is filled first, up to all that is owed in it (for `principal` the whole balance, due or
/// not); what is left goes on as without a hint. `future` holds the whole payment in suspense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hints {
    /// The bucket to fill first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
}

/// A part of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// What it pays.
    pub bucket: Bucket,
    /// How much, never zero.
    #[serde(rename = "amount_minor")]
    pub amount: Minor,
}

/// Divides `amount`. Each bucket comes at most once, in the order in which they were first paid.
pub fn allocate(
    amount: Minor,
    policy: &ProductPolicy,
    outstanding: &Outstanding,
    hints: Hints,
) -> Result<Vec<Allocation>, RuleError> {
    if !amount.is_positive() {
        return Err(RuleError::PaymentAmount(amount));
    }
    let mut division = Division { left: amount, parts: Vec::new() };
    if let Some(bucket) = hints.bucket {
        division.fill(bucket, outstanding.all_of(bucket))?;
    }
    if division.left >= division.missing(outstanding)? {
        for bucket in policy.waterfall.buckets().iter().filter(|bucket| **bucket != Bucket::Escrow) {
            division.fill(*bucket, outstanding.all_of(*bucket))?;
        }
    }
    for bucket in policy.waterfall.buckets() {
        division.fill(*bucket, outstanding.due_in(*bucket))?;
    }
    if policy.prepayment == Prepayment::ReducePrincipal {
        division.fill(Bucket::Principal, outstanding.all_of(Bucket::Principal))?;
    }
    division.fill(Bucket::Future, Minor::MAX)?;
    Ok(division.parts)
}

struct Division {
    left: Minor,
    parts: Vec<Allocation>,
}

impl Division {
    /// What is still owed of the loan itself: all but escrow.
    fn missing(&self, outstanding: &Outstanding) -> Result<Minor, RuleError> {
        let owed = Bucket::PAYABLE.into_iter().filter(|bucket| *bucket != Bucket::Escrow);
        let missing = owed.map(|bucket| {
            let had = self.parts.iter().find(|part| part.bucket == bucket).map_or(Minor::ZERO, |part| part.amount);
            outstanding.all_of(bucket).max(Minor::ZERO).checked_sub(had)
        });
        Ok(Minor::sum(missing.collect::<Result<Vec<_>, _>>()?)?)
    }

    /// Gives `bucket` what is left, until it has `up_to` in all.
    fn fill(&mut self, bucket: Bucket, up_to: Minor) -> Result<(), RuleError> {
        let had = self.parts.iter_mut().find(|part| part.bucket == bucket);
        let missing = up_to.checked_sub(had.as_ref().map_or(Minor::ZERO, |part| part.amount))?;
        let amount = self.left.min(missing);
        if !amount.is_positive() {
            return Ok(());
        }
        self.left = self.left.checked_sub(amount)?;
        match had {
            Some(part) => part.amount = part.amount.checked_add(amount)?,
            None => self.parts.push(Allocation { bucket, amount }),
        }
        Ok(())
    }
}

impl Outstanding {
    fn due_in(&self, bucket: Bucket) -> Minor {
        match bucket {
            Bucket::FeesDue => self.fees_due,
            Bucket::InterestPastDue => self.interest_past_due,
            Bucket::InterestCurrent => self.interest_current,
            Bucket::Principal => self.principal_due.min(self.principal_balance),
            Bucket::Escrow => self.escrow,
            Bucket::Future => Minor::ZERO,
        }
    }

    fn all_of(&self, bucket: Bucket) -> Minor {
        match bucket {
            Bucket::Principal => self.principal_balance,
            Bucket::Future => Minor::MAX,
            other => self.due_in(other),
        }
    }
}

impl Bucket {
    const PAYABLE: [Self; 5] =
        [Self::FeesDue, Self::InterestPastDue, Self::InterestCurrent, Self::Principal, Self::Escrow];

    /// Its name in messages and in the database.
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

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Waterfall {
    /// Checks the order and keeps it.
    pub fn new(mut buckets: Vec<Bucket>) -> Result<Self, RuleError> {
        if buckets.last() == Some(&Bucket::Future) {
            buckets.pop();
        }
        for (index, bucket) in buckets.iter().enumerate() {
            if *bucket == Bucket::Future {
                return Err(RuleError::WaterfallFuture);
            }
            if buckets[..index].contains(bucket) {
                return Err(RuleError::WaterfallTwice(*bucket));
            }
        }
        match Bucket::PAYABLE.into_iter().find(|bucket| !buckets.contains(bucket)) {
            Some(missing) => Err(RuleError::WaterfallMissing(missing)),
            None => Ok(Self(buckets)),
        }
    }

    /// The order, without `future`.
    pub fn buckets(&self) -> &[Bucket] {
        &self.0
    }
}

impl Default for Waterfall {
    fn default() -> Self {
        Self(Bucket::PAYABLE.to_vec())
    }
}

impl TryFrom<Vec<Bucket>> for Waterfall {
    type Error = RuleError;

    fn try_from(buckets: Vec<Bucket>) -> Result<Self, RuleError> {
        Self::new(buckets)
    }
}

impl From<Waterfall> for Vec<Bucket> {
    fn from(waterfall: Waterfall) -> Self {
        waterfall.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::product::tests::policy;
    use Bucket::{Escrow, FeesDue, Future, InterestCurrent, InterestPastDue, Principal};

    const OWED: Outstanding = Outstanding {
        fees_due: Minor::new(10),
        interest_past_due: Minor::new(20),
        interest_current: Minor::new(5),
        principal_due: Minor::new(100),
        principal_balance: Minor::new(1000),
        escrow: Minor::new(30),
    };

    fn check(amount: i64, prepayment: Prepayment, hint: Option<Bucket>, expected: &[(Bucket, i64)]) {
        let policy = ProductPolicy { prepayment, ..policy("7", 12) };
        let parts = allocate(Minor::new(amount), &policy, &OWED, Hints { bucket: hint }).unwrap();
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
    fn what_is_left_lowers_the_principal_or_waits() {
        let [fees, past, current, escrow] = [(FeesDue, 10), (InterestPastDue, 20), (InterestCurrent, 5), (Escrow, 30)];
        check(200, Prepayment::Hold, None, &[fees, past, current, (Principal, 100), escrow, (Future, 35)]);
        check(200, Prepayment::ReducePrincipal, None, &[fees, past, current, (Principal, 135), escrow]);
        let everything = [fees, past, current, (Principal, 1000), escrow, (Future, 35)];
        check(1100, Prepayment::ReducePrincipal, None, &everything);
    }

    #[test]
    fn money_that_is_enough_ends_the_loan_before_escrow_is_filled() {
        let [fees, past, current] = [(FeesDue, 10), (InterestPastDue, 20), (InterestCurrent, 5)];
        for prepayment in [Prepayment::Hold, Prepayment::ReducePrincipal] {
            check(1035, prepayment, None, &[fees, past, current, (Principal, 1000)]);
            check(1040, prepayment, None, &[fees, past, current, (Principal, 1000), (Escrow, 5)]);
        }
        check(1034, Prepayment::ReducePrincipal, None, &[fees, past, current, (Principal, 969), (Escrow, 30)]);
        check(1035, Prepayment::Hold, Some(Principal), &[(Principal, 1000), fees, past, current]);
    }

    #[test]
    fn a_hint_is_served_first_and_no_further_than_it_is_owed() {
        check(150, Prepayment::Hold, Some(Principal), &[(Principal, 150)]);
        check(1015, Prepayment::Hold, Some(Principal), &[(Principal, 1000), (FeesDue, 10), (InterestPastDue, 5)]);
        check(35, Prepayment::Hold, Some(Escrow), &[(Escrow, 30), (FeesDue, 5)]);
        check(5000, Prepayment::ReducePrincipal, Some(Future), &[(Future, 5000)]);
    }

    #[test]
    fn the_products_order_holds() {
        let order = vec![Escrow, Principal, InterestCurrent, InterestPastDue, FeesDue, Future];
        let policy = ProductPolicy { waterfall: Waterfall::new(order).unwrap(), ..policy("7", 12) };
        let parts = allocate(Minor::new(131), &policy, &OWED, Hints::default()).unwrap();
        let found: Vec<_> = parts.iter().map(|part| (part.bucket, part.amount.get())).collect();
        assert_eq!(found, [(Escrow, 30), (Principal, 100), (InterestCurrent, 1)]);
    }

    #[test]
    fn nothing_and_less_cannot_be_divided() {
        for amount in [Minor::ZERO, Minor::new(-1)] {
            let refused = allocate(amount, &policy("7", 12), &OWED, Hints::default());
            assert_eq!(refused, Err(RuleError::PaymentAmount(amount)));
        }
    }

    #[test]
    fn orders_that_lose_a_bucket_are_refused() {
        assert_eq!(Waterfall::new(vec![FeesDue, Future, Escrow]), Err(RuleError::WaterfallFuture));
        assert_eq!(Waterfall::new(vec![FeesDue, FeesDue]), Err(RuleError::WaterfallTwice(FeesDue)));
        assert_eq!(Waterfall::new(vec![Principal]), Err(RuleError::WaterfallMissing(FeesDue)));
    }

    #[test]
    fn messages_carry_names_and_strings_of_digits() {
        let part = Allocation { bucket: InterestPastDue, amount: Minor::new(12) };
        assert_eq!(serde_json::to_string(&part).unwrap(), r#"{"bucket":"interest_past_due","amount_minor":"12"}"#);
        for bucket in Bucket::PAYABLE.into_iter().chain([Future]) {
            assert_eq!(serde_json::to_value(bucket).unwrap(), bucket.as_str());
        }
        let read = |json: &str| serde_json::from_str::<Hints>(json);
        assert_eq!(read("{}").unwrap(), Hints::default());
        assert_eq!(read(r#"{"bucket":"principal","note":1}"#).unwrap(), Hints { bucket: Some(Principal) });
        assert!(read(r#"{"bucket":"beer"}"#).unwrap_err().to_string().contains("fees_due"), "names the choices");
    }
}
