//! Day counts: the fraction of a year between two days.
//!
//! | name | days | year | known as |
//! | --- | --- | --- | --- |
//! | `30/360` | months of 30 days; a 31st is the 30th, at the end only if the start is a 30th or 31st | 360 | bond basis, ISDA 2006 §4.16(f) |
//! | `30E/360` | months of 30 days; a 31st is the 30th | 360 | eurobond basis, §4.16(g) |
//! | `ACT/365` | counted | 365, in leap years too | ACT/365 fixed, §4.16(d) |
//! | `ACT/360` | counted | 360 | §4.16(e) |
//! | `ACT/ACT` | counted | 365 or 366, each year for its own days | ISDA, §4.16(b) |
//!
//! A month of a schedule is 30 days under both kinds of 30/360, wherever it begins: otherwise a loan due at month ends
//! would pay for 28 days in February and for 33 in March.

use super::calendar::Period;
use jiff::civil::{Date, date};
use num_rational::Ratio;
use serde::{Deserialize, Serialize};

/// A fraction of a year; may exceed 1.
pub type YearFraction = Ratio<i64>;

/// A day count convention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DayCount {
    /// Bond basis.
    #[serde(rename = "30/360")]
    Thirty360,
    /// Eurobond basis.
    #[serde(rename = "30E/360")]
    Thirty360European,
    /// Actual days over 365.
    #[serde(rename = "ACT/365")]
    Act365,
    /// Actual days over 360.
    #[serde(rename = "ACT/360")]
    Act360,
    /// Actual days over the length of the year that they are in.
    #[serde(rename = "ACT/ACT")]
    ActAct,
}

impl DayCount {
    /// Returns the fraction of a year in `[from, to)`; zero if `to` is not after `from`.
    pub fn year_fraction(self, from: Date, to: Date) -> YearFraction {
        if to <= from {
            return Ratio::from_integer(0);
        }
        match self {
            Self::Thirty360 | Self::Thirty360European => Ratio::new(self.thirty_days(from, to), 360),
            Self::Act365 => Ratio::new(days(from, to), 365),
            Self::Act360 => Ratio::new(days(from, to), 360),
            Self::ActAct => split_at_years(from, to),
        }
    }

    /// Returns the fraction of a year from the start of `period` to `day`, which is in the period or at its end.
    ///
    /// The result grows with the day and equals the whole period's fraction at the end.
    pub fn elapsed(self, period: &Period, day: Date) -> YearFraction {
        let counted = self.year_fraction(period.start, day);
        match self {
            Self::Thirty360 | Self::Thirty360European if period.whole_month => {
                let month = Ratio::new(30, 360);
                if day >= period.end { month } else { counted.min(month) }
            }
            _ => counted,
        }
    }

    /// Returns the fraction of a year that the single day `day` counts.
    pub fn one_day(self, day: Date) -> YearFraction {
        match self {
            Self::Thirty360 | Self::Thirty360European | Self::Act360 => Ratio::new(1, 360),
            Self::Act365 => Ratio::new(1, 365),
            Self::ActAct => Ratio::new(1, i64::from(day.days_in_year())),
        }
    }

    fn thirty_days(self, from: Date, to: Date) -> i64 {
        let start_day = from.day().min(30);
        let end_day = if self == Self::Thirty360European || start_day == 30 { to.day().min(30) } else { to.day() };
        let years = i64::from(to.year()) - i64::from(from.year());
        let months = i64::from(to.month()) - i64::from(from.month());
        years * 360 + months * 30 + i64::from(end_day) - i64::from(start_day)
    }
}

fn days(from: Date, to: Date) -> i64 {
    to.duration_since(from).as_hours() / 24
}

