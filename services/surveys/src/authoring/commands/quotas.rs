//! Quotas: single buckets, and grids whose cells are buckets.

use crate::{
    SurveyError,
    authoring::store::{self, BucketRow, NewBucket},
    compile,
    definition::{Condition, DefinitionFault, escape_pointer},
    events::{BucketClosed, publish},
};
use onceward::Tx;
use onceward_audit::{self as audit, Entry};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

/// The maximum number of buckets per survey. Every bucket is checked for every submitted page.
const BUCKETS_MAX: usize = 500;

/// The buckets to create.
#[derive(Deserialize)]
pub(in crate::authoring) struct NewQuota {
    #[serde(default)]
    buckets: Vec<NewBucketRequest>,
    #[serde(default)]
    grids: Vec<QuotaGrid>,
}

#[derive(Deserialize)]
struct NewBucketRequest {
    name: String,
    /// Applies to every respondent if omitted.
    condition: Option<Condition>,
    target: i32,
    #[serde(default)]
    max_overfill: i32,
}

/// Interlocked cells: one bucket for each named combination of the dimensions' parts.
#[derive(Deserialize)]
struct QuotaGrid {
    name: String,
    dimensions: Vec<Vec<GridPart>>,
    cells: Vec<GridCell>,
}

#[derive(Deserialize)]
struct GridPart {
    name: String,
    condition: Condition,
}

#[derive(Deserialize)]
struct GridCell {
    /// The name of one part per dimension, in the order of the dimensions.
    at: Vec<String>,
    target: i32,
    #[serde(default)]
    max_overfill: i32,
}

/// Activates new buckets in addition to those in force.
pub(in crate::authoring) async fn create_quotas(
    tx: &mut Tx,
    survey_id: Uuid,
    new: NewQuota,
) -> Result<Vec<BucketRow>, SurveyError> {
    let survey = store::lock_survey(tx, survey_id).await?.ok_or(SurveyError::NotFound("survey"))?;
    let buckets = new.into_buckets()?;
    check_conditions(tx, survey_id, survey.published_version, &buckets).await?;
    let existing = store::find_conditions(tx, survey_id).await?.len();
    if existing + buckets.len() > BUCKETS_MAX {
        return Err(SurveyError::NotAllowed(format!(
            "A survey has at most {BUCKETS_MAX} buckets; {existing} are in force."
        )));
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

/// Checks the conditions against the published version, or against the draft if the survey has none.
async fn check_conditions(
    tx: &Tx,
    survey_id: Uuid,
    published: Option<i32>,
    buckets: &[NewBucket],
) -> Result<(), SurveyError> {
    let definition = store::find_definition(tx, survey_id, published.unwrap_or(1)).await?;
    let Some((definition, _)) = definition else {
        return Err(SurveyError::NotAllowed("Quotas depend on questions. Save a definition first.".to_owned()));
    };
    let questionnaire = compile::compile(definition).await?;
    let conditions =
        buckets.iter().map(|bucket| (format!("/quotas/{}/condition", escape_pointer(&bucket.name)), &bucket.condition));
    let faults = questionnaire.condition_faults(conditions);
    if faults.is_empty() { Ok(()) } else { Err(SurveyError::InvalidDefinition(faults)) }
}

/// Sets a bucket's target. A target below the filled count closes the bucket; sessions that hold a place keep it.
pub(in crate::authoring) async fn change_quota(
    tx: &mut Tx,
    survey_id: Uuid,
    bucket_id: Uuid,
    target: Option<i32>,
    max_overfill: Option<i32>,
) -> Result<BucketRow, SurveyError> {
    let old = store::lock_bucket(tx, survey_id, bucket_id).await?.ok_or(SurveyError::NotFound("bucket"))?;
    let (target, overfill) = (target.unwrap_or(old.target), max_overfill.unwrap_or(old.max_overfill));
    let new = store::change_bucket(tx, bucket_id, target, overfill).await?;
    let limits = |row: &BucketRow| json!({"target": row.target, "max_overfill": row.max_overfill});
    let entry = Entry::new("quota_changed").object("quota_bucket", bucket_id);
    audit::record(tx, entry.old(limits(&old)).new_value(limits(&new)))?;
    if old.closed_at.is_none() && new.closed_at.is_some() {
        publish(tx, &BucketClosed { bucket_id, survey_id, filled: new.filled, target: new.target }).await?;
    }
    Ok(new)
}

/// Retires a bucket. Sessions that hold places in it release them with their next step.
pub(in crate::authoring) async fn retire_quota(
    tx: &mut Tx,
    survey_id: Uuid,
    bucket_id: Uuid,
) -> Result<BucketRow, SurveyError> {
    store::lock_survey(tx, survey_id).await?.ok_or(SurveyError::NotFound("survey"))?;
    let mut bucket = store::lock_bucket(tx, survey_id, bucket_id).await?.ok_or(SurveyError::NotFound("bucket"))?;
    if !bucket.retired {
        store::retire_bucket(tx, survey_id, bucket_id).await?;
        audit::record(tx, Entry::new("quota_retired").object("quota_bucket", bucket_id).old(json!(bucket)))?;
        bucket.retired = true;
    }
    Ok(bucket)
}

impl NewQuota {
    fn into_buckets(self) -> Result<Vec<NewBucket>, SurveyError> {
        let mut buckets = Vec::new();
        for NewBucketRequest { name, condition, target, max_overfill } in self.buckets {
            let condition = condition.unwrap_or(Condition::All(Vec::new()));
            buckets.push(NewBucket { bucket_id: Uuid::now_v7(), name, condition, target, max_overfill });
        }
        let mut faults = Vec::new();
        for (index, grid) in self.grids.iter().enumerate() {
            for (number, cell) in grid.cells.iter().enumerate() {
                match grid.bucket(cell) {
                    Some(bucket) => buckets.push(bucket),
                    None => faults.push(DefinitionFault {
                        pointer: format!("/grids/{index}/cells/{number}/at"),
                        message: "must name one part of each dimension, in the order of the dimensions".to_owned(),
                    }),
                }
            }
        }
        if faults.is_empty() { Ok(buckets) } else { Err(SurveyError::InvalidDefinition(faults)) }
    }
}

impl QuotaGrid {
    fn bucket(&self, cell: &GridCell) -> Option<NewBucket> {
        if cell.at.len() != self.dimensions.len() {
            return None;
        }
        let parts =
            cell.at.iter().zip(&self.dimensions).map(|(name, parts)| parts.iter().find(|part| part.name == *name));
        let parts: Vec<&GridPart> = parts.collect::<Option<_>>()?;
        let condition = Condition::All(parts.iter().map(|part| part.condition.clone()).collect());
        let &GridCell { target, max_overfill, .. } = cell;
        let name = format!("{}: {}", self.name, cell.at.join(" × "));
        Some(NewBucket { bucket_id: Uuid::now_v7(), name, condition, target, max_overfill })
    }
}
