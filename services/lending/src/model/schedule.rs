//! The amortisation schedule: what borrower and lender agreed on.
//!
//! The instalment is rounded once, interest once per period, and the last instalment takes the remainder. Its
//! difference from the others is bounded: each rounding moves the balance by at most one unit, and that difference
//! grows with interest until the end (cents for usual terms; at 100 % over 40 years the instalments pay hardly more
//! than interest, and the last one pays nearly everything: [`RepaymentSchedule::residue`] returns the difference). A schedule
//! ends early if instalments that were rounded up repay the loan before its term.

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
pub struct RepaymentSchedule {
    /// The regular instalment; the last row's payment may differ.
    #[serde(rename = "instalment_minor")]
    pub instalment: Minor,
    /// The instalments in order of their due dates; at least one.
    pub rows: Vec<Instalment>,
}

/// One instalment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instalment {
    /// 1 for the first.
    pub number: u32,
    /// The day by which it must be paid.
    pub due_date: Date,
    /// Interest and principal together, without escrow.
    #[serde(rename = "payment_minor")]
    pub payment: Minor,
    /// The interest part.
    #[serde(rename = "interest_minor")]
    pub interest: Minor,
    /// The principal part.
    #[serde(rename = "principal_minor")]
    pub principal: Minor,
    /// The escrow deposit for taxes and insurance, in addition to the payment.
    #[serde(rename = "escrow_minor")]
    pub escrow: Minor,
    /// The remaining principal.
    #[serde(rename = "balance_after_minor")]
    pub balance_after: Minor,
}

/// Returns the schedule of a loan of `principal`, or the rule that its terms break.
pub fn amortise(principal: Minor, policy: &ProductPolicy, calendar: &Calendar) -> Result<RepaymentSchedule, RuleError> {
    policy.check()?;
    if !principal.is_positive() {
        return Err(RuleError::Principal(principal));
    }
    let periods: Vec<Period> = (1..=policy.term_months).map(|number| calendar.period(number)).collect();
    let whole = |period: &Period| policy.rate_of(policy.day_count.elapsed(period, period.end));
    let rates: Vec<Exact> = periods.iter().map(whole).collect();
    let instalment = policy.rounding.instalment(&level_payment(principal, &rates))?;
    if instalment.is_zero() {
        return Err(RuleError::InstalmentRoundsToZero { unit: policy.rounding.unit_minor });
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
    Ok(RepaymentSchedule { instalment, rows })
}

impl RepaymentSchedule {
    /// Returns the instalments that are due on or before `day`.
    pub fn due_by(&self, day: Date) -> &[Instalment] {
        &self.rows[..self.rows.partition_point(|row| row.due_date <= day)]
    }

    /// Returns by how much the last payment exceeds the regular instalment; negative if it is smaller.
    pub fn residue(&self) -> Result<Minor, MoneyError> {
        let last = self.rows.last().map_or(self.instalment, |row| row.payment);
        last.checked_sub(self.instalment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::product::tests::policy;
    use crate::model::{DayCount, RoundingMode};
    use jiff::civil::date;

    fn plan(principal: i64, policy: &ProductPolicy) -> Result<RepaymentSchedule, RuleError> {
        amortise(Minor::new(principal), policy, &Calendar::monthly(date(2024, 1, 1)).unwrap())
    }

    fn payments(schedule: &RepaymentSchedule) -> Vec<i64> {
        schedule.rows.iter().map(|row| row.payment.get()).collect()
    }

    fn interests(schedule: &RepaymentSchedule) -> Vec<i64> {
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
        assert_eq!(interests(&schedule).iter().sum::<i64>(), 205);
        assert_eq!(schedule.rows[5].due_date, date(2024, 7, 1));
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
    fn actual_days_change_the_interest_of_months_but_not_the_instalment() {
        let actual = ProductPolicy { day_count: DayCount::Act360, ..policy("7.5", 360) };
        let schedule = plan(20_000_000, &actual).unwrap();
        // 31 days in January, 29 in February: 200,000 × 7.5 % × 31/360; the next interest is on less principal.
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
    fn a_longer_first_period_accrues_its_days() {
        let calendar = Calendar::new(date(2024, 1, 10), date(2024, 3, 1)).unwrap();
        let schedule = amortise(Minor::new(1_000_000), &policy("12", 12), &calendar).unwrap();
        assert_eq!(schedule.rows[0].interest, Minor::new(17_000), "51 days of 30/360");
        assert!(schedule.residue().unwrap().get().abs() < 20, "{:?}", schedule.residue());
    }

    #[test]
    fn instalments_rounded_up_may_repay_early() {
        let mut whole = policy("0", 6);
        whole.rounding.unit_minor = Minor::new(100);
        assert_eq!(payments(&plan(1_000, &whole).unwrap()), [200, 200, 200, 200, 200]);
        whole.rounding.mode = RoundingMode::Up;
        assert_eq!(payments(&plan(700, &whole).unwrap()), [200, 200, 200, 100]);
    }

    #[test]
    fn a_single_instalment_pays_everything() {
        assert_eq!(payments(&plan(10_000, &policy("12", 1)).unwrap()), [10_100]);
    }

    #[test]
    fn invalid_terms_are_rejected() {
        assert_eq!(plan(0, &policy("7", 6)), Err(RuleError::Principal(Minor::ZERO)));
        assert_eq!(plan(-5, &policy("7", 6)), Err(RuleError::Principal(Minor::new(-5))));
        assert_eq!(plan(100, &policy("7", 601)), Err(RuleError::Term(601)));
        assert!(matches!(plan(100, &policy("100.01", 6)), Err(RuleError::RateTooHigh(_))));
        assert_eq!(plan(2, &policy("0", 6)), Err(RuleError::InstalmentRoundsToZero { unit: Minor::new(1) }));
        let mut coarse = policy("40", 360);
        coarse.rounding.unit_minor = Minor::new(10_000);
        assert!(matches!(plan(1_000_000, &coarse), Err(RuleError::NegativeAmortisation { number: 1, .. })));
        assert_eq!(plan(i64::MAX, &policy("50", 1)), Err(RuleError::Money(MoneyError::Overflow)));
    }

    #[test]
    fn json_fields_name_their_units() {
        let schedule = plan(10_000, &policy("7", 1)).unwrap();
        let json = serde_json::to_value(&schedule).unwrap();
        assert_eq!(json["rows"][0]["payment_minor"], "10058");
        assert_eq!(serde_json::from_value::<RepaymentSchedule>(json).unwrap(), schedule);
    }
}
