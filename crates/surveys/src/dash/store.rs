//! The SQL of the live view.

use super::{
    facts::Fact,
    snapshot::{Bucket, Minute, Progress, Standing},
};
use onceward::{Db, DbError, Scope, Tx};
use uuid::Uuid;

/// Minutes that are shown one by one.
const MINUTES_SHOWN: i32 = 15;

/// Counts all of `facts`.
pub(crate) async fn count(tx: &Tx, facts: &[Fact]) -> Result<(), DbError> {
    macro_rules! column {
        ($field:ident) => {
            facts.iter().map(|fact| fact.$field.clone()).collect::<Vec<_>>()
        };
    }
    tx.execute(
        "SELECT surveys.dash_count($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            &column!(survey_id),
            &column!(collector_id),
            &column!(bucket_id),
            &column!(session_id),
            &column!(kind),
            &column!(detail),
            &column!(page_index),
            &column!(at),
        ],
    )
    .await?;
    Ok(())
}

/// How far the counting of a survey is; `None` if there is no such survey.
pub(super) async fn progress(tx: &Tx, survey_id: Uuid) -> Result<Option<Progress>, DbError> {
    let row = tx
        .query_opt(
            "SELECT s.title, s.status, coalesce(p.events, 0), p.newest_at, p.delay_ms, clock_timestamp()
             FROM surveys.survey s LEFT JOIN surveys.dash_progress p ON p.survey_id = s.survey_id AND p.tenant_id = s.tenant_id
             WHERE s.survey_id = $1",
            &[&survey_id],
        )
        .await?;
    Ok(row.map(|row| Progress {
        title: row.get(0),
        status: row.get(1),
        events: row.get(2),
        newest_at: row.get(3),
        delay_ms: row.get(4),
        now: row.get(5),
    }))
}

/// Where its sessions stand.
pub(super) async fn standings(tx: &Tx, survey_id: Uuid) -> Result<Vec<Standing>, DbError> {
    let rows = tx
        .query(
            "SELECT t.collector_id, c.name, t.page_id, t.page_index, t.state, t.n FROM surveys.dash_standing t
             LEFT JOIN surveys.collector c ON c.collector_id = t.collector_id AND c.tenant_id = t.tenant_id
             WHERE t.survey_id = $1 AND t.n <> 0",
            &[&survey_id],
        )
        .await?;
    let standing = |row: &onceward::Row| Standing {
        collector_id: row.get(0),
        collector: row.get(1),
        page_id: row.get(2),
        page_index: row.get(3),
        state: row.get(4),
        n: row.get(5),
    };
    Ok(rows.iter().map(standing).collect())
}

/// What happened in the last minutes, the latest last.
pub(super) async fn minutes(tx: &Tx, survey_id: Uuid) -> Result<Vec<Minute>, DbError> {
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
    let minute = |row: &onceward::Row| Minute {
        minute: row.get(0),
        events: row.get(1),
        started: row.get(2),
        completed: row.get(3),
    };
    Ok(rows.iter().map(minute).collect())
}

/// Its buckets, from where places are given out.
pub(super) async fn buckets(tx: &Tx, survey_id: Uuid) -> Result<Vec<Bucket>, DbError> {
    let rows = tx
        .query(
            "SELECT bucket_id, name, target_n, max_overfill, reserved_n, filled_n, closed_at IS NOT NULL
             FROM surveys.quota_bucket WHERE survey_id = $1 AND until_revision IS NULL ORDER BY created_at, name, bucket_id",
            &[&survey_id],
        )
        .await?;
    let bucket = |row: &onceward::Row| Bucket {
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

/// Places taken beyond what is allowed, over all tenants.
pub(super) async fn overfill(db: &Db) -> Result<i64, DbError> {
    let tx = db.begin(Scope::platform("surveys")).await?;
    let row = tx.query_one("SELECT surveys.dash_overfill()", &[]).await?;
    tx.rollback().await?;
    Ok(row.get(0))
}
