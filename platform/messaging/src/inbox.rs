//! The inbox: the record of what a consumer has already handled.
//!
//! On the PostgreSQL bus, settling is part of the handler's transaction, so a message cannot be delivered twice and
//! needs no row here. Other buses, and consumers in other languages, need it.

use crate::store;
use onceward_db::{DbError, Tx};
use onceward_envelope::IdempotencyKey;

/// Records the key for `consumer` and the transaction's tenant. Returns `true` if it was not recorded before.
pub async fn record(tx: &Tx, consumer: &str, key: &IdempotencyKey) -> Result<bool, DbError> {
    let tenant = tx.tenant()?.as_str();
    let row = tx.query_one(store::RECORD_INBOX, &[&tenant, &key.as_str(), &consumer]).await?;
    Ok(row.get(0))
}
