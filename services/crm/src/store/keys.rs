//! Sealed keys.

use onceward::{DbError, Row, Tx, secrets::SealedBytes};
use uuid::Uuid;

const TENANT_KEY: &str = "SELECT root_id, sealed FROM crm.tenant_key WHERE purpose = 'addresses'";
const INSERT_TENANT_KEY: &str = "INSERT INTO crm.tenant_key (tenant_id, purpose, root_id, sealed)
    VALUES ($1, 'addresses', $2, $3) ON CONFLICT DO NOTHING";
const DATA_KEY: &str = "SELECT root_id, sealed FROM crm.data_key WHERE key_id = $1";
const INSERT_DATA_KEY: &str = "INSERT INTO crm.data_key (tenant_id, key_id, root_id, sealed)
    VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
const FORGET_DATA_KEY: &str = "UPDATE crm.data_key SET sealed = NULL, forgotten_at = now()
    WHERE key_id = $1 AND forgotten_at IS NULL";

/// Returns the key of the tenant's address hashes, or `None` if it has none yet.
pub(crate) async fn tenant_key(tx: &Tx) -> Result<Option<SealedBytes>, DbError> {
    Ok(tx.query_opt(TENANT_KEY, &[]).await?.map(|row| sealed(&row)))
}

/// Stores the tenant's key, unless another transaction was faster.
pub(crate) async fn insert_tenant_key(tx: &Tx, key: &SealedBytes) -> Result<(), DbError> {
    tx.execute(INSERT_TENANT_KEY, &[&tx.tenant()?.as_str(), &key.key_id, &key.bytes]).await?;
    Ok(())
}

/// Returns a data key: `None` if it does not exist, `Some(None)` if it was forgotten.
pub(crate) async fn data_key(tx: &Tx, key_id: Uuid) -> Result<Option<Option<SealedBytes>>, DbError> {
    let row = tx.query_opt(DATA_KEY, &[&key_id]).await?;
    Ok(row.map(|row| {
        let bytes: Option<Vec<u8>> = row.get(1);
        bytes.map(|bytes| SealedBytes { key_id: row.get(0), bytes })
    }))
}

/// Stores a data key. Returns `false` if another transaction was faster.
pub(crate) async fn insert_data_key(tx: &Tx, key_id: Uuid, key: &SealedBytes) -> Result<bool, DbError> {
    let inserted = tx.execute(INSERT_DATA_KEY, &[&tx.tenant()?.as_str(), &key_id, &key.key_id, &key.bytes]).await?;
    Ok(inserted == 1)
}

/// Forgets a data key. Returns whether there was one.
pub(crate) async fn forget_data_key(tx: &Tx, key_id: Uuid) -> Result<bool, DbError> {
    Ok(tx.execute(FORGET_DATA_KEY, &[&key_id]).await? == 1)
}

fn sealed(row: &Row) -> SealedBytes {
    SealedBytes { key_id: row.get(0), bytes: row.get(1) }
}
