//! Due dates: monthly, on the same day of the month, or on the last day of a shorter month.

use super::RuleError;
use jiff::civil::{Date, date};
use jiff::{Span, ToSpan};
use serde::{Deserialize, Serialize};

/// The funding day and due dates of a loan.
///
/// The due day is stored apart from the first due date: a loan funded on 31 January is due on 28 February and then on
/// 31 March, not on 28 March.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedCalendar")]
pub struct Calendar {
    funded_on: Date,
    first_due: Date,
    due_day: i8,
}

/// The time from one due date to the next; the first period starts on the funding day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// 1 for the first period, which ends when instalment 1 is due. Periods continue after the last instalment.
    pub number: u32,
    /// The first day.
    pub start: Date,
    /// The day after the last: the due date.
    pub end: Date,
    /// Whether the period is a whole month of the schedule; the first one need not be.
    pub whole_month: bool,
}

impl Calendar {
    /// Creates a calendar that is due every month on the funding day's day of the month, first a month after funding.
    pub fn monthly(funded_on: Date) -> Result<Self, RuleError> {
        Self::with_due_day(funded_on, funded_on.saturating_add(1.month()), funded_on.day())
    }

    /// Creates a calendar that is first due on `first_due`, and then every month on the same day.
    ///
    /// If `first_due` is the end of the month after funding, the funding day is kept: 31 January, 28 February, 31
    /// March.
    pub fn new(funded_on: Date, first_due: Date) -> Result<Self, RuleError> {
        let a_month_later = funded_on.saturating_add(1.month()) == first_due;
        let due_day = if a_month_later { funded_on.day() } else { first_due.day() };
        Self::with_due_day(funded_on, first_due, due_day)
    }

    /// Creates a calendar that is first due on `first_due`, and then every month on `due_day`, which may exceed the
    /// number of days in the first month.
    pub fn with_due_day(funded_on: Date, first_due: Date, due_day: i8) -> Result<Self, RuleError> {
        if !(date(1900, 1, 1)..=date(2199, 12, 31)).contains(&funded_on) {
            return Err(RuleError::FundingDay(funded_on));
        }
        if first_due <= funded_on || first_due > funded_on.saturating_add(1.year()) {
            return Err(RuleError::FirstDue { funded_on, first_due });
        }
        if !(1..=31).contains(&due_day) || on_day(first_due, due_day) != first_due {
            return Err(RuleError::DueDay { due_day, first_due });
        }
        Ok(Self { funded_on, first_due, due_day })
    }

    /// The day from which interest runs.
    pub fn funded_on(&self) -> Date {
        self.funded_on
    }

    /// The due date of the first instalment.
    pub fn first_due(&self) -> Date {
        self.first_due
    }

    /// The day of the month on which instalments are due.
    pub fn due_day(&self) -> i8 {
        self.due_day
    }

    /// Returns the due date of instalment `number`, counted from 1.
    pub fn due_date(&self, number: u32) -> Date {
        // The bound only keeps the span valid; a calendar ends with the year 9999 anyway.
        let months = (i64::from(number) - 1).min(100_000);
        on_day(self.first_due.first_of_month().saturating_add(Span::new().months(months)), self.due_day)
    }

    /// Returns period `number`, counted from 1.
    pub fn period(&self, number: u32) -> Period {
        let month_before = self.due_date(number.saturating_sub(1));
        let start = if number <= 1 { self.funded_on } else { month_before };
        Period { number, start, end: self.due_date(number), whole_month: start == month_before }
    }

    /// Returns the number of the period that contains `day`; a due date is the first day of the next period. Returns 1
    /// before funding.
    pub fn period_number_at(&self, day: Date) -> u32 {
        if day < self.first_due {
            return 1;
        }
        let years = i32::from(day.year()) - i32::from(self.first_due.year());
        let months = years * 12 + i32::from(day.month()) - i32::from(self.first_due.month());
        let due_this_month = u32::try_from(months).unwrap_or(0) + 1;
        if day < self.due_date(due_this_month) { due_this_month } else { due_this_month + 1 }
    }
}

