//! Late fees.
//!
//! At most one is charged per instalment, when its days of grace are over and it is not fully paid. The loan's status
//! must charge late fees both on the due date and on the day after grace: an instalment that fell due during a stay
//! was never late through the borrower's fault, and no fee may be charged during a stay. A stay that begins after the
//! due date and ends within the days of grace changes nothing. Whether a fee is due follows from the receipts and the
//! status history alone, so the time of the check does not matter, and a backdated or returned payment or a backdated
//! change of status changes the result. Fees are not instalments: no fee is charged on a fee.

use super::dues::{Receipt, received_by, unpaid};
use super::exact;
use super::rounding::RoundingMode;
use super::rule_error::RuleError;
use super::schedule::{Instalment, RepaymentSchedule};
use super::status_history::StatusHistory;
use jiff::Span;
use jiff::civil::Date;
use onceward_money::{Minor, MoneyError, Rate};
use serde::{Deserialize, Serialize};

/// A product's late fee policy; no fee by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateFeePolicy {
    /// The number of days after its due date within which an instalment may still be paid without a fee.
    pub grace_days: u32,
    /// The charge per late instalment.
    pub charge: LateCharge,
}

/// The charge for a late instalment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LateCharge {
    /// No charge.
    #[default]
    None,
    /// A fixed amount.
    Flat {
        /// The amount.
        amount_minor: Minor,
    },
    /// A share of the full instalment, without escrow, however much of it is unpaid.
    Percent {
        /// The share, above 0 and up to 1.
        of_instalment: Rate,
        /// The maximum fee.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap_minor: Option<Minor>,
    },
}

/// A fee for an instalment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateFee {
    /// The instalment that is late.
    pub instalment: u32,
    /// The first day after the grace period.
    pub charged_on: Date,
    /// The amount of the fee.
    #[serde(rename = "amount_minor")]
    pub amount: Minor,
}

/// The late fees to charge and to withdraw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LateFeeChanges {
    /// Fees to charge.
    pub charge: Vec<LateFee>,
    /// Instalments whose fee was charged and is no longer due, because a payment or a status was backdated.
    pub withdraw: Vec<u32>,
}

impl LateFeePolicy {
    /// Returns all late fees that are due by `day`. No fee is due for an instalment that fell due, or whose fee would
    /// be charged, on a day on which the loan's status charges none.
    pub fn due_by(
        &self,
        day: Date,
        schedule: &RepaymentSchedule,
        receipts: &[Receipt],
        statuses: &StatusHistory,
    ) -> Result<Vec<LateFee>, RuleError> {
        let mut fees = Vec::new();
        for (index, row) in schedule.due_by(day).iter().enumerate() {
            let last_day = row.due_date.saturating_add(Span::new().days(self.grace_days));
            if day <= last_day {
                break;
            }
            let charged_on = last_day.saturating_add(Span::new().days(1));
            if [row.due_date, charged_on].iter().any(|day| !statuses.on(*day).charges_late_fees()) {
                continue;
            }
            let missing = unpaid(&schedule.rows[..=index], received_by(receipts, last_day)?)?;
            let amount = self.amount(row)?;
            if amount.is_positive() && missing.iter().any(|instalment| instalment.number == row.number) {
                fees.push(LateFee { instalment: row.number, charged_on, amount });
            }
        }
        Ok(fees)
    }

    /// Returns the changes needed on `day` if the instalments in `charged` already have their fee.
    pub fn changes(
        &self,
        day: Date,
        schedule: &RepaymentSchedule,
        receipts: &[Receipt],
        statuses: &StatusHistory,
        charged: &[u32],
    ) -> Result<LateFeeChanges, RuleError> {
        let mut charge = self.due_by(day, schedule, receipts, statuses)?;
        let due: Vec<u32> = charge.iter().map(|fee| fee.instalment).collect();
        charge.retain(|fee| !charged.contains(&fee.instalment));
        let withdraw = charged.iter().copied().filter(|number| !due.contains(number)).collect();
        Ok(LateFeeChanges { charge, withdraw })
    }

    /// Returns by how much `changes` raise the fees owed; negative if more is withdrawn than charged.
    pub(crate) fn net(&self, changes: &LateFeeChanges, schedule: &RepaymentSchedule) -> Result<Minor, RuleError> {
        let withdrawn = schedule.rows.iter().filter(|row| changes.withdraw.contains(&row.number));
        let withdrawn = withdrawn.map(|row| self.amount(row)).collect::<Result<Vec<_>, _>>()?;
        let charged = Minor::sum(changes.charge.iter().map(|fee| fee.amount))?;
        Ok(charged.checked_sub(Minor::sum(withdrawn)?)?)
    }

