//! What several mails report about one address.

use crate::feedback::standing::AddressReport;
use jiff::Timestamp;
use onceward::{DbError, Tx};

/// Reports that are read per address, latest first. A stop follows from the latest few.
const REPORTS_MAX: i64 = 500;

const LOCK: &str = "INSERT INTO crm.address_feedback (tenant_id, address_hash) VALUES ($1, $2)
    ON CONFLICT (address_hash, tenant_id) DO UPDATE SET updated_at = now()
    RETURNING bounces_cleared_at";
const CLEAR_BOUNCES: &str = "UPDATE crm.address_feedback SET bounces_cleared_at = clock_timestamp()
    WHERE address_hash = $1";
const REPORTS: &str = "SELECT kind = 'bounced', email_id, occurred_at FROM crm.feedback
    WHERE address_hash = $1 AND (kind = 'delivered' OR (kind = 'bounced' AND NOT is_hard))
    ORDER BY occurred_at DESC LIMIT $2";

/// Locks an address until the end of the transaction. Returns when its bounces were last cleared.
pub(crate) async fn lock_address(tx: &Tx, address_hash: &[u8]) -> Result<Option<Timestamp>, DbError> {
    Ok(tx.query_one(LOCK, &[&tx.tenant()?.as_str(), &address_hash]).await?.get(0))
}

/// Records that the address was verified: earlier bounces do not count any more. The caller holds its lock.
pub(crate) async fn clear_bounces(tx: &Tx, address_hash: &[u8]) -> Result<(), DbError> {
    tx.execute(CLEAR_BOUNCES, &[&address_hash]).await?;
    Ok(())
}

/// Returns the latest soft bounces and deliveries of an address.
pub(crate) async fn address_reports(tx: &Tx, address_hash: &[u8]) -> Result<Vec<AddressReport>, DbError> {
    let rows = tx.query(REPORTS, &[&address_hash, &REPORTS_MAX]).await?;
    let report =
        |row: &onceward::Row| AddressReport { is_bounce: row.get(0), email_id: row.get(1), occurred_at: row.get(2) };
    Ok(rows.iter().map(report).collect())
}
