//! Late fees.
//!
//! One at most for an instalment, when its days of grace are over and it is not fully paid. Whether it
//! is due follows from the receipts alone, so it does not matter when one looks, and a backdated or
//! returned payment changes it. Fees are no instalments: none is charged on a fee.

use super::dues::{Receipt, received_by, unpaid};
use super::exact;
use super::rounding::RoundingMode;
use super::rule_error::RuleError;
use super::schedule::{Instalment, Schedule};
use jiff::Span;
use jiff::civil::Date;
use onceward_money::{Minor, MoneyError, Rate};
use serde::{Deserialize, Serialize};

/// A product's late fee; none, unless it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateFeePolicy {
    /// How many days after its due date an instalment may still be paid without a fee.
    pub grace_days: u32,
    /// What it costs.
    pub charge: LateCharge,
}

/// What a late instalment costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LateCharge {
    /// Nothing.
    #[default]
    None,
    /// Always the same.
    Flat {
        /// How much.
        amount_minor: Minor,
    },
    /// A share of the instalment, without its escrow and whatever is missing of it.
    Percent {
        /// Which share, above 0 and up to 1.
        of_instalment: Rate,
        /// Never more than this.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap_minor: Option<Minor>,
    },
}

/// A fee for an instalment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateFee {
    /// The instalment that is late.
    pub instalment: u32,
    /// The first day on which its grace is over.
    pub charged_on: Date,
    /// How much.
    #[serde(rename = "amount_minor")]
    pub amount: Minor,
}

/// What to do about late fees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LateFeeChanges {
    /// Fees to charge.
    pub charge: Vec<LateFee>,
    /// Instalments whose fee was charged and is not due any more, because a payment was backdated.
    pub withdraw: Vec<u32>,
}

impl LateFeePolicy {
    /// All late fees that are due by `day`.
    pub fn due_by(&self, day: Date, schedule: &Schedule, receipts: &[Receipt]) -> Result<Vec<LateFee>, RuleError> {
        let mut fees = Vec::new();
        for (index, row) in schedule.due_by(day).iter().enumerate() {
            let last_day = row.due_date.saturating_add(Span::new().days(self.grace_days));
            if day <= last_day {
                break;
            }
            let lacks = unpaid(&schedule.rows[..=index], received_by(receipts, last_day)?)?;
            let amount = self.amount(row)?;
            if amount.is_positive() && lacks.iter().any(|instalment| instalment.number == row.number) {
                let charged_on = last_day.saturating_add(Span::new().days(1));
                fees.push(LateFee { instalment: row.number, charged_on, amount });
            }
        }
        Ok(fees)
    }

    /// What must change on `day`, if the instalments of `charged` have had their fee already.
    pub fn changes(
        &self,
        day: Date,
        schedule: &Schedule,
        receipts: &[Receipt],
        charged: &[u32],
    ) -> Result<LateFeeChanges, RuleError> {
        let mut charge = self.due_by(day, schedule, receipts)?;
        let due: Vec<u32> = charge.iter().map(|fee| fee.instalment).collect();
        charge.retain(|fee| !charged.contains(&fee.instalment));
        let withdraw = charged.iter().copied().filter(|number| !due.contains(number)).collect();
        Ok(LateFeeChanges { charge, withdraw })
    }

