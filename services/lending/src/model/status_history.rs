//! The status of a loan on each day.
//!
//! A change of status counts from its effective date, which may precede the day on which it was recorded. Late fees,
//! and whether a payment is applied or held, depend on the status on their own day and not on today's.

use super::status::LoanStatus;
use jiff::civil::Date;

/// A loan's statuses, each with the day from which it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusHistory(Vec<(Date, LoanStatus)>);

impl StatusHistory {
    /// Creates a history from changes in the order in which they were recorded. The last of several changes with the
    /// same day counts.
    pub fn new(changes: impl IntoIterator<Item = (Date, LoanStatus)>) -> Self {
        let mut changes: Vec<_> = changes.into_iter().collect();
        changes.sort_by_key(|(from, _)| *from);
        Self(changes)
    }

    /// Creates the history of a loan that has had one status on all relevant days.
    pub fn always(status: LoanStatus) -> Self {
        Self(vec![(Date::MIN, status)])
    }

    /// Returns the days from which statuses count.
    pub(super) fn days(&self) -> impl Iterator<Item = Date> {
        self.0.iter().map(|(from, _)| *from)
    }

    /// Returns the status on `day`. Before the first change a loan is `created`.
    pub fn on(&self, day: Date) -> LoanStatus {
        let begun = self.0.partition_point(|(from, _)| *from <= day);
        self.0[..begun].last().map_or(LoanStatus::Created, |(_, status)| *status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LoanStatus::{Active, Bankruptcy, Created, PaidOff};
    use jiff::civil::date;

    #[test]
    fn a_status_counts_from_its_day_and_the_last_one_of_a_day_counts() {
        let may = |day| date(2024, 5, day);
        let history =
            StatusHistory::new([(may(2), Active), (may(9), Bankruptcy), (may(20), PaidOff), (may(20), Active)]);
        let found = [1, 2, 8, 9, 19, 20, 31].map(|day| history.on(may(day)));
        assert_eq!(found, [Created, Active, Active, Bankruptcy, Bankruptcy, Active, Active]);
        assert_eq!(StatusHistory::always(Bankruptcy).on(may(1)), Bankruptcy);
    }
}
