//! Products, by version.

use crate::model::ProductPolicy;
use onceward::{DbError, Tx};
use postgres_types::Json;

// The lock serializes two first versions, or two next ones.
const LOCK_CODE: &str = "SELECT pg_advisory_xact_lock(19022, hashtext($1 || '/' || $2))";
const INSERT: &str = "INSERT INTO lending.product_policy (tenant_id, code, version, policy) \
     SELECT $1, $2, coalesce(max(version), 0) + 1, $3 FROM lending.product_policy WHERE code = $2 RETURNING version";
const FIND: &str = "SELECT version, policy FROM lending.product_policy \
     WHERE code = $1 AND ($2::int IS NULL OR version = $2) ORDER BY version DESC LIMIT 1";

/// Inserts the next version of a product and returns its number.
pub(crate) async fn insert_product(tx: &Tx, policy: &ProductPolicy) -> Result<i32, DbError> {
    let tenant = tx.tenant()?.as_str();
    tx.execute(LOCK_CODE, &[&tenant, &policy.code]).await?;
    Ok(tx.query_one(INSERT, &[&tenant, &policy.code, &Json(policy)]).await?.get(0))
}

/// Returns a version of a product, or the latest.
pub(crate) async fn find_product(
    tx: &Tx,
    code: &str,
    version: Option<i32>,
) -> Result<Option<(i32, ProductPolicy)>, DbError> {
    let Some(row) = tx.query_opt(FIND, &[&code, &version]).await? else {
        return Ok(None);
    };
    let Json(policy) = row.try_get(1)?;
    Ok(Some((row.get(0), policy)))
}