    fn amount(&self, row: &Instalment) -> Result<Minor, MoneyError> {
        match self.charge {
            LateCharge::None => Ok(Minor::ZERO),
            LateCharge::Flat { amount_minor } => Ok(amount_minor),
            LateCharge::Percent { of_instalment, cap_minor } => {
                // A share between two cents is the borrower's.
                let share = RoundingMode::Down.minor(&(exact::amount(row.payment) * exact::rate(of_instalment)))?;
                Ok(cap_minor.map_or(share, |cap| share.min(cap)))
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), RuleError> {
        if self.grace_days > 365 {
            return Err(RuleError::Grace(self.grace_days));
        }
        let sound = match self.charge {
            LateCharge::None => true,
            LateCharge::Flat { amount_minor } => amount_minor.is_positive(),
            LateCharge::Percent { of_instalment, cap_minor } => {
                let share = of_instalment.fraction();
                !share.is_zero() && share <= 1.into() && cap_minor.is_none_or(Minor::is_positive)
            }
        };
        if sound { Ok(()) } else { Err(RuleError::LateFee) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::dues::tests::loan;
    use jiff::civil::date;

    const FLAT: LateCharge = LateCharge::Flat { amount_minor: Minor::new(2500) };

    fn fees(charge: LateCharge, day: Date, receipts: &[(Date, i64)]) -> Vec<(u32, Date, i64)> {
        let (_, _, schedule) = loan();
        let receipts: Vec<_> =
            receipts.iter().map(|(on, amount)| Receipt { on: *on, amount: (*amount).into() }).collect();
        let found = LateFeePolicy { grace_days: 15, charge }.due_by(day, &schedule, &receipts).unwrap();
        found.iter().map(|fee| (fee.instalment, fee.charged_on, fee.amount.get())).collect()
    }

    fn share(of_instalment: &str, cap: Option<i64>) -> LateCharge {
        LateCharge::Percent { of_instalment: of_instalment.parse().unwrap(), cap_minor: cap.map(Minor::new) }
    }

    #[test]
    fn a_fee_is_due_on_the_day_after_grace() {
        assert_eq!(fees(FLAT, date(2024, 2, 16), &[]), []);
        assert_eq!(fees(FLAT, date(2024, 2, 17), &[]), [(1, date(2024, 2, 17), 2500)]);
    }

    #[test]
    fn the_last_day_of_grace_is_in_time_and_a_cent_less_is_not_enough() {
        assert_eq!(fees(FLAT, date(2024, 2, 20), &[(date(2024, 2, 16), 10_662)]), []);
        assert_eq!(fees(FLAT, date(2024, 2, 20), &[(date(2024, 2, 17), 10_662)]).len(), 1);
        assert_eq!(fees(FLAT, date(2024, 2, 20), &[(date(2024, 2, 16), 10_661)]).len(), 1);
    }

    #[test]
    fn an_instalment_has_one_fee_however_late_one_looks() {
        let found = fees(FLAT, date(2024, 3, 16), &[]);
        assert_eq!(found, [(1, date(2024, 2, 17), 2500)]);
        let numbers: Vec<u32> = fees(FLAT, date(2024, 4, 30), &[]).iter().map(|fee| fee.0).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn an_unpaid_fee_makes_no_later_instalment_late() {
        // The first instalment came late, the second in time; 25.00 of it went to the fee for the first.
        let receipts = [(date(2024, 2, 20), 10_662), (date(2024, 3, 1), 10_662)];
        assert_eq!(fees(FLAT, date(2024, 3, 30), &receipts), [(1, date(2024, 2, 17), 2500)]);
    }

    #[test]
    fn a_share_has_a_cap() {
        let late = date(2024, 2, 17);
        assert_eq!(fees(share("0.05", None), late, &[]), [(1, late, 533)], "5 % of 106.62, without escrow");
        assert_eq!(fees(share("0.05", Some(500)), late, &[]), [(1, late, 500)]);
        assert_eq!(fees(LateCharge::None, late, &[]), []);
        assert_eq!(fees(share("0.00001", None), late, &[]), [], "nothing is no fee");
    }

    #[test]
    fn fees_are_charged_once_and_withdrawn_when_a_payment_was_in_time_after_all() {
        let (_, _, schedule) = loan();
        let policy = LateFeePolicy { grace_days: 15, charge: FLAT };
        let in_time = [Receipt { on: date(2024, 2, 10), amount: Minor::new(10_662) }];
        let late = date(2024, 2, 17);
        let changes =
            |receipts: &[Receipt], charged: &[u32]| policy.changes(late, &schedule, receipts, charged).unwrap();
        assert_eq!(changes(&[], &[]).charge.len(), 1);
        assert_eq!(changes(&[], &[1]), LateFeeChanges::default());
        assert_eq!(changes(&in_time, &[1]), LateFeeChanges { charge: vec![], withdraw: vec![1] });
    }
}
