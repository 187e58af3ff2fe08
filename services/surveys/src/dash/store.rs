//! The SQL of the live view.

use super::{
    consumer::CountedEvent,
    funnel::{IdleSessions, PublishedPage},
    snapshot::{BucketFill, CountingProgress, MinuteCounts, PositionCount},
};
use jiff::Timestamp;
use onceward::{Db, DbError, Scope, Tx};
use postgres_types::Json;
use uuid::Uuid;

/// The number of minutes shown individually.
pub(super) const MINUTES_SHOWN: i32 = 60;

/// Counts all `events`.
pub(super) async fn count(tx: &Tx, events: &[CountedEvent]) -> Result<(), DbError> {
    tx.execute("SELECT surveys.dash_count($1)", &[&Json(events)]).await?;
    Ok(())
}

/// Records a probe as sent and returns its time. Returns `None` while one is in flight, or if the last was sent less
/// than five seconds ago.
pub(super) async fn record_probe(tx: &Tx, survey_id: Uuid) -> Result<Option<Timestamp>, DbError> {
    let row = tx
        .query_opt(
            "INSERT INTO surveys.dash_probe AS p (tenant_id, survey_id, sent_at)
             SELECT s.tenant_id, s.survey_id, clock_timestamp()
             FROM surveys.survey s
             WHERE s.survey_id = $1
             ON CONFLICT (survey_id, tenant_id) DO UPDATE
             SET sent_at = excluded.sent_at
             WHERE p.seen_at >= p.sent_at AND p.sent_at < excluded.sent_at - interval '5 seconds'
             RETURNING sent_at",
            &[&survey_id],
        )
        .await?;
    Ok(row.map(|row| row.get(0)))
}

/// Removes up to `batch_max` rows per table that are older than `keep_days`. Returns `true` if more may remain.
pub(super) async fn delete_old_counters(tx: &Tx, keep_days: i32, batch_max: i64) -> Result<bool, DbError> {
    let tallies = tx
        .execute(
            "WITH old AS (
                SELECT t.ctid
                FROM surveys.dash_tally t
                WHERE t.minute < clock_timestamp() - make_interval(days => $1)
                LIMIT $2)
             DELETE FROM surveys.dash_tally t
             USING old
             WHERE t.ctid = old.ctid",
            &[&keep_days, &batch_max],
        )
        .await?;
    // Active sessions stay: later events of a removed session would be counted as a new session.
    let sessions = tx
        .execute(
            "WITH old AS (
                SELECT s.ctid
                FROM surveys.dash_session s
                WHERE s.state <> 'active' AND s.seen_at < clock_timestamp() - make_interval(days => $1)
                LIMIT $2)
             DELETE FROM surveys.dash_session s
             USING old
             WHERE s.ctid = old.ctid",
            &[&keep_days, &batch_max],
        )
        .await?;
    Ok([tallies, sessions].iter().any(|count| i64::try_from(*count).is_ok_and(|count| count >= batch_max)))
}

/// Returns the counting progress of a survey, or `None` if the survey does not exist.
pub(super) async fn find_progress(tx: &Tx, survey_id: Uuid) -> Result<Option<CountingProgress>, DbError> {
    let row = tx
        .query_opt(
            "SELECT s.title, s.status, coalesce(p.events, 0), p.newest_at, p.delay_ms, clock_timestamp(),
                CASE
                    WHEN b.sent_at > coalesce(b.seen_at, '-infinity')
                    THEN (extract(epoch FROM clock_timestamp() - b.sent_at) * 1000)::bigint
                    ELSE 0
                END
             FROM surveys.survey s
             LEFT JOIN surveys.dash_progress p ON p.survey_id = s.survey_id AND p.tenant_id = s.tenant_id
             LEFT JOIN surveys.dash_probe b ON b.survey_id = s.survey_id AND b.tenant_id = s.tenant_id
             WHERE s.survey_id = $1",
            &[&survey_id],
        )
        .await?;
    Ok(row.map(|row| CountingProgress {
        title: row.get(0),
        status: row.get(1),
        events: row.get(2),
        newest_at: row.get(3),
        delay_ms: row.get(4),
        now: row.get(5),
        lag_ms: row.get(6),
    }))
}

