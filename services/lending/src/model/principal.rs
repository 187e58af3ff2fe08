//! The principal owed over time.

use super::RuleError;
use super::status_history::StatusHistory;
use jiff::civil::Date;
use onceward_money::Minor;

/// The principal from each day on which it changed. Before the first day it is zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrincipalHistory(Vec<(Date, Minor)>);

impl PrincipalHistory {
    /// Creates a history from (day, principal at the end of that day), in any order; the last entry of a day counts.
    pub fn new(changes: impl IntoIterator<Item = (Date, Minor)>) -> Result<Self, RuleError> {
        let mut changes: Vec<_> = changes.into_iter().collect();
        changes.sort_by_key(|(day, _)| *day);
        let mut history: Vec<(Date, Minor)> = Vec::with_capacity(changes.len());
        for (day, principal) in changes {
            match history.last_mut() {
                Some(last) if last.0 == day => last.1 = principal,
                _ => history.push((day, principal)),
            }
        }
        match history.iter().find(|(_, principal)| principal.is_negative()) {
            Some((day, _)) => Err(RuleError::NegativePrincipal(*day)),
            None => Ok(Self(history)),
        }
    }

    /// Creates a history from (day, change), such as a funding of 1000 and a payment of -200, in any order.
    pub fn from_changes(changes: impl IntoIterator<Item = (Date, Minor)>) -> Result<Self, RuleError> {
        let mut changes: Vec<_> = changes.into_iter().collect();
        changes.sort_by_key(|(day, _)| *day);
        let mut principal = Minor::ZERO;
        for (_, change) in &mut changes {
            principal = principal.checked_add(*change)?;
            *change = principal;
        }
        Self::new(changes)
    }

    /// Returns the principal owed from `day` on, until its next change.
    pub fn on(&self, day: Date) -> Minor {
        let until = self.0.partition_point(|(changed_on, _)| *changed_on <= day);
        until.checked_sub(1).map_or(Minor::ZERO, |index| self.0[index].1)
    }

    /// Returns this history with `change` applied from `day` on.
    pub(crate) fn changed(&self, day: Date, change: Minor) -> Result<Self, RuleError> {
        let mut changes = self.0.clone();
        if !changes.iter().any(|(changed_on, _)| *changed_on == day) {
            changes.push((day, self.on(day)));
        }
        for (_, principal) in changes.iter_mut().filter(|(changed_on, _)| *changed_on >= day) {
            *principal = principal.checked_add(change)?;
        }
        Self::new(changes)
    }

    /// Returns the interest-bearing principal: zero on days on which the loan's status accrues no interest.
    pub(crate) fn while_accruing(&self, statuses: &StatusHistory) -> Self {
        let mut days: Vec<Date> = self.0.iter().map(|(day, _)| *day).chain(statuses.days()).collect();
        days.sort_unstable();
        days.dedup();
        let bearing = |day: Date| if statuses.on(day).accrues_interest() { self.on(day) } else { Minor::ZERO };
        Self(days.into_iter().map(|day| (day, bearing(day))).collect())
    }

    /// Splits `[from, to)` into pieces of constant principal.
    pub(crate) fn pieces(&self, from: Date, to: Date) -> impl Iterator<Item = (Date, Date, Minor)> {
        let inside = |day: &Date| from < *day && *day < to;
        let cuts: Vec<Date> = self.0.iter().map(|(day, _)| *day).filter(inside).collect();
        let starts: Vec<Date> = std::iter::once(from).chain(cuts.iter().copied()).collect();
        let ends = cuts.into_iter().chain([to]);
        starts.into_iter().zip(ends).map(|(start, end)| (start, end, self.on(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LoanStatus;
    use jiff::civil::date;

    const fn may(day: i8) -> Date {
        date(2024, 5, day)
    }

    #[test]
    fn the_last_change_of_a_day_counts_from_that_day_on() {
        let changes = [(may(10), Minor::new(-300)), (may(1), Minor::new(1000)), (may(10), Minor::new(-200))];
        let history = PrincipalHistory::from_changes(changes).unwrap();
        let found = [1, 9, 10, 31].map(|day| history.on(may(day)).get());
        assert_eq!(found, [1000, 1000, 500, 500]);
        assert_eq!(history.on(date(2024, 4, 30)), Minor::ZERO);
    }

    #[test]
    fn a_change_counts_from_its_day_on() {
        let history = PrincipalHistory::new([(may(1), Minor::new(900)), (may(10), Minor::new(500))]).unwrap();
        let changed = history.changed(may(5), Minor::new(-100)).unwrap();
        assert_eq!([4, 5, 9, 10, 31].map(|day| changed.on(may(day)).get()), [900, 800, 800, 400, 400]);
        let again = changed.changed(may(10), Minor::new(-400)).unwrap();
        assert_eq!([9, 10].map(|day| again.on(may(day)).get()), [800, 0]);
        assert_eq!(again.changed(may(20), Minor::new(-1)), Err(RuleError::NegativePrincipal(may(20))));
    }

    #[test]
    fn no_interest_is_borne_while_the_status_accrues_none() {
        let history = PrincipalHistory::new([(may(1), Minor::new(900)), (may(10), Minor::new(500))]).unwrap();
        let statuses =
            [(may(1), LoanStatus::Active), (may(5), LoanStatus::ChargedOff), (may(12), LoanStatus::Bankruptcy)];
        let bearing = history.while_accruing(&StatusHistory::new(statuses));
        assert_eq!([1, 4, 5, 10, 11, 12].map(|day| bearing.on(may(day)).get()), [900, 900, 0, 0, 0, 500]);
        let always = history.while_accruing(&StatusHistory::always(LoanStatus::Active));
        assert_eq!([1, 9, 10].map(|day| always.on(may(day)).get()), [900, 900, 500]);
    }

    #[test]
    fn pieces_cover_the_days_without_a_gap() {
        let history = PrincipalHistory::new([(may(1), Minor::new(9)), (may(10), Minor::new(5))]).unwrap();
        let pieces: Vec<_> = history.pieces(may(1), may(20)).collect();
        assert_eq!(pieces, [(may(1), may(10), Minor::new(9)), (may(10), may(20), Minor::new(5))]);
        assert_eq!(history.pieces(may(10), may(20)).count(), 1);
    }

    #[test]
    fn a_negative_principal_is_an_error() {
        let changes = [(may(1), Minor::new(10)), (may(2), Minor::new(-11))];
        assert_eq!(PrincipalHistory::from_changes(changes), Err(RuleError::NegativePrincipal(may(2))));
    }
}
