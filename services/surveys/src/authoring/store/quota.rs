//! Buckets as authors create and see them.

use crate::definition::Condition;
use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use postgres_types::Json;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

const INSERT: &str = "
    WITH next AS (
        UPDATE surveys.survey SET quota_revision = quota_revision + 1, updated_at = now() WHERE survey_id = $2
        RETURNING quota_revision)
    INSERT INTO surveys.quota_bucket (tenant_id, survey_id, bucket_id, name, condition, target_n, max_overfill, since_revision,
        closed_at)
    SELECT $1, $2, b.id, b.name, b.condition::jsonb, b.target, b.overfill, n.quota_revision, CASE WHEN b.target = 0 THEN now() END
    FROM unnest($3::uuid[], $4::text[], $5::text[], $6::int[], $7::int[]) AS b (id, name, condition, target, overfill)
    CROSS JOIN next n";
const RETIRE: &str = "
    WITH next AS (
        UPDATE surveys.survey SET quota_revision = quota_revision + 1, updated_at = now() WHERE survey_id = $1
        RETURNING quota_revision)
    UPDATE surveys.quota_bucket SET until_revision = n.quota_revision FROM next n WHERE bucket_id = $2";
const LIST: &str = "
    SELECT bucket_id, name, condition, target_n, max_overfill, reserved_n, filled_n, closed_at, until_revision IS NOT NULL
    FROM surveys.quota_bucket WHERE survey_id = $1 ORDER BY until_revision IS NOT NULL, bucket_id LIMIT $2";
const LOCK: &str = "
    SELECT bucket_id, name, condition, target_n, max_overfill, reserved_n, filled_n, closed_at, until_revision IS NOT NULL
    FROM surveys.quota_bucket WHERE bucket_id = $1 AND survey_id = $2 FOR NO KEY UPDATE";
const CHANGE: &str = "
    UPDATE surveys.quota_bucket SET target_n = $2, max_overfill = $3,
        closed_at = CASE WHEN filled_n >= $2 THEN coalesce(closed_at, clock_timestamp()) END
    WHERE bucket_id = $1
    RETURNING bucket_id, name, condition, target_n, max_overfill, reserved_n, filled_n, closed_at,
        until_revision IS NOT NULL";
const CONDITIONS: &str = "
    SELECT name, condition FROM surveys.quota_bucket WHERE survey_id = $1 AND until_revision IS NULL ORDER BY bucket_id";

/// The fields of a new bucket.
pub(in crate::authoring) struct NewBucket {
    pub bucket_id: Uuid,
    pub name: String,
    pub condition: Condition,
    pub target: i32,
    pub max_overfill: i32,
}

/// A bucket and its counts.
#[derive(Clone, Debug, Serialize)]
pub(in crate::authoring) struct BucketRow {
    pub bucket_id: Uuid,
    pub name: String,
    pub condition: Value,
    pub target: i32,
    pub max_overfill: i32,
    pub reserved: i32,
    pub filled: i32,
    pub closed_at: Option<Timestamp>,
    pub retired: bool,
}

impl BucketRow {
    fn parse(row: &Row) -> Self {
        Self {
            bucket_id: row.get(0),
            name: row.get(1),
            condition: row.get(2),
            target: row.get(3),
            max_overfill: row.get(4),
            reserved: row.get(5),
            filled: row.get(6),
            closed_at: row.get(7),
            retired: row.get(8),
        }
    }
}

/// Inserts buckets in addition to those in force, with the next revision.
pub(in crate::authoring) async fn insert_buckets(tx: &Tx, survey_id: Uuid, new: &[NewBucket]) -> Result<(), DbError> {
    let ids: Vec<Uuid> = new.iter().map(|bucket| bucket.bucket_id).collect();
    let names: Vec<&str> = new.iter().map(|bucket| bucket.name.as_str()).collect();
    let conditions: Vec<String> = new.iter().map(|bucket| serde_json::json!(bucket.condition).to_string()).collect();
    let targets: Vec<i32> = new.iter().map(|bucket| bucket.target).collect();
    let overfills: Vec<i32> = new.iter().map(|bucket| bucket.max_overfill).collect();
    let tenant = tx.tenant()?.as_str();
    tx.execute(INSERT, &[&tenant, &survey_id, &ids, &names, &conditions, &targets, &overfills]).await?;
    Ok(())
}

/// Retires a bucket with the next revision. Its counts are kept.
pub(in crate::authoring) async fn retire_bucket(tx: &Tx, survey_id: Uuid, bucket_id: Uuid) -> Result<(), DbError> {
    tx.execute(RETIRE, &[&survey_id, &bucket_id]).await?;
    Ok(())
}

pub(in crate::authoring) async fn list_buckets(
    tx: &Tx,
    survey_id: Uuid,
    limit: i64,
) -> Result<Vec<BucketRow>, DbError> {
    Ok(tx.query(LIST, &[&survey_id, &limit]).await?.iter().map(BucketRow::parse).collect())
}

pub(in crate::authoring) async fn lock_bucket(
    tx: &Tx,
    survey_id: Uuid,
    bucket_id: Uuid,
) -> Result<Option<BucketRow>, DbError> {
    Ok(tx.query_opt(LOCK, &[&bucket_id, &survey_id]).await?.as_ref().map(BucketRow::parse))
}

pub(in crate::authoring) async fn change_bucket(
    tx: &Tx,
    bucket_id: Uuid,
    target: i32,
    max_overfill: i32,
) -> Result<BucketRow, DbError> {
    Ok(BucketRow::parse(&tx.query_one(CHANGE, &[&bucket_id, &target, &max_overfill]).await?))
}

/// Returns the conditions in force, with the buckets' names.
pub(in crate::authoring) async fn find_conditions(
    tx: &Tx,
    survey_id: Uuid,
) -> Result<Vec<(String, Condition)>, DbError> {
    let rows = tx.query(CONDITIONS, &[&survey_id]).await?;
    rows.iter()
        .map(|row| {
            let Json(condition) = row.try_get(1)?;
            Ok((row.get(0), condition))
        })
        .collect()
}
