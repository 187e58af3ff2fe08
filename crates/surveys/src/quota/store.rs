//! Buckets: sets in force, and what a step of a session moved.

use super::Bucket;
use onceward::{DbError, Row, Tx};
use postgres_types::Json;
use uuid::Uuid;

const BUCKETS: &str = "
    SELECT bucket_id, condition FROM surveys.quota_bucket
    WHERE survey_id = $1 AND since_revision <= $2 AND (until_revision IS NULL OR until_revision > $2) ORDER BY bucket_id";

/// What a step did to one bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moved {
    pub bucket_id: Uuid,
    pub kind: Kind,
    pub reserved: i32,
    pub filled: i32,
    pub target: i32,
    /// The bucket reached its target by this.
    pub closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Released,
    Reserved,
    Finalized,
}

/// What a step came to.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub moved: Vec<Moved>,
    /// A wanted place was not there, so the session has ended.
    pub full: bool,
}

/// The set of buckets of this revision; it is never changed.
pub(crate) async fn find_buckets(tx: &Tx, survey_id: Uuid, revision: i32) -> Result<Vec<Bucket>, DbError> {
    let rows = tx.query(BUCKETS, &[&survey_id, &revision]).await?;
    rows.iter()
        .map(|row| {
            let Json(condition) = row.try_get(1)?;
            Ok(Bucket { bucket_id: row.get(0), condition })
        })
        .collect()
}

/// The rows of `surveys.steps`, by the number of the step.
pub(crate) fn read_places(rows: &[Row], steps: usize) -> Vec<Places> {
    let mut all: Vec<Places> = (0..steps).map(|_| Places::default()).collect();
    for row in rows {
        let places = &mut all[row.get::<_, i32>(0) as usize - 1];
        let kind = match row.get(2) {
            "released" => Kind::Released,
            "reserved" => Kind::Reserved,
            "finalized" => Kind::Finalized,
            _ => {
                places.full = true;
                continue;
            }
        };
        places.moved.push(Moved {
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
