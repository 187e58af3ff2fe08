//! The inbox: what a consumer has handled already.
//!
//! On the Postgres bus settling is part of the handler's transaction, so a message cannot come
//! twice and needs no row here. Other buses, and consumers in other languages, do need it.

use crate::store;
use onceward_db::{DbError, Tx};
use onceward_envelope::IdempotencyKey;

/// `true` the first time `consumer` sees this key of the transaction's tenant.
pub async fn record(tx: &Tx, consumer: &str, key: &IdempotencyKey) -> Result<bool, DbError> {
    let tenant = tx.tenant()?.as_str();
    let row = tx.query_one(store::RECORD_INBOX, &[&tenant, &key.as_str(), &consumer]).await?;
    Ok(row.get(0))
}
