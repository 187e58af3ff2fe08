//! Events and their lines, as they are posted and as they are read.

use crate::{Account, LedgerError, Side};
use jiff::{Timestamp, civil::Date};
use onceward_money::{Currency, Minor};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The most lines an event may have.
pub const MAX_LINES: usize = 1_000;

const MAX_CORRELATION_ID: usize = 255;

/// An amount on one side of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The account.
    pub account: Account,
    /// Its side.
    pub side: Side,
    /// How much; always positive.
    pub amount: Minor,
    /// What for.
    pub memo: String,
}

/// A line on the debit side.
pub fn debit(account: Account, amount: Minor, memo: impl Into<String>) -> Line {
    Line { account, side: Side::Debit, amount, memo: memo.into() }
}

/// A line on the credit side.
pub fn credit(account: Account, amount: Minor, memo: impl Into<String>) -> Line {
    Line { account, side: Side::Credit, amount, memo: memo.into() }
}

/// What is to be posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Its id, a UUIDv7.
    pub event_id: Uuid,
    /// The loan whose accounts move.
    pub loan_id: Uuid,
    /// The day from which it counts, which may be past.
    pub effective_date: Date,
    /// What it is posted for, once per tenant: `payment:<payment id>`.
    pub correlation_id: String,
    /// The kind of posting: `posting.payment.v1`.
    pub schema: String,
    /// The currency of all lines.
    pub currency: Currency,
    /// Two lines or more, with equal sums on both sides.
    pub lines: Vec<Line>,
    /// Anything a reader should know.
    pub note: Option<String>,
}

impl NewEvent {
    /// Checks what the database will check again: that it can be posted at all.
    pub fn check(&self) -> Result<(), LedgerError> {
        let event_id = self.event_id;
        if !(1..=MAX_CORRELATION_ID).contains(&self.correlation_id.chars().count()) {
            return Err(LedgerError::CorrelationId { event_id });
        }
        if !(2..=MAX_LINES).contains(&self.lines.len()) {
            return Err(LedgerError::LineCount { event_id, lines: self.lines.len() });
        }
        if let Some(place) = self.lines.iter().position(|line| !line.amount.is_positive()) {
            return Err(LedgerError::NotPositive { event_id, line: place + 1 });
        }
        let (debits, credits) = (self.total(Side::Debit)?, self.total(Side::Credit)?);
        if debits != credits {
            return Err(LedgerError::Unbalanced { event_id, debits, credits });
        }
        Ok(())
    }

    fn total(&self, side: Side) -> Result<Minor, LedgerError> {
        let lines = self.lines.iter().filter(|line| line.side == side);
        Ok(Minor::sum(lines.map(|line| line.amount))?)
    }
}

/// A line that was posted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventLine {
    /// The account.
    pub account: Account,
    /// Its side.
    pub side: Side,
    /// How much.
    pub amount: Minor,
    /// In which currency.
    pub currency: Currency,
    /// What for.
    pub memo: String,
}

/// An event that was posted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Its id.
    pub event_id: Uuid,
    /// The loan.
    pub loan_id: Uuid,
    /// The kind of posting.
    pub schema: String,
    /// What it was posted for.
    pub correlation_id: String,
    /// The day from which it counts.
    pub effective_date: Date,
    /// When it became final.
    pub finalized_at: Timestamp,
    /// The event that this one takes back.
    pub reverses: Option<Uuid>,
    /// The event that took this one back.
    pub reversed_by: Option<Uuid>,
    /// Anything a reader should know.
    pub note: Option<String>,
    /// Its lines, in the order in which they were given.
    pub lines: Vec<EventLine>,
}

impl Event {
    /// Its place in the history of its loan.
    pub const fn cursor(&self) -> Cursor {
        Cursor { effective_date: self.effective_date, event_id: self.event_id }
    }
}

/// A place in the history of a loan. History is ordered by effective date, then by event id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    /// The day of the event.
    pub effective_date: Date,
    /// The event.
    pub event_id: Uuid,
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_money::MoneyError;

    fn check(lines: Vec<Line>) -> Result<(), LedgerError> {
        let event = NewEvent {
            event_id: Uuid::nil(),
            loan_id: Uuid::nil(),
            effective_date: Date::constant(2026, 1, 31),
            correlation_id: "payment:1".into(),
            schema: "posting.payment.v1".into(),
            currency: Currency::USD,
            lines,
            note: None,
        };
        event.check()
    }

    fn cash(amount: i64) -> Line {
        debit(Account::Cash, Minor::new(amount), "received")
    }

    fn suspense(amount: i64) -> Line {
        credit(Account::Suspense, Minor::new(amount), "kept")
    }

    #[test]
    fn an_event_needs_positive_lines_that_balance() {
        check(vec![cash(5), suspense(2), suspense(3)]).unwrap();
        assert!(matches!(check(vec![]), Err(LedgerError::LineCount { lines: 0, .. })));
        assert!(matches!(check(vec![cash(5)]), Err(LedgerError::LineCount { lines: 1, .. })));
        assert!(matches!(check(vec![cash(5), suspense(4)]), Err(LedgerError::Unbalanced { .. })));
        assert!(matches!(check(vec![cash(0), suspense(0)]), Err(LedgerError::NotPositive { line: 1, .. })));
        assert!(matches!(check(vec![cash(5), suspense(-5)]), Err(LedgerError::NotPositive { line: 2, .. })));
    }

    #[test]
    fn sums_that_do_not_fit_are_an_error() {
        let lines = vec![cash(i64::MAX), cash(i64::MAX), cash(2), suspense(i64::MAX), suspense(i64::MAX), suspense(2)];
        assert!(matches!(check(lines), Err(LedgerError::Money(MoneyError::Overflow))));
    }
}