fn split_at_years(from: Date, to: Date) -> YearFraction {
    let year_length = |day: Date| i64::from(day.days_in_year());
    if from.year() == to.year() {
        return Ratio::new(days(from, to), year_length(from));
    }
    let first = Ratio::new(days(date(from.year(), 1, 1), from), year_length(from));
    let last = Ratio::new(days(date(to.year(), 1, 1), to), year_length(to));
    Ratio::from_integer(i64::from(to.year()) - i64::from(from.year())) - first + last
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(day_count: DayCount, from: &str, to: &str, expected: YearFraction) {
        let found = day_count.year_fraction(from.parse().unwrap(), to.parse().unwrap());
        assert_eq!(found, expected, "{day_count:?} from {from} to {to}");
    }

    #[test]
    fn thirty_day_months_follow_the_bond_and_eurobond_rules() {
        for (from, to, bond, european) in [
            ("2007-01-15", "2007-01-30", 15, 15),
            ("2007-01-15", "2007-02-15", 30, 30),
            ("2007-09-30", "2008-03-31", 180, 180),
            ("2007-09-30", "2007-10-31", 30, 30),
            ("2007-09-30", "2008-09-30", 360, 360),
            ("2007-01-15", "2007-01-31", 16, 15),
            ("2007-01-31", "2007-02-28", 28, 28),
            ("2007-02-28", "2007-03-31", 33, 32),
            ("2006-08-31", "2007-02-28", 178, 178),
            ("2007-02-28", "2007-08-31", 183, 182),
            ("2008-02-29", "2008-08-31", 182, 181),
        ] {
            check(DayCount::Thirty360, from, to, Ratio::new(bond, 360));
            check(DayCount::Thirty360European, from, to, Ratio::new(european, 360));
        }
    }

    #[test]
    fn only_act_act_splits_actual_days_at_the_end_of_the_year() {
        // The examples of ISDA's paper on ACT/ACT: 0.497724380567, 0.410958904110, 1.001377348600, 0.503892506924.
        check(DayCount::ActAct, "2003-11-01", "2004-05-01", Ratio::new(61, 365) + Ratio::new(121, 366));
        check(DayCount::ActAct, "1999-02-01", "1999-07-01", Ratio::new(150, 365));
        check(DayCount::ActAct, "1999-07-01", "2000-07-01", Ratio::new(184, 365) + Ratio::new(182, 366));
        check(DayCount::ActAct, "1999-07-30", "2000-01-30", Ratio::new(155, 365) + Ratio::new(29, 366));
        check(DayCount::ActAct, "2000-01-01", "2004-01-01", Ratio::from_integer(4));
        check(DayCount::Act365, "2003-11-01", "2004-05-01", Ratio::new(182, 365));
        check(DayCount::Act365, "2004-01-01", "2005-01-01", Ratio::new(366, 365));
        check(DayCount::Act360, "2003-11-01", "2004-05-01", Ratio::new(182, 360));
    }

    #[test]
    fn a_month_of_a_schedule_is_thirty_days_even_in_february() {
        let period = |start: &str, end: &str| Period {
            number: 2,
            start: start.parse().unwrap(),
            end: end.parse().unwrap(),
            whole_month: true,
        };
        let month = Ratio::new(1, 12);
        let february = period("2023-01-31", "2023-02-28");
        assert_eq!(DayCount::Thirty360.elapsed(&february, february.end), month);
        let march = period("2023-02-28", "2023-03-31");
        assert_eq!(DayCount::Thirty360.elapsed(&march, march.end), month);
        assert_eq!(DayCount::Thirty360.elapsed(&march, date(2023, 3, 30)), month, "never more than the month");
        assert_eq!(DayCount::Thirty360.elapsed(&march, date(2023, 3, 10)), Ratio::new(12, 360));
        assert_eq!(DayCount::Act365.elapsed(&february, february.end), Ratio::new(28, 365));
    }

    #[test]
    fn day_counts_have_their_conventional_names() {
        for (day_count, name) in [(DayCount::Thirty360, "30/360"), (DayCount::ActAct, "ACT/ACT")] {
            assert_eq!(serde_json::to_string(&day_count).unwrap(), format!("\"{name}\""));
        }
    }

    fn day() -> impl Strategy<Value = Date> {
        (0_i64..110_000).prop_map(|days| date(1900, 1, 1).saturating_add(jiff::Span::new().days(days)))
    }

    proptest! {
        #[test]
        fn actual_days_add_up(mut days in [day(), day(), day()]) {
            days.sort();
            let [from, between, to] = days;
            for day_count in [DayCount::Act365, DayCount::Act360, DayCount::ActAct] {
                let split = day_count.year_fraction(from, between) + day_count.year_fraction(between, to);
                prop_assert_eq!(split, day_count.year_fraction(from, to));
            }
        }

        #[test]
        fn the_year_fraction_never_decreases_with_the_day(from in day(), to in day()) {
            let next = to.saturating_add(jiff::Span::new().days(1));
            for day_count in [DayCount::Thirty360, DayCount::Thirty360European, DayCount::ActAct] {
                prop_assert!(day_count.year_fraction(from, to) <= day_count.year_fraction(from, next));
            }
        }

        #[test]
        fn one_actual_day_is_the_fraction_to_the_next_day(from in day()) {
            let next = from.saturating_add(jiff::Span::new().days(1));
            for day_count in [DayCount::Act365, DayCount::Act360, DayCount::ActAct] {
                prop_assert_eq!(day_count.one_day(from), day_count.year_fraction(from, next));
            }
        }
    }
}
