//! Interest accrual.
//!
//! Within a period, interest is the exact sum over the principal owed on each day, and only the total since the start
//! of the period is rounded. The accrual between two days is the difference of two such sums, so accruing daily,
//! monthly or in any other steps yields the same cents. A period without events outside the schedule accrues the
//! interest of its schedule row.

use super::calendar::{Calendar, Period};
use super::day_count::YearFraction;
use super::exact::{self, Exact};
use super::principal::PrincipalHistory;
use super::product::ProductPolicy;
use super::rule_error::RuleError;
use jiff::civil::Date;
use num_traits::Zero;
use onceward_money::Minor;
use serde::{Deserialize, Serialize};

/// Interest to post.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accrual {
    /// The schedule period that the interest belongs to.
    pub period: u32,
    /// The first day.
    pub from: Date,
    /// The day after the last.
    pub to: Date,
    /// The interest amount.
    #[serde(rename = "amount_minor")]
    pub amount: Minor,
}

/// Returns the interest that accrues in `[accrued_to, to)`, one entry per period. Nothing accrues before funding.
/// `principal` must exclude days on which the status accrues no interest: see `PrincipalHistory::while_accruing`.
///
/// Zero amounts are omitted; interest is nevertheless accrued up to `to`.
pub fn accruals(
    policy: &ProductPolicy,
    calendar: &Calendar,
    principal: &PrincipalHistory,
    accrued_to: Date,
    to: Date,
) -> Result<Vec<Accrual>, RuleError> {
    let begin = accrued_to.max(calendar.funded_on());
    if to <= begin {
        return Ok(Vec::new());
    }
    let mut accruals = Vec::new();
    for number in calendar.period_number_at(begin)..=calendar.period_number_at(to) {
        let period = calendar.period(number);
        let (from, to) = (begin.max(period.start), to.min(period.end));
        let before = accrued_in(policy, &period, principal, from)?;
        let amount = accrued_in(policy, &period, principal, to)?.checked_sub(before)?;
        if !amount.is_zero() {
            accruals.push(Accrual { period: number, from, to, amount });
        }
    }
    Ok(accruals)
}

/// Returns the interest accrued in `period` at the start of `day`; a day outside the period counts as the nearer end.
pub fn accrued_in(
    policy: &ProductPolicy,
    period: &Period,
    principal: &PrincipalHistory,
    day: Date,
) -> Result<Minor, RuleError> {
    let day = day.clamp(period.start, period.end);
    let elapsed = |day: Date| policy.day_count.elapsed(period, day);
    let mut owed_years = Exact::zero();
    for (from, to, owed) in principal.pieces(period.start, day) {
        owed_years += exact::amount(owed) * exact::years(elapsed(to) - elapsed(from));
    }
    Ok(policy.rounding.interest(&(owed_years * exact::rate(policy.annual_rate)))?)
}

/// Returns one day's interest on `owed`, rounded. The accrued interest is not a multiple of it.
pub fn per_diem(policy: &ProductPolicy, owed: Minor, day: Date) -> Result<Minor, RuleError> {
    let one_day: YearFraction = policy.day_count.one_day(day);
    Ok(policy.rounding.interest(&(exact::amount(owed) * policy.rate_of(one_day)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::product::tests::policy;
    use crate::model::{DayCount, amortise};
    use jiff::civil::date;

    fn owed(changes: &[(Date, i64)]) -> PrincipalHistory {
        PrincipalHistory::new(changes.iter().map(|(day, owed)| (*day, Minor::new(*owed)))).unwrap()
    }

    fn amounts(accruals: &[Accrual]) -> Vec<(u32, i64)> {
        accruals.iter().map(|accrual| (accrual.period, accrual.amount.get())).collect()
    }

    #[test]
    fn a_loan_paid_on_its_due_dates_accrues_the_interest_of_its_schedule() {
        for day_count in [DayCount::Thirty360, DayCount::Act365, DayCount::Act360, DayCount::ActAct] {
            let policy = ProductPolicy { day_count, ..policy("7.5", 24) };
            let calendar = Calendar::monthly(date(2023, 8, 31)).unwrap();
            let schedule = amortise(Minor::new(1_234_567), &policy, &calendar).unwrap();
            let paid = schedule.rows.iter().map(|row| (row.due_date, row.balance_after));
            let funded = [(calendar.funded_on(), Minor::new(1_234_567))];
            let history = PrincipalHistory::new(funded.into_iter().chain(paid)).unwrap();
            let end = schedule.rows.last().unwrap().due_date;
            let found = accruals(&policy, &calendar, &history, calendar.funded_on(), end).unwrap();
            let expected: Vec<_> = schedule.rows.iter().map(|row| (row.number, row.interest.get())).collect();
            assert_eq!(amounts(&found), expected, "{day_count:?}");
        }
    }

    #[test]
    fn nothing_accrues_before_funding_or_backwards_in_time() {
        let policy = ProductPolicy { day_count: DayCount::Act365, ..policy("36.5", 12) };
        let calendar = Calendar::monthly(date(2024, 1, 10)).unwrap();
        let history = owed(&[(date(2024, 1, 10), 100_000)]);
        let run = |from, to| amounts(&accruals(&policy, &calendar, &history, from, to).unwrap());
        assert_eq!(run(date(2023, 1, 1), date(2024, 1, 10)), []);
        assert_eq!(run(date(2023, 1, 1), date(2024, 1, 11)), [(1, 100)]);
        assert_eq!(run(date(2024, 1, 20), date(2024, 1, 15)), []);
        assert_eq!(run(date(2024, 2, 8), date(2024, 2, 12)), [(1, 200), (2, 200)]);
    }

    #[test]
    fn a_payment_counts_from_its_day_on() {
        let policy = ProductPolicy { day_count: DayCount::Act365, ..policy("36.5", 12) };
        let calendar = Calendar::monthly(date(2024, 1, 1)).unwrap();
        let history = owed(&[(date(2024, 1, 1), 100_000), (date(2024, 1, 11), 50_000)]);
        let found = accruals(&policy, &calendar, &history, date(2024, 1, 1), date(2024, 2, 1)).unwrap();
        assert_eq!(amounts(&found), [(1, 10 * 100 + 21 * 50)]);
    }

    #[test]
    fn interest_accrues_beyond_the_last_instalment() {
        let calendar = Calendar::monthly(date(2024, 1, 1)).unwrap();
        let history = owed(&[(date(2024, 1, 1), 120_000)]);
        let found = accruals(&policy("10", 1), &calendar, &history, date(2024, 1, 1), date(2024, 4, 1)).unwrap();
        assert_eq!(amounts(&found), [(1, 1000), (2, 1000), (3, 1000)]);
    }

    #[test]
    fn the_per_diem_follows_the_day_count() {
        let day = date(2024, 2, 29);
        for (day_count, expected) in
            [(DayCount::Thirty360, 1000), (DayCount::Act360, 1000), (DayCount::Act365, 986), (DayCount::ActAct, 984)]
        {
            let policy = ProductPolicy { day_count, ..policy("36", 12) };
            assert_eq!(per_diem(&policy, Minor::new(1_000_000), day), Ok(Minor::new(expected)), "{day_count:?}");
        }
    }
}
