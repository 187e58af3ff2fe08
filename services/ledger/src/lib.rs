//! Double-entry bookkeeping: events that balance, lines that never change, balances that agree with them.
//!
//! Reading order: [`account`] is the chart of accounts, [`mod@event`] defines what is posted, [`mod@balances`] holds a
//! loan's balances. Everything that reads or writes is in `store`: `post` and `reverse` write, `read` returns balances,
//! now or as of a day, and `check` proves that nothing is lost.
//!
//! ```text
//! draft ── sp_finalize_ledger_event ──▶ final ── reverse, at most once ──▶ final, with a mirror image
//!   │      two lines or more, debits = credits per currency; moves the balances
//!   └─ lines can be added
//! ```
//!
//! [`post()`], [`post_all`] and [`reverse()`] do all of this in one round trip. The only way to correct a mistake is a
//! reversal. A posting is identified by its correlation id: posting the same one again writes nothing and leaves the
//! transaction usable, so that a repeated message can be settled in it.
//!
//! An event belongs to one loan, or to none: [`NO_LOAN`] names the tenant's own books, which hold money that no loan
//! has yet.
//!
//! **Deadlocks.** A call locks balances in one order, account before loan, so calls never deadlock. A transaction that
//! posts several times takes locks in the order of its calls: post everything with one [`post_all`], or begin with
//! [`balances_locked`] for each loan in the order of their ids.
//!
//! Invariants, enforced by the database for every writer (`migrations/0001_tables.sql`): a final event balances per
//! currency and is never updated or deleted; lines can be added to drafts only; a balance is the sum of its final
//! lines. No query here names a tenant: row-level security adds it to every condition.

pub mod account;
pub mod balances;
mod error;
pub mod event;
mod store;

pub use account::{Account, Side};
pub use balances::Balances;
pub use error::LedgerError;
pub use event::{HistoryCursor, LedgerEvent, LedgerLine, NO_LOAN, NewLedgerEvent, NewLine, credit, debit};
pub use store::{
    BalanceDifference, LedgerCheck, MAX_EVENTS, MAX_FINDINGS, MAX_PAGE, PostedEvent, PostingOutcome, REVERSAL_SCHEMA,
    TrialBalanceLine, UnbalancedEvent, balances, balances_as_of, balances_locked, balances_of_all, check, differences,
    event, history, post, post_all, reverse, tenants, trial_balance, unbalanced,
};

use onceward_db::{Migration, Migrations, RequiredTable};

/// The schema `ledger`.
pub const MIGRATIONS: Migrations = Migrations {
    schema: "ledger",
    steps: &[
        Migration { name: "0001_tables", sql: include_str!("../migrations/0001_tables.sql") },
        Migration { name: "0002_functions", sql: include_str!("../migrations/0002_functions.sql") },
    ],
};

/// The columns this crate relies on, for the start-up check.
pub const REQUIRED: &[RequiredTable] = &[
    RequiredTable {
        table: "ledger.ledger_event",
        columns: &[
            "tenant_id",
            "event_id",
            "loan_id",
            "schema",
            "correlation_id",
            "effective_date",
            "created_at",
            "finalized_at",
            "reverses",
            "note",
        ],
    },
    RequiredTable {
        table: "ledger.ledger_entry",
        columns: &[
            "tenant_id",
            "event_id",
            "line_no",
            "loan_id",
            "account",
            "currency",
            "debit_minor",
            "credit_minor",
            "memo",
            "effective_date",
        ],
    },
    RequiredTable {
        table: "ledger.balance",
        columns: &["tenant_id", "loan_id", "account", "currency", "balance_minor"],
    },
];
