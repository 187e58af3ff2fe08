//! Events and their lines, as they are posted and as they are read.

use crate::{Account, LedgerError, Side};
use jiff::{Timestamp, civil::Date};
use onceward_money::{Currency, Minor};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The maximum number of lines per event.
pub const MAX_LINES: usize = 1_000;

/// Replaces a loan's id for events and balances that belong to no loan: the tenant's own books.
pub const NO_LOAN: Uuid = Uuid::nil();

const MAX_CORRELATION_ID: usize = 255;

/// An amount on one side of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLine {
    /// The account.
    pub account: Account,
    /// Its side.
    pub side: Side,
    /// The amount; always positive.
    pub amount: Minor,
    /// The purpose.
    pub memo: String,
}

/// Creates a line on the debit side.
pub fn debit(account: Account, amount: Minor, memo: impl Into<String>) -> NewLine {
    NewLine { account, side: Side::Debit, amount, memo: memo.into() }
}

/// Creates a line on the credit side.
pub fn credit(account: Account, amount: Minor, memo: impl Into<String>) -> NewLine {
    NewLine { account, side: Side::Credit, amount, memo: memo.into() }
}

/// An event to be posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLedgerEvent {
    /// Its id, a UUIDv7.
    pub event_id: Uuid,
    /// The loan whose accounts change, or [`NO_LOAN`].
    pub loan_id: Uuid,
    /// The day on which it takes effect, which may be past.
    pub effective_date: Date,
    /// The reason for the posting, unique per tenant: `payment:<payment id>`.
    pub correlation_id: String,
    /// The kind of posting: `posting.payment.v1`.
    pub schema: String,
    /// The currency of all lines.
    pub currency: Currency,
    /// Two lines or more, with equal sums on both sides.
    pub lines: Vec<NewLine>,
    /// A remark for readers.
    pub note: Option<String>,
}

impl NewLedgerEvent {
    /// Checks that the event can be posted at all. The database checks the same again.
    pub fn check(&self) -> Result<(), LedgerError> {
        let event_id = self.event_id;
        if !(1..=MAX_CORRELATION_ID).contains(&self.correlation_id.chars().count()) {
            return Err(LedgerError::CorrelationId { event_id });
        }
        if !(2..=MAX_LINES).contains(&self.lines.len()) {
            return Err(LedgerError::LineCount { event_id, lines: self.lines.len() });
        }
        if let Some(index) = self.lines.iter().position(|line| !line.amount.is_positive()) {
            return Err(LedgerError::NotPositive { event_id, line: index + 1 });
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
pub struct LedgerLine {
    /// The account.
    pub account: Account,
    /// Its side.
    pub side: Side,
    /// The amount.
    pub amount: Minor,
    /// Its currency.
    pub currency: Currency,
    /// The purpose.
    pub memo: String,
}

/// An event that was posted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LedgerEvent {
    /// Its id.
    pub event_id: Uuid,
    /// The loan, or [`NO_LOAN`].
    pub loan_id: Uuid,
    /// The kind of posting.
    pub schema: String,
    /// The reason for the posting.
    pub correlation_id: String,
    /// The day on which it takes effect.
    pub effective_date: Date,
    /// When it became final.
    pub finalized_at: Timestamp,
    /// The event that this one reverses.
    pub reverses: Option<Uuid>,
    /// The event that reversed this one.
    pub reversed_by: Option<Uuid>,
    /// A remark for readers.
    pub note: Option<String>,
    /// Its lines, in the order in which they were posted.
    pub lines: Vec<LedgerLine>,
}

impl LedgerEvent {
    /// Returns its position in the history of its loan.
    pub const fn cursor(&self) -> HistoryCursor {
        HistoryCursor { effective_date: self.effective_date, event_id: self.event_id }
    }
}

/// A position in the history of a loan. History is ordered by effective date, then by event id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HistoryCursor {
    /// The day of the event.
    pub effective_date: Date,
    /// The event.
    pub event_id: Uuid,
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_money::MoneyError;

    fn check(lines: Vec<NewLine>) -> Result<(), LedgerError> {
        let event = NewLedgerEvent {
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

    fn cash(amount: i64) -> NewLine {
        debit(Account::Cash, Minor::new(amount), "received")
    }

    fn suspense(amount: i64) -> NewLine {
        credit(Account::Suspense, Minor::new(amount), "held")
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
    fn sums_that_overflow_are_an_error() {
        let lines = vec![cash(i64::MAX), cash(i64::MAX), cash(2), suspense(i64::MAX), suspense(i64::MAX), suspense(2)];
        assert!(matches!(check(lines), Err(LedgerError::Money(MoneyError::Overflow))));
    }
}
