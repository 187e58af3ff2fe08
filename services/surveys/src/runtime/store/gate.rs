//! The quota gate: reads sets of buckets, and writes the results of several steps in one call.

use super::{SessionStatus, session::to_i32};
use crate::{
    Settings,
    events::TerminationReason,
    quota::{BucketChange, BucketChangeKind, PlaceChanges, QuotaBucket, StepPlaces},
};
use onceward::{DbError, Row, Tx};
use postgres_types::Json;
use serde_json::{Map, Value};
use uuid::Uuid;

const BUCKETS: &str = "
    SELECT bucket_id, condition
    FROM surveys.quota_bucket
    WHERE survey_id = $1 AND since_revision <= $2 AND (until_revision IS NULL OR until_revision > $2)
    ORDER BY bucket_id";
const STEPS: &str = "
    SELECT item, bucket_id, moved, reserved, filled, target, closed
    FROM surveys.steps($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

/// A step to write: the new state of its session.
pub(crate) struct StepWrite<'a> {
    pub session_id: Uuid,
    pub status: SessionStatus,
    pub changes: &'a PlaceChanges,
    pub submitted: Option<&'a SubmittedPage>,
}

/// A submitted page, as it is stored.
pub(crate) struct SubmittedPage {
    pub page_id: String,
    pub attempt: i32,
    pub answers: Map<String, Value>,
    pub digest: [u8; 32],
    /// The response to the submit, for repeated requests.
    pub outcome: Value,
}

/// Returns the set of buckets at this revision, which never changes.
pub(crate) async fn find_buckets(tx: &Tx, survey_id: Uuid, revision: i32) -> Result<Vec<QuotaBucket>, DbError> {
    let rows = tx.query(BUCKETS, &[&survey_id, &revision]).await?;
    rows.iter()
        .map(|row| {
            let Json(condition) = row.try_get(1)?;
            Ok(QuotaBucket { bucket_id: row.get(0), condition })
        })
        .collect()
}

/// Changes the places of locked sessions and writes their new states, as if the steps ran one after the other. A
/// session that finds a bucket full is ended, and `outcome_full` is stored as the outcome of the page. Returns the
/// places of each step.
pub(crate) async fn write_steps(
    tx: &Tx,
    steps: &[StepWrite<'_>],
    outcome_full: &Value,
    settings: &Settings,
) -> Result<Vec<StepPlaces>, DbError> {
    let sessions: Vec<Uuid> = steps.iter().map(|step| step.session_id).collect();
    let statuses: Vec<&str> = steps.iter().map(|step| step.status.as_str()).collect();
    let reasons: Vec<_> = steps.iter().map(|step| step.status.reason().map(TerminationReason::as_str)).collect();
    let pages: Vec<_> = steps.iter().map(|step| step.submitted.map(|page| page.page_id.as_str())).collect();
    let attempts: Vec<_> = steps.iter().map(|step| step.submitted.map(|page| page.attempt)).collect();
    let answers: Vec<_> = steps.iter().map(|step| step.submitted.map(|page| Json(&page.answers))).collect();
    let digests: Vec<_> = steps.iter().map(|step| step.submitted.map(|page| page.digest.as_slice())).collect();
    let outcomes: Vec<_> = steps.iter().map(|step| step.submitted.map(|page| &page.outcome)).collect();
    let (mut items, mut buckets, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for (item, step) in (1_i32..).zip(steps) {
        for (kind, bucket) in step.changes.each() {
            items.push(item);
            buckets.push(bucket);
            kinds.push(kind);
        }
    }
    let (reservation_s, session_s) = (to_i32(settings.reservation_s), to_i32(settings.session_s));
    let rows = tx
        .query(
            STEPS,
            &[
                &sessions,
                &statuses,
                &reasons,
                &pages,
                &attempts,
                &answers,
                &digests,
                &outcomes,
                outcome_full,
                &items,
                &buckets,
                &kinds,
                &reservation_s,
                &session_s,
            ],
        )
        .await?;
    Ok(places_by_step(&rows, steps.len()))
}

/// Groups the rows of `surveys.steps` by step number.
fn places_by_step(rows: &[Row], steps: usize) -> Vec<StepPlaces> {
    let mut all: Vec<StepPlaces> = (0..steps).map(|_| StepPlaces::default()).collect();
    for row in rows {
        let places = &mut all[row.get::<_, i32>(0) as usize - 1];
        let kind = match row.get(2) {
            "released" => BucketChangeKind::Released,
            "reserved" => BucketChangeKind::Reserved,
            "finalized" => BucketChangeKind::Finalized,
            // The row of a step that found a bucket full.
            _ => {
                places.full = true;
                continue;
            }
        };
        places.changes.push(BucketChange {
            bucket_id: row.get(1),
            kind,
            reserved: row.get(3),
            filled: row.get(4),
            target: row.get(5),
            closed: row.get(6),
        });
    }
    all
}
