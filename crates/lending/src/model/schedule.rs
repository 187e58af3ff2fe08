//! The amortisation schedule: what borrower and lender agreed on.
//!
//! The instalment is rounded once, interest once per period, and the last instalment takes what is
//! left. How far that one is from the others is bounded: each rounding moves the balance by at most
//! one unit, and grows with interest until the end (cents for usual terms; at 100 % over 40 years the
//! instalments pay hardly more than interest, and the last one pays nearly everything:
//! [`Schedule::residue`] says it). A schedule ends early if instalments that were rounded up repay it
//! before its term.

use super::calendar::{Calendar, Period};
use super::exact::{self, Exact};
use super::level_payment::level_payment;
use super::product::ProductPolicy;
use super::rule_error::RuleError;
use jiff::civil::Date;
use onceward_money::{Minor, MoneyError};
use serde::{Deserialize, Serialize};

/// All instalments of a loan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The regular instalment; the last row's payment may differ.
    #[serde(rename = "instalment_minor")]
    pub instalment: Minor,
    /// In the order in which they are due; at least one.
    pub rows: Vec<Instalment>,
}

/// One instalment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instalment {
    /// 1 for the first.
    pub number: u32,
    /// When it must have been paid.
    pub due_date: Date,
    /// Interest and principal together, without escrow.
    #[serde(rename = "payment_minor")]
    pub payment: Minor,
    /// The part that is interest.
    #[serde(rename = "interest_minor")]
    pub interest: Minor,
    /// The part that repays.
    #[serde(rename = "principal_minor")]
    pub principal: Minor,
    /// What comes on top for taxes and insurance.
    #[serde(rename = "escrow_minor")]
    pub escrow: Minor,
    /// The principal that is left.
    #[serde(rename = "balance_after_minor")]
    pub balance_after: Minor,
}

/// The schedule of a loan of `principal`, or what is wrong with its terms.
pub fn amortise(principal: Minor, policy: &ProductPolicy, calendar: &Calendar) -> Result<Schedule, RuleError> {
    policy.check()?;
    if !principal.is_positive() {
        return Err(RuleError::Principal(principal));
    }
    let periods: Vec<Period> = (1..=policy.term_months).map(|number| calendar.period(number)).collect();
    let whole = |period: &Period| policy.rate_of(policy.day_count.elapsed(period, period.end));
    let rates: Vec<Exact> = periods.iter().map(whole).collect();
    let instalment = policy.rounding.instalment(&level_payment(principal, &rates))?;
    if instalment.is_zero() {
        return Err(RuleError::InstalmentRoundsToNothing { unit: policy.rounding.unit_minor });
    }

    let mut rows = Vec::with_capacity(periods.len());
    let mut balance = principal;
    for (period, rate) in periods.iter().zip(&rates) {
        let interest = policy.rounding.interest(&(exact::amount(balance) * rate))?;
        let is_last = period.number == policy.term_months;
        let repaid = if is_last { balance } else { instalment.checked_sub(interest)?.min(balance) };
        if repaid.is_negative() {
            return Err(RuleError::NegativeAmortisation { instalment, interest, number: period.number });
        }
        balance = balance.checked_sub(repaid)?;
        rows.push(Instalment {
            number: period.number,
            due_date: period.end,
            payment: repaid.checked_add(interest)?,
            interest,
            principal: repaid,
            escrow: policy.escrow.monthly_minor,
            balance_after: balance,
        });
        if balance.is_zero() {
            break;
        }
    }
    Ok(Schedule { instalment, rows })
}

impl Schedule {
    /// The instalments that are due on `day` or before.
    pub fn due_by(&self, day: Date) -> &[Instalment] {
        &self.rows[..self.rows.partition_point(|row| row.due_date <= day)]
    }

    /// When the last instalment is due.
    pub fn maturity(&self) -> Option<Date> {
        self.rows.last().map(|row| row.due_date)
    }

    /// By how much the last payment is more (or, negative, less) than the regular instalment.
    pub fn residue(&self) -> Result<Minor, MoneyError> {
        let last = self.rows.last().map_or(self.instalment, |row| row.payment);
        last.checked_sub(self.instalment)
    }

    /// All interest, if every instalment is paid on its day.
    pub fn total_interest(&self) -> Result<Minor, MoneyError> {
        Minor::sum(self.rows.iter().map(|row| row.interest))
    }
}

