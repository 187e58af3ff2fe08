//! Objects that are stored before the commit that refers to them.

use onceward::{DbError, Tx};

const PENDING: &str = "INSERT INTO crm.pending_object (tenant_id, object_key) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const NO_LONGER_PENDING: &str = "DELETE FROM crm.pending_object WHERE object_key = ANY ($1)";
const ABANDONED: &str = "SELECT tenant_id, object_key FROM crm.abandoned_objects(make_interval(mins => $1), $2)";
const FORGET_ABANDONED: &str = "SELECT crm.forget_abandoned($1, $2)";

/// Remembers an object that is about to be stored, so that it is swept if the request is never committed.
pub(crate) async fn remember_pending(tx: &Tx, object_key: &str) -> Result<(), DbError> {
    tx.execute(PENDING, &[&tx.tenant()?.as_str(), &object_key]).await?;
    Ok(())
}

/// Forgets pending objects that the transaction's own rows refer to.
pub(crate) async fn forget_pending(tx: &Tx, object_keys: &[String]) -> Result<(), DbError> {
    tx.execute(NO_LONGER_PENDING, &[&object_keys]).await?;
    Ok(())
}

/// Returns tenant and key of objects whose request was not committed within this time, over all tenants.
pub(crate) async fn abandoned_objects(tx: &Tx, minutes: i32, most: i32) -> Result<Vec<(String, String)>, DbError> {
    let rows = tx.query(ABANDONED, &[&minutes, &most]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Forgets abandoned objects that were deleted.
pub(crate) async fn forget_abandoned(tx: &Tx, objects: &[(String, String)]) -> Result<(), DbError> {
    let (tenants, keys): (Vec<&str>, Vec<&str>) =
        objects.iter().map(|(tenant, key)| (tenant.as_str(), key.as_str())).unzip();
    tx.execute(FORGET_ABANDONED, &[&tenants, &keys]).await?;
    Ok(())
}