    fn amount(&self, row: &Instalment) -> Result<Minor, MoneyError> {
        match self.charge {
            LateCharge::None => Ok(Minor::ZERO),
            LateCharge::Flat { amount_minor } => Ok(amount_minor),
            LateCharge::Percent { of_instalment, cap_minor } => {
                // A fraction of a cent is rounded in the borrower's favour.
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
    use crate::model::LoanStatus;
    use crate::model::dues::tests::loan;
    use jiff::civil::date;

    const FLAT: LateCharge = LateCharge::Flat { amount_minor: Minor::new(2500) };

    fn fees(charge: LateCharge, day: Date, receipts: &[(Date, i64)]) -> Vec<(u32, Date, i64)> {
        fees_in(charge, day, receipts, &StatusHistory::always(LoanStatus::Active))
    }

    fn fees_in(
        charge: LateCharge,
        day: Date,
        receipts: &[(Date, i64)],
        statuses: &StatusHistory,
    ) -> Vec<(u32, Date, i64)> {
        let (_, _, schedule) = loan();
        let receipts: Vec<_> =
            receipts.iter().map(|(on, amount)| Receipt { on: *on, amount: (*amount).into() }).collect();
        let found = LateFeePolicy { grace_days: 15, charge }.due_by(day, &schedule, &receipts, statuses).unwrap();
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
    fn an_instalment_has_one_fee_however_late_it_is_checked() {
        let found = fees(FLAT, date(2024, 3, 16), &[]);
        assert_eq!(found, [(1, date(2024, 2, 17), 2500)]);
        let numbers: Vec<u32> = fees(FLAT, date(2024, 4, 30), &[]).iter().map(|fee| fee.0).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn an_unpaid_fee_does_not_make_a_later_instalment_late() {
        // The first instalment was paid late, the second in time; 25.00 of it paid the fee for the first.
        let receipts = [(date(2024, 2, 20), 10_662), (date(2024, 3, 1), 10_662)];
        assert_eq!(fees(FLAT, date(2024, 3, 30), &receipts), [(1, date(2024, 2, 17), 2500)]);
    }

    #[test]
    fn a_percentage_fee_has_a_cap() {
        let late = date(2024, 2, 17);
        assert_eq!(fees(share("0.05", None), late, &[]), [(1, late, 533)], "5 % of 106.62, without escrow");
        assert_eq!(fees(share("0.05", Some(500)), late, &[]), [(1, late, 500)]);
        assert_eq!(fees(LateCharge::None, late, &[]), []);
        assert_eq!(fees(share("0.00001", None), late, &[]), [], "nothing is no fee");
    }

    #[test]
    fn a_fee_is_charged_once_and_withdrawn_if_a_payment_was_in_time() {
        let (_, _, schedule) = loan();
        let policy = LateFeePolicy { grace_days: 15, charge: FLAT };
        let in_time = [Receipt { on: date(2024, 2, 10), amount: Minor::new(10_662) }];
        let late = date(2024, 2, 17);
        let active = StatusHistory::always(LoanStatus::Active);
        let changes = |receipts: &[Receipt], charged: &[u32]| {
            policy.changes(late, &schedule, receipts, &active, charged).unwrap()
        };
        assert_eq!(changes(&[], &[]).charge.len(), 1);
        assert_eq!(changes(&[], &[1]), LateFeeChanges::default());
        assert_eq!(changes(&in_time, &[1]), LateFeeChanges { charge: vec![], withdraw: vec![1] });
    }

    #[test]
    fn a_fee_whose_day_is_in_a_stay_is_never_due() {
        let statuses = [
            (date(2024, 1, 1), LoanStatus::Active),
            (date(2024, 3, 17), LoanStatus::Bankruptcy),
            (date(2024, 5, 17), LoanStatus::Active),
        ];
        let found = fees_in(FLAT, date(2024, 6, 30), &[], &StatusHistory::new(statuses));
        let numbers: Vec<u32> = found.iter().map(|fee| fee.0).collect();
        assert_eq!(numbers, [1, 5], "the fee days of 2 and 3 are in the stay, and so is the due date of 4");
    }

    #[test]
    fn a_stay_counts_on_the_due_date_and_on_the_day_after_grace() {
        use LoanStatus::{Active, Bankruptcy};
        let feb = |day| date(2024, 2, day);
        for (from, to, due) in [(1, 2, false), (2, 17, true), (2, 18, false), (17, 18, false), (18, 29, true)] {
            let statuses = StatusHistory::new([(date(2024, 1, 1), Active), (feb(from), Bankruptcy), (feb(to), Active)]);
            let found = fees_in(FLAT, feb(29), &[], &statuses);
            assert_eq!(!found.is_empty(), due, "a stay from {from} to {to} February");
        }
    }
}
