//! All SQL of stored responses.

use super::ScopedKey;
use onceward_db::{Db, DbError, Tx};

/// The response to the first request, as it is stored and returned again.
#[derive(Clone, Debug)]
pub(crate) struct StoredResponse {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// The result of claiming a key.
#[derive(Debug)]
pub(crate) enum KeyClaim {
    /// The key was not used before; this transaction holds it until it ends.
    Free,
    /// Another request holds it.
    InProgress,
    /// The command was completed with the same body.
    Completed(StoredResponse),
    /// The command was completed with a different body.
    OtherBody,
}

/// Claims the key for this transaction, or returns why it cannot be claimed.
pub(crate) async fn claim(tx: &Tx, key: &ScopedKey) -> Result<KeyClaim, DbError> {
    let row = tx
        .query_one(
            "SELECT state, request_fingerprint, status, content_type, location, body
             FROM onceward_web.claim_key($1, $2)",
            &[&key.lock(), &&key.scope_digest[..]],
        )
        .await?;
    Ok(match row.get::<_, &str>(0) {
        "free" => KeyClaim::Free,
        "running" => KeyClaim::InProgress,
        _ if row.get::<_, &[u8]>(1) != key.request_fingerprint => KeyClaim::OtherBody,
        _ => KeyClaim::Completed(StoredResponse {
            status: row.get::<_, i16>(2).unsigned_abs(),
            content_type: row.get(3),
            location: row.get(4),
            body: row.get(5),
        }),
    })
}

/// Stores the response, to be committed with the command's effects. An expired row of the same key is replaced. Returns
/// `false` if a live row exists, which the lock rules out unless it was lost with its connection.
pub(crate) async fn save(tx: &Tx, key: &ScopedKey, response: &StoredResponse, ttl_s: u64) -> Result<bool, DbError> {
    let tenant = tx.tenant()?.as_str().to_owned();
    let status = i16::try_from(response.status).unwrap_or(500);
    let ttl_s = i32::try_from(ttl_s).unwrap_or(i32::MAX);
    let written = tx
        .execute(
            "INSERT INTO onceward_web.idempotency_key AS k
                 (tenant_id, scope_digest, request_fingerprint, status, content_type, location, body, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + make_interval(secs => $8::int))
             ON CONFLICT (tenant_id, scope_digest) DO UPDATE
             SET request_fingerprint = excluded.request_fingerprint, status = excluded.status,
                 content_type = excluded.content_type, location = excluded.location, body = excluded.body,
                 created_at = excluded.created_at, expires_at = excluded.expires_at
             WHERE k.expires_at <= clock_timestamp()",
            &[
                &tenant,
                &&key.scope_digest[..],
                &&key.request_fingerprint[..],
                &status,
                &response.content_type,
                &response.location,
                &response.body,
                &ttl_s,
            ],
        )
        .await?;
    Ok(written == 1)
}

/// Deletes up to `limit` expired keys of all tenants and returns their number. The platform calls it periodically.
pub async fn forget_expired(db: &Db, limit: u32) -> Result<u64, DbError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let rows = db.connection().await?.query("SELECT onceward_web.forget_expired($1)", &[&limit]).await?;
    Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}