/// Returns the given day in the month of `month`, or the month's last day.
fn on_day(month: Date, day: i8) -> Date {
    let day = day.min(month.days_in_month());
    date(month.year(), month.month(), day)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedCalendar {
    funded_on: Date,
    first_due: Date,
    due_day: i8,
}

impl TryFrom<UncheckedCalendar> for Calendar {
    type Error = RuleError;

    fn try_from(read: UncheckedCalendar) -> Result<Self, RuleError> {
        Self::with_due_day(read.funded_on, read.first_due, read.due_day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_dates(calendar: &Calendar, count: u32) -> Vec<String> {
        (1..=count).map(|number| calendar.due_date(number).to_string()).collect()
    }

    #[test]
    fn the_due_day_survives_february() {
        let calendar = Calendar::monthly(date(2023, 1, 31)).unwrap();
        assert_eq!(due_dates(&calendar, 4), ["2023-02-28", "2023-03-31", "2023-04-30", "2023-05-31"]);
        assert_eq!(Calendar::new(date(2023, 1, 31), date(2023, 2, 28)), Ok(calendar));
        let leap = Calendar::monthly(date(2024, 1, 30)).unwrap();
        assert_eq!(due_dates(&leap, 2), ["2024-02-29", "2024-03-30"]);
        let twenty_eighth = Calendar::new(date(2023, 1, 10), date(2023, 2, 28)).unwrap();
        assert_eq!(due_dates(&twenty_eighth, 2), ["2023-02-28", "2023-03-28"]);
    }

    #[test]
    fn a_due_date_is_the_first_day_of_the_next_period() {
        let calendar = Calendar::new(date(2024, 1, 10), date(2024, 3, 1)).unwrap();
        for (day, number) in [
            (date(2023, 1, 1), 1),
            (date(2024, 1, 10), 1),
            (date(2024, 2, 29), 1),
            (date(2024, 3, 1), 2),
            (date(2024, 3, 31), 2),
            (date(2024, 4, 1), 3),
            (date(2025, 3, 1), 14),
        ] {
            assert_eq!(calendar.period_number_at(day), number, "{day}");
        }
        let first = calendar.period(1);
        assert_eq!((first.start, first.end, first.whole_month), (date(2024, 1, 10), date(2024, 3, 1), false));
        let second = calendar.period(2);
        assert_eq!((second.start, second.end, second.whole_month), (date(2024, 3, 1), date(2024, 4, 1), true));
        assert!(Calendar::monthly(date(2023, 1, 31)).unwrap().period(1).whole_month);
    }

    #[test]
    fn every_day_is_within_its_period() {
        let calendar = Calendar::monthly(date(2023, 1, 31)).unwrap();
        for days in 0..1500 {
            let day = date(2023, 1, 31).saturating_add(days.days());
            let period = calendar.period(calendar.period_number_at(day));
            assert!(period.start <= day && day < period.end, "{day} in {period:?}");
        }
    }

    #[test]
    fn invalid_calendars_are_rejected() {
        let day = date(2024, 1, 10);
        assert!(matches!(Calendar::new(day, day), Err(RuleError::FirstDue { .. })));
        assert!(matches!(Calendar::new(day, date(2025, 1, 11)), Err(RuleError::FirstDue { .. })));
        assert!(matches!(Calendar::monthly(date(1700, 1, 1)), Err(RuleError::FundingDay(_))));
        assert!(matches!(Calendar::with_due_day(day, date(2024, 2, 10), 31), Err(RuleError::DueDay { .. })));
        assert!(matches!(Calendar::with_due_day(day, date(2024, 2, 29), 0), Err(RuleError::DueDay { .. })));
    }

    #[test]
    fn a_calendar_is_checked_when_it_is_deserialized() {
        let calendar = Calendar::monthly(date(2023, 1, 31)).unwrap();
        let json = serde_json::to_string(&calendar).unwrap();
        assert_eq!(json, r#"{"funded_on":"2023-01-31","first_due":"2023-02-28","due_day":31}"#);
        assert_eq!(serde_json::from_str::<Calendar>(&json).unwrap(), calendar);
        assert!(serde_json::from_str::<Calendar>(&json.replace("31}", "27}")).is_err());
    }
}
