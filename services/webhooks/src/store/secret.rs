//! Stores the secrets that messages are signed with, sealed.

use onceward::secrets::SealedBytes;
use onceward::{DbError, TenantId, Tx};
use serde_json::Value;
use uuid::Uuid;

/// The most valid secrets per endpoint: each costs a signature in every message.
const MAX_VALID_SECRETS: i32 = 5;

/// Earlier secrets stay valid for the overlap, but never longer than they would have been.
const EXPIRE: &str = "
    UPDATE webhooks.secret
    SET expires_at = least(coalesce(expires_at, 'infinity'), now() + $2::bigint * interval '1 second') WHERE endpoint_id = $1";
const DELETE_EXPIRED: &str = "
    DELETE FROM webhooks.secret s WHERE s.endpoint_id = $1 AND (s.expires_at <= now()
        OR s.number <= (SELECT max(number) FROM webhooks.secret WHERE endpoint_id = $1) + 1 - $2)";
const INSERT: &str = "
    INSERT INTO webhooks.secret (tenant_id, endpoint_id, number, key_id, secret)
    SELECT $1, $2, coalesce(max(number), 0) + 1, $3, $4 FROM webhooks.secret WHERE endpoint_id = $2";
const LOCK_WITH_KEYS: &str =
    "SELECT tenant_id, endpoint_id, number, key_id, secret FROM webhooks.secrets_under($1, $2)";
const REPLACE: &str = "SELECT webhooks.reseal($1, $2, $3, $4, $5)";
const LIST: &str = "
    SELECT coalesce(jsonb_agg(jsonb_build_object('number', number, 'created_at', created_at, 'expires_at', expires_at)
        ORDER BY number DESC), '[]')
    FROM webhooks.secret WHERE endpoint_id = $1 AND (expires_at IS NULL OR expires_at > now())";

/// A secret as stored in the table.
pub(crate) struct StoredSecret {
    pub tenant: TenantId,
    pub endpoint_id: Uuid,
    number: i32,
    pub sealed: SealedBytes,
}

/// Adds `secret` as the newest. Earlier ones stay valid for at most `overlap_s`.
pub(crate) async fn insert_secret(
    tx: &Tx,
    endpoint_id: Uuid,
    secret: &SealedBytes,
    overlap_s: i64,
) -> Result<(), DbError> {
    tx.execute(EXPIRE, &[&endpoint_id, &overlap_s]).await?;
    tx.execute(DELETE_EXPIRED, &[&endpoint_id, &MAX_VALID_SECRETS]).await?;
    tx.execute(INSERT, &[&tx.tenant()?.as_str(), &endpoint_id, &secret.key_id, &secret.bytes]).await.map(drop)
}

/// Returns the numbers and times of the valid secrets, without the secrets themselves.
pub(crate) async fn list_secrets(tx: &Tx, endpoint_id: Uuid) -> Result<Value, DbError> {
    Ok(tx.query_one(LIST, &[&endpoint_id]).await?.get(0))
}

/// Locks and returns up to `limit` secrets, of all tenants, that are sealed with one of these keys.
pub(crate) async fn lock_secrets_with_keys(
    tx: &Tx,
    key_ids: &[&str],
    limit: i32,
) -> Result<Vec<StoredSecret>, DbError> {
    let rows = tx.query(LOCK_WITH_KEYS, &[&key_ids, &limit]).await?;
    let secrets = rows.iter().filter_map(|row| {
        Some(StoredSecret {
            tenant: TenantId::new(row.get::<_, &str>("tenant_id")).ok()?,
            endpoint_id: row.get("endpoint_id"),
            number: row.get("number"),
            sealed: SealedBytes { key_id: row.get("key_id"), bytes: row.get("secret") },
        })
    });
    Ok(secrets.collect())
}

/// Replaces the sealed bytes of a stored secret.
pub(crate) async fn replace_secret(tx: &Tx, stored: &StoredSecret, sealed: &SealedBytes) -> Result<(), DbError> {
    let StoredSecret { tenant, endpoint_id, number, .. } = stored;
    tx.execute(REPLACE, &[&tenant.as_str(), endpoint_id, number, &sealed.key_id, &sealed.bytes]).await.map(drop)
}
