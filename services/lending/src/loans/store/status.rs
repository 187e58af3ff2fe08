//! The status history of a loan.

use crate::model::LoanStatus;
use jiff::{Timestamp, civil::Date};
use onceward::{DbError, Row, Tx};
use serde::Serialize;
use uuid::Uuid;

/// Nothing depends on the history of a loan that was never funded, and `created` no longer counts after funding.
const FIND: &str = "
    SELECT from_status, status, effective_date, changed_by, changed_at
    FROM lending.loan_status_change
    WHERE loan_id = $1
    ORDER BY changed_at, version";

/// A change of a loan's status.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StatusChange {
    /// The previous status; none for a new loan.
    pub from: Option<LoanStatus>,
    pub to: LoanStatus,
    pub effective_date: Date,
    pub recorded_at: Timestamp,
    pub actor: Option<String>,
}

/// Returns the changes in the order in which they were recorded.
pub(crate) async fn status_changes(tx: &Tx, loan_id: Uuid) -> Result<Vec<StatusChange>, DbError> {
    tx.query(FIND, &[&loan_id]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<StatusChange, DbError> {
    let status = |text: &str| -> Result<LoanStatus, DbError> {
        text.parse().map_err(|_| DbError::Config(format!("a loan had the status {text}; correct the row")))
    };
    Ok(StatusChange {
        from: row.get::<_, Option<&str>>("from_status").map(status).transpose()?,
        to: status(row.get("status"))?,
        effective_date: row.get("effective_date"),
        recorded_at: row.get("changed_at"),
        actor: row.get("changed_by"),
    })
}