/// Returns the number of the survey's sessions by position.
pub(super) async fn list_positions(tx: &Tx, survey_id: Uuid) -> Result<Vec<PositionCount>, DbError> {
    let rows = tx
        .query(
            "SELECT t.collector_id, c.name, t.page_id, t.page_index, t.state, t.n FROM surveys.dash_standing t
             LEFT JOIN surveys.collector c ON c.collector_id = t.collector_id AND c.tenant_id = t.tenant_id
             WHERE t.survey_id = $1 AND t.n <> 0",
            &[&survey_id],
        )
        .await?;
    let position = |row: &onceward::Row| PositionCount {
        collector_id: row.get(0),
        collector_name: row.get(1),
        page_id: row.get(2),
        page_index: row.get(3),
        state: row.get(4),
        sessions: row.get(5),
    };
    Ok(rows.iter().map(position).collect())
}

/// Returns the pages of the published definition, in order.
pub(super) async fn list_published_pages(tx: &Tx, survey_id: Uuid) -> Result<Vec<PublishedPage>, DbError> {
    let rows = tx
        .query(
            "SELECT p.page ->> 'id', p.page ->> 'title'
             FROM surveys.survey s
             JOIN surveys.definition d
                ON d.survey_id = s.survey_id AND d.tenant_id = s.tenant_id AND d.version = s.published_version
             CROSS JOIN LATERAL jsonb_array_elements(d.definition -> 'pages') WITH ORDINALITY AS p (page, n)
             WHERE s.survey_id = $1
             ORDER BY p.n",
            &[&survey_id],
        )
        .await?;
    Ok(rows.iter().map(|row| PublishedPage { page_id: row.get(0), title: row.get(1) }).collect())
}

/// Returns the positions of active sessions that have been idle for longer than `idle_s`.
pub(super) async fn count_idle(tx: &Tx, survey_id: Uuid, idle_s: u32) -> Result<Vec<IdleSessions>, DbError> {
    let rows = tx
        .query(
            "SELECT page_id, count(*)
             FROM surveys.dash_session
             WHERE survey_id = $1 AND state = 'active' AND seen_at < clock_timestamp() - make_interval(secs => $2)
             GROUP BY page_id",
            &[&survey_id, &f64::from(idle_s)],
        )
        .await?;
    Ok(rows.iter().map(|row| IdleSessions { page_id: row.get(0), sessions: row.get(1) }).collect())
}

/// Returns the counts of the last minutes, oldest first.
pub(super) async fn list_minutes(tx: &Tx, survey_id: Uuid) -> Result<Vec<MinuteCounts>, DbError> {
    let rows = tx
        .query(
            "SELECT minute, sum(n)::bigint, coalesce(sum(n) FILTER (WHERE kind = 'started'), 0)::bigint,
                coalesce(sum(n) FILTER (WHERE kind = 'completed'), 0)::bigint
             FROM surveys.dash_tally
             WHERE survey_id = $1 AND minute > date_trunc('minute', clock_timestamp()) - make_interval(mins => $2)
             GROUP BY minute ORDER BY minute",
            &[&survey_id, &MINUTES_SHOWN],
        )
        .await?;
    let minute = |row: &onceward::Row| MinuteCounts {
        minute: row.get(0),
        events: row.get(1),
        started: row.get(2),
        completed: row.get(3),
    };
    Ok(rows.iter().map(minute).collect())
}

/// Returns the survey's buckets in force in the order of their creation, with the counts that the gate uses.
pub(super) async fn list_buckets(tx: &Tx, survey_id: Uuid) -> Result<Vec<BucketFill>, DbError> {
    let rows = tx
        .query(
            "SELECT bucket_id, name, target_n, max_overfill, reserved_n, filled_n, closed_at IS NOT NULL
             FROM surveys.quota_bucket WHERE survey_id = $1 AND until_revision IS NULL
             ORDER BY created_at, bucket_id",
            &[&survey_id],
        )
        .await?;
    let bucket = |row: &onceward::Row| BucketFill {
        bucket_id: row.get(0),
        name: row.get(1),
        target: row.get(2),
        max_overfill: row.get(3),
        reserved: row.get(4),
        filled: row.get(5),
        closed: row.get(6),
    };
    Ok(rows.iter().map(bucket).collect())
}

/// Returns the number of places taken beyond the limits, over all tenants.
pub(super) async fn count_overfill(db: &Db) -> Result<i64, DbError> {
    let tx = db.begin(Scope::platform("surveys")).await?;
    let row = tx.query_one("SELECT surveys.dash_overfill()", &[]).await?;
    tx.rollback().await?;
    Ok(row.get(0))
}
