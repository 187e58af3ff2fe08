//! Quotas: buckets on their own, and grids whose cells are the buckets.

use crate::{
    SurveyError,
    authoring::{
        commands::read_definition,
        store::{self, BucketRow, NewBucket},
    },
    definition::{Condition, Fault, Form},
    events::{BucketClosed, publish},
};
use onceward::Tx;
use onceward_audit::{self as audit, Entry};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

/// The most buckets of a survey: every page is looked at for each.
const BUCKETS_MAX: usize = 500;

/// Buckets to be made.
#[derive(Deserialize)]
pub(in crate::authoring) struct NewQuota {
    #[serde(default)]
    buckets: Vec<GivenBucket>,
    #[serde(default)]
    grids: Vec<Grid>,
}

#[derive(Deserialize)]
struct GivenBucket {
    name: String,
    /// Everybody, if nothing is said.
    condition: Option<Condition>,
    target: i32,
    #[serde(default)]
    max_overfill: i32,
}

/// Interlocked cells: one bucket for each named combination of the dimensions' parts.
#[derive(Deserialize)]
struct Grid {
    name: String,
    dimensions: Vec<Vec<Part>>,
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Part {
    name: String,
    condition: Condition,
}

#[derive(Deserialize)]
struct Cell {
    /// The name of one part of each dimension, in their order.
    at: Vec<String>,
    target: i32,
    #[serde(default)]
    max_overfill: i32,
}

/// Puts buckets into force, beside those that are.
pub(in crate::authoring) async fn create_quotas(
    tx: &mut Tx,
    survey_id: Uuid,
    new: NewQuota,
) -> Result<Vec<BucketRow>, SurveyError> {
    let survey = store::lock_survey(tx, survey_id).await?.ok_or(SurveyError::Missing("survey"))?;
    let buckets = new.buckets()?;
    check(tx, survey_id, survey.published_version, &buckets).await?;
    let there = store::find_conditions(tx, survey_id).await?.len();
    if there + buckets.len() > BUCKETS_MAX {
        return Err(SurveyError::Refused(format!("a survey has at most {BUCKETS_MAX} buckets; {there} are in force")));
    }
    store::insert_buckets(tx, survey_id, &buckets).await?;
    for bucket in &buckets {
        let value = json!({"survey_id": survey_id, "name": bucket.name, "target": bucket.target, "max_overfill": bucket.max_overfill});
        audit::record(tx, Entry::new("quota_created").object("quota_bucket", bucket.bucket_id).new_value(value))?;
        if bucket.target == 0 {
            publish(tx, &BucketClosed { bucket_id: bucket.bucket_id, survey_id, filled: 0, target: 0 }).await?;
        }
    }
    Ok(store::list_buckets(tx, survey_id, BUCKETS_MAX as i64).await?)
}

/// Against the published version, or against the draft of a survey that has none.
async fn check(tx: &Tx, survey_id: Uuid, published: Option<i32>, buckets: &[NewBucket]) -> Result<(), SurveyError> {
    let definition = store::find_definition(tx, survey_id, published.unwrap_or(1)).await?;
    let Some((definition, _)) = definition else {
        return Err(SurveyError::Refused("quotas decide by questions: save a definition first".to_owned()));
    };
    let form = Form::new(read_definition(&definition)?).map_err(SurveyError::Faults)?;
    let faults: Vec<Fault> = buckets
        .iter()
        .flat_map(|bucket| form.faults_of(&format!("quotas[{:?}].condition", bucket.name), &bucket.condition))
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(SurveyError::Faults(faults)) }
}

/// Sets a bucket's target. One that is below what is filled closes the bucket; who holds a place keeps it.
pub(in crate::authoring) async fn change_quota(
    tx: &mut Tx,
    survey_id: Uuid,
    bucket_id: Uuid,
    target: Option<i32>,
    max_overfill: Option<i32>,
) -> Result<BucketRow, SurveyError> {
    let old = store::lock_bucket(tx, survey_id, bucket_id).await?.ok_or(SurveyError::Missing("bucket"))?;
    let (target, overfill) = (target.unwrap_or(old.target), max_overfill.unwrap_or(old.max_overfill));
    let new = store::change_bucket(tx, bucket_id, target, overfill).await?;
    let shown = |row: &BucketRow| json!({"target": row.target, "max_overfill": row.max_overfill});
    let entry = Entry::new("quota_changed").object("quota_bucket", bucket_id);
    audit::record(tx, entry.old(shown(&old)).new_value(shown(&new)))?;
    if old.closed_at.is_none() && new.closed_at.is_some() {
        publish(tx, &BucketClosed { bucket_id, survey_id, filled: new.filled, target: new.target }).await?;
    }
    Ok(new)
}

/// Takes a bucket out of force. Sessions that hold places in it give them back with their next step.
pub(in crate::authoring) async fn retire_quota(
    tx: &mut Tx,
    survey_id: Uuid,
    bucket_id: Uuid,
) -> Result<BucketRow, SurveyError> {
    store::lock_survey(tx, survey_id).await?.ok_or(SurveyError::Missing("survey"))?;
    let mut bucket = store::lock_bucket(tx, survey_id, bucket_id).await?.ok_or(SurveyError::Missing("bucket"))?;
    if !bucket.retired {
        store::retire_bucket(tx, survey_id, bucket_id).await?;
        audit::record(tx, Entry::new("quota_retired").object("quota_bucket", bucket_id).old(json!(bucket)))?;
        bucket.retired = true;
    }
    Ok(bucket)
}

impl NewQuota {
    fn buckets(self) -> Result<Vec<NewBucket>, SurveyError> {
        let mut all = Vec::new();
        for GivenBucket { name, condition, target, max_overfill } in self.buckets {
            let condition = condition.unwrap_or(Condition::All(Vec::new()));
            all.push(NewBucket { bucket_id: Uuid::now_v7(), name, condition, target, max_overfill });
        }
        let mut faults = Vec::new();
        for (index, grid) in self.grids.iter().enumerate() {
            for (number, cell) in grid.cells.iter().enumerate() {
                match grid.bucket(cell) {
                    Some(bucket) => all.push(bucket),
                    None => faults.push(Fault {
                        place: format!("grids[{index}].cells[{number}].at"),
                        message: "must name one part of each dimension, in their order".to_owned(),
                    }),
                }
            }
        }
        if faults.is_empty() { Ok(all) } else { Err(SurveyError::Faults(faults)) }
    }
}

impl Grid {
    fn bucket(&self, cell: &Cell) -> Option<NewBucket> {
        if cell.at.len() != self.dimensions.len() {
            return None;
        }
        let parts =
            cell.at.iter().zip(&self.dimensions).map(|(name, parts)| parts.iter().find(|part| part.name == *name));
        let parts: Vec<&Part> = parts.collect::<Option<_>>()?;
        let condition = Condition::All(parts.iter().map(|part| part.condition.clone()).collect());
        let &Cell { target, max_overfill, .. } = cell;
        let name = format!("{}: {}", self.name, cell.at.join(" × "));
        Some(NewBucket { bucket_id: Uuid::now_v7(), name, condition, target, max_overfill })
    }
}
