//! What is owed over time.

use super::RuleError;
use jiff::civil::Date;
use onceward_money::Minor;

/// The principal from each day on which it changed. Before the first day nothing is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrincipalHistory(Vec<(Date, Minor)>);

impl PrincipalHistory {
    /// From (day, principal at the end of that day), in any order; of one day, the last counts.
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

    /// From (day, change), such as a funding of 1000 and a payment of -200, in any order.
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

    /// What is owed from `day` on, until it changes again.
    pub fn on(&self, day: Date) -> Minor {
        let until = self.0.partition_point(|(changed_on, _)| *changed_on <= day);
        until.checked_sub(1).map_or(Minor::ZERO, |index| self.0[index].1)
    }

    /// `[from, to)` in pieces on which the principal stays the same.
    pub(super) fn pieces(&self, from: Date, to: Date) -> impl Iterator<Item = (Date, Date, Minor)> {
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
    fn pieces_cover_the_days_without_a_gap() {
        let history = PrincipalHistory::new([(may(1), Minor::new(9)), (may(10), Minor::new(5))]).unwrap();
        let pieces: Vec<_> = history.pieces(may(1), may(20)).collect();
        assert_eq!(pieces, [(may(1), may(10), Minor::new(9)), (may(10), may(20), Minor::new(5))]);
        assert_eq!(history.pieces(may(10), may(20)).count(), 1);
    }

    #[test]
    fn a_negative_principal_is_an_error_to_correct() {
        let changes = [(may(1), Minor::new(10)), (may(2), Minor::new(-11))];
        assert_eq!(PrincipalHistory::from_changes(changes), Err(RuleError::NegativePrincipal(may(2))));
    }
}