impl Instalment {
    /// What the borrower is asked for: payment and escrow.
    pub fn total(&self) -> Result<Minor, MoneyError> {
        self.payment.checked_add(self.escrow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::product::tests::policy;
    use crate::model::{DayCount, RoundingMode};
    use jiff::civil::date;

    fn plan(principal: i64, policy: &ProductPolicy) -> Result<Schedule, RuleError> {
        amortise(Minor::new(principal), policy, &Calendar::monthly(date(2024, 1, 1)).unwrap())
    }

    fn payments(schedule: &Schedule) -> Vec<i64> {
        schedule.rows.iter().map(|row| row.payment.get()).collect()
    }

    fn interests(schedule: &Schedule) -> Vec<i64> {
        schedule.rows.iter().map(|row| row.interest.get()).collect()
    }

    #[test]
    fn two_hundred_thousand_at_seven_and_a_half_over_fifteen_years() {
        let schedule = plan(20_000_000, &policy("7.5", 180)).unwrap();
        assert_eq!(schedule.instalment, Minor::new(185_402));
        assert_eq!(schedule.rows.len(), 180);
        assert_eq!(schedule.rows[0].interest, Minor::new(125_000));
        assert_eq!(schedule.rows[179].balance_after, Minor::ZERO);
        assert!(schedule.residue().unwrap().get().abs() < 400, "{:?}", schedule.residue());
    }

    #[test]
    fn a_hundred_and_sixty_two_thousand_over_thirty_years() {
        let schedule = plan(16_200_000, &policy("3.875", 360)).unwrap();
        assert_eq!(schedule.instalment, Minor::new(76_178));
        assert_eq!(schedule.rows.len(), 360);
    }

    #[test]
    fn a_hundred_at_seven_per_cent_over_six_months() {
        let schedule = plan(10_000, &policy("7", 6)).unwrap();
        assert_eq!(payments(&schedule), [1701, 1701, 1701, 1701, 1701, 1700]);
        assert_eq!(schedule.total_interest(), Ok(Minor::new(205)));
        assert_eq!(schedule.maturity(), Some(date(2024, 7, 1)));
    }

    #[test]
    fn a_hundred_at_an_odd_rate_over_six_months() {
        let schedule = plan(10_000, &policy("9.4822", 6)).unwrap();
        assert_eq!(schedule.instalment, Minor::new(1713));
        assert_eq!(interests(&schedule), [79, 66, 53, 40, 27, 13]);
    }

    #[test]
    fn a_thousand_without_interest_in_whole_units() {
        let mut whole = policy("0", 6);
        whole.rounding.unit_minor = Minor::new(100);
        let schedule = plan(100_000, &whole).unwrap();
        assert_eq!(payments(&schedule), [16_700, 16_700, 16_700, 16_700, 16_700, 16_500]);
        whole.rounding.unit_minor = Minor::new(1);
        assert_eq!(payments(&plan(1000, &whole).unwrap()), [167, 167, 167, 167, 167, 165], "a currency without cents");
    }

    #[test]
    fn counted_days_make_months_differ_but_not_the_instalment() {
        let actual = ProductPolicy { day_count: DayCount::Act360, ..policy("7.5", 360) };
        let schedule = plan(20_000_000, &actual).unwrap();
        // 31 days of January, 29 of February: 200,000 × 7.5 % × 31/360, and the next on less principal.
        assert_eq!(schedule.rows[0].interest, Minor::new(129_167));
        assert!(schedule.rows[1].interest < Minor::new(121_000));
        assert!(schedule.residue().unwrap().get().abs() < 2_000, "{:?}", schedule.residue());
    }

    #[test]
    fn month_ends_cost_the_same_under_thirty_360() {
        let calendar = Calendar::monthly(date(2023, 1, 31)).unwrap();
        let schedule = amortise(Minor::new(10_000), &policy("7", 6), &calendar).unwrap();
        assert_eq!(payments(&schedule), [1701, 1701, 1701, 1701, 1701, 1700]);
        assert_eq!(schedule.rows[1].due_date, date(2023, 3, 31));
    }

    #[test]
    fn a_first_period_that_is_longer_costs_its_days() {
        let calendar = Calendar::new(date(2024, 1, 10), date(2024, 3, 1)).unwrap();
        let schedule = amortise(Minor::new(1_000_000), &policy("12", 12), &calendar).unwrap();
        assert_eq!(schedule.rows[0].interest, Minor::new(17_000), "51 days of 30/360");
        assert!(schedule.residue().unwrap().get().abs() < 20, "{:?}", schedule.residue());
    }

    #[test]
    fn instalments_that_are_rounded_up_may_repay_early() {
        let mut whole = policy("0", 6);
        whole.rounding.unit_minor = Minor::new(100);
        assert_eq!(payments(&plan(1_000, &whole).unwrap()), [200, 200, 200, 200, 200]);
        whole.rounding.mode = RoundingMode::Up;
        assert_eq!(payments(&plan(700, &whole).unwrap()), [200, 200, 200, 100]);
    }

    #[test]
    fn one_instalment_pays_all() {
        assert_eq!(payments(&plan(10_000, &policy("12", 1)).unwrap()), [10_100]);
    }

    #[test]
    fn terms_that_cannot_be_are_refused() {
        assert_eq!(plan(0, &policy("7", 6)), Err(RuleError::Principal(Minor::ZERO)));
        assert_eq!(plan(-5, &policy("7", 6)), Err(RuleError::Principal(Minor::new(-5))));
        assert_eq!(plan(100, &policy("7", 601)), Err(RuleError::Term(601)));
        assert!(matches!(plan(100, &policy("100.01", 6)), Err(RuleError::RateTooHigh(_))));
        assert_eq!(plan(2, &policy("0", 6)), Err(RuleError::InstalmentRoundsToNothing { unit: Minor::new(1) }));
        let mut coarse = policy("40", 360);
        coarse.rounding.unit_minor = Minor::new(10_000);
        assert!(matches!(plan(1_000_000, &coarse), Err(RuleError::NegativeAmortisation { number: 1, .. })));
        assert_eq!(plan(i64::MAX, &policy("50", 1)), Err(RuleError::Money(MoneyError::Overflow)));
    }

    #[test]
    fn json_names_its_units() {
        let schedule = plan(10_000, &policy("7", 1)).unwrap();
        let json = serde_json::to_value(&schedule).unwrap();
        assert_eq!(json["rows"][0]["payment_minor"], "10058");
        assert_eq!(serde_json::from_value::<Schedule>(json).unwrap(), schedule);
    }
}
