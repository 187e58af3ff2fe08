//! Records the result of an attempt, or that there was none. A sender that has lost its lease changes nothing.

use crate::client::AttemptResult;
use jiff::Timestamp;
use onceward::{DbError, Tx};
use std::time::Duration;
use uuid::Uuid;

const SUCCESS: &str = "
    WITH settled AS (
        UPDATE webhooks.delivery
        SET state = 'delivered', settled_at = now(), leased_until = NULL, attempts = attempts + 1, tried = tried + 1
        WHERE delivery_id = $2 AND lease = $3 AND state = 'pending' RETURNING endpoint_id, tried),
    logged AS (
        INSERT INTO webhooks.attempt (tenant_id, delivery_id, number, started_at, duration_ms, status, error, snippet)
        SELECT $1, $2, s.tried, $4, $5, $6, $7, $8 FROM settled s),
    well AS (
        UPDATE webhooks.endpoint e SET failing_since = NULL FROM settled s
        WHERE e.endpoint_id = s.endpoint_id AND e.failing_since IS NOT NULL)
    SELECT FROM settled";
const FAILURE: &str = "
    WITH settled AS (
        UPDATE webhooks.delivery
        SET attempts = attempts + 1, tried = tried + 1, leased_until = NULL,
            state = CASE WHEN $9::bigint IS NULL THEN 'failed' ELSE 'pending' END,
            settled_at = CASE WHEN $9::bigint IS NULL THEN now() END,
            due_at = CASE WHEN $9::bigint IS NULL THEN due_at ELSE now() + $9::bigint * interval '1 millisecond' END
        WHERE delivery_id = $2 AND lease = $3 AND state = 'pending' RETURNING endpoint_id, tried),
    logged AS (
        INSERT INTO webhooks.attempt (tenant_id, delivery_id, number, started_at, duration_ms, status, error, snippet)
        SELECT $1, $2, s.tried, $4, $5, $6, $7, $8 FROM settled s),
    failing AS (
        UPDATE webhooks.endpoint e SET failing_since = coalesce(e.failing_since, now()) FROM settled s
        WHERE e.endpoint_id = s.endpoint_id RETURNING e.failing_since)
    SELECT f.failing_since, f.failing_since <= now() - $10::int * interval '1 hour' FROM failing f";

const POSTPONE: &str = "
    UPDATE webhooks.delivery
    SET due_at = now() + $3::bigint * interval '1 millisecond', leased_until = NULL
    WHERE delivery_id = $1 AND lease = $2 AND state = 'pending'";

/// One attempt, with the lease it was sent under.
pub(crate) struct AttemptRecord<'a> {
    pub delivery_id: Uuid,
    pub lease: i32,
    pub started_at: Timestamp,
    pub result: &'a AttemptResult,
}

/// Since when an endpoint has been failing, and whether that is too long.
pub(crate) struct FailingPeriod {
    pub since: Timestamp,
    pub is_too_long: bool,
}

/// Records a success. Returns `false` if another sender holds the delivery now.
pub(crate) async fn record_success(tx: &Tx, attempt: &AttemptRecord<'_>) -> Result<bool, DbError> {
    let AttemptRecord { delivery_id, lease, started_at, result } = attempt;
    let (duration_ms, status) = (millis(result.duration), result.status.map(i32::from));
    let tenant = tx.tenant()?.as_str();
    let params: [&(dyn onceward::db::ToSql + Sync); 8] =
        [&tenant, delivery_id, lease, started_at, &duration_ms, &status, &result.error, &result.snippet];
    Ok(!tx.query(SUCCESS, &params).await?.is_empty())
}

/// Records a failure: the delivery is retried after `delay`, or has failed for good without one. Returns `None` if
/// another sender holds the delivery now.
pub(crate) async fn record_failure(
    tx: &Tx,
    attempt: &AttemptRecord<'_>,
    delay: Option<Duration>,
    disable_after_h: i32,
) -> Result<Option<FailingPeriod>, DbError> {
    let AttemptRecord { delivery_id, lease, started_at, result } = attempt;
    let (duration_ms, status, delay_ms) = (millis(result.duration), result.status.map(i32::from), delay.map(millis));
    let tenant = tx.tenant()?.as_str();
    let params: [&(dyn onceward::db::ToSql + Sync); 10] = [
        &tenant,
        delivery_id,
        lease,
        started_at,
        &duration_ms,
        &status,
        &result.error,
        &result.snippet,
        &delay_ms,
        &disable_after_h,
    ];
    let row = tx.query_opt(FAILURE, &params).await?;
    Ok(row.map(|row| FailingPeriod { since: row.get(0), is_too_long: row.get(1) }))
}

/// Returns a delivery that was not sent: it is due again after `delay`, and nothing is counted.
pub(crate) async fn postpone_delivery(tx: &Tx, id: Uuid, lease: i32, delay: Duration) -> Result<(), DbError> {
    tx.execute(POSTPONE, &[&id, &lease, &millis(delay)]).await.map(drop)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
