//! Corrects reversed charge-offs whose amount an earlier change makes wrong.
//!
//! ```text
//!   charge-off of 900          reversed                an earlier change shows that 1000 were owed
//!   └─ 900 ──────────────────────┘
//!   └─ -900 ─────────────────────┘                     undone first, as if it had never been posted
//!   └─ 1000 ─────────────────────┘                     posted again, with what is owed on its day
//! ```
//!
//! A charge-off writes off everything owed on its day, and its reversal, on a later day, restores the same amount.
//! Both stay in the ledger permanently, so they are corrected by postings of the same kind and with the same two days.

use crate::LendingError;
use crate::loans::{Loan, postings};
use crate::payments::store;
use jiff::civil::Date;
use onceward::{Scope, Tx};
use onceward_audit::{self as audit, Entry};
use onceward_ledger::{self as ledger, Account, NewLedgerEvent, credit, debit};
use onceward_money::Minor;
use serde_json::json;
use uuid::Uuid;

/// The days during which a loan was charged off.
pub(super) struct ChargedOffPeriod {
    pub(super) from: Date,
    to: Date,
}

impl ChargedOffPeriod {
    /// Undoes the reversed charge-offs of `from` and later days, and returns them.
    pub(super) async fn undo_all(
        tx: &mut Tx,
        scope: &Scope,
        loan: &Loan,
        from: Date,
        replay: i32,
    ) -> Result<Vec<Self>, LendingError> {
        let mut periods = Vec::new();
        for found in store::reversed_charge_offs(tx, loan.loan_id, postings::CHARGE_OFF, from).await? {
            let period = Self { from: found.from, to: found.to };
            period.undo(tx, scope, loan, &found.credits, replay).await?;
            periods.push(period);
        }
        Ok(periods)
    }

    async fn undo(
        &self,
        tx: &mut Tx,
        scope: &Scope,
        loan: &Loan,
        credits: &[(Account, Minor)],
        replay: i32,
    ) -> Result<(), LendingError> {
        let memo = "charge-off undone";
        let mut lines = Vec::with_capacity(credits.len());
        for (account, amount) in credits.iter().filter(|(_, amount)| !amount.is_zero()) {
            let is_debit = amount.is_positive();
            let amount = if is_debit { *amount } else { amount.checked_neg()? };
            lines.push(if is_debit { debit(*account, amount, memo) } else { credit(*account, amount, memo) });
        }
        if lines.is_empty() {
            return Ok(());
        }
        let correlation_id = format!("charge_off_undone:{}:{}:replay:{replay}", loan.loan_id, self.from);
        let event = postings::event(loan, postings::CHARGE_OFF, self.from, correlation_id, lines);
        self.post(tx, scope, loan, &event, replay).await
    }

    /// Charges off what is now owed on its day, and reverses it again. Everything of that day must be posted.
    pub(super) async fn post_again(
        &self,
        tx: &mut Tx,
        scope: &Scope,
        loan: &Loan,
        replay: i32,
    ) -> Result<(), LendingError> {
        let balances = ledger::balances_as_of(tx, loan.loan_id, loan.currency, self.from).await?;
        let Some(mut event) = postings::charge_off(loan, &balances, self.from)? else {
            return Ok(());
        };
        event.correlation_id = format!("charge_off:{}:{}:replay:{replay}", loan.loan_id, self.from);
        self.post(tx, scope, loan, &event, replay).await
    }

    async fn post(
        &self,
        tx: &mut Tx,
        scope: &Scope,
        loan: &Loan,
        event: &NewLedgerEvent,
        replay: i32,
    ) -> Result<(), LendingError> {
        ledger::post(tx, event).await?;
        let correlation_id = format!("charge_off_reversed:{}", event.event_id);
        let note = "posted again, because something before it changed";
        let reversal =
            ledger::reverse(tx, event.event_id, Uuid::now_v7(), self.to, &correlation_id, Some(note)).await?;
        let entry = Entry::new("charge_off_replayed").object("loan", loan.loan_id).loan(loan.loan_id);
        let payload = json!({
            "event_id": event.event_id, "reversal_id": reversal.event_id, "replay": replay,
            "charged_off_on": self.from, "reversed_on": self.to
        });
        Ok(audit::record_as(tx, scope, entry.payload(payload))?)
    }
}
