//! `/api/surveys/{id}/quotas`.

use super::LIST_MAX;
use crate::{
    SurveyError,
    authoring::{
        commands::{self, NewQuota},
        store,
    },
    definition,
};
use onceward::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

pub(super) async fn create(Path(survey_id): Path<Uuid>, command: Command<Value>) -> Result<Response, Problem> {
    let (given, mut command) = command.into_parts();
    let new: NewQuota = definition::parse(&given).map_err(|fault| SurveyError::InvalidDefinition(vec![fault]))?;
    let buckets = commands::create_quotas(&mut command.tx, survey_id, new).await?;
    command.respond(StatusCode::CREATED, &json!({ "buckets": buckets })).await
}

pub(super) async fn list(Path(survey_id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    store::find_survey(&reader.tx, survey_id).await?.ok_or(SurveyError::NotFound("survey"))?;
    let buckets = store::list_buckets(&reader.tx, survey_id, LIST_MAX).await?;
    reader.respond(&json!({ "buckets": buckets })).await
}

#[derive(Deserialize)]
pub(super) struct QuotaChange {
    target: Option<i32>,
    max_overfill: Option<i32>,
}

pub(super) async fn change(
    Path((survey_id, bucket_id)): Path<(Uuid, Uuid)>,
    command: Command<QuotaChange>,
) -> Result<Response, Problem> {
    let (QuotaChange { target, max_overfill }, mut command) = command.into_parts();
    let bucket = commands::change_quota(&mut command.tx, survey_id, bucket_id, target, max_overfill).await?;
    command.respond(StatusCode::OK, &bucket).await
}

pub(super) async fn retire(
    Path((survey_id, bucket_id)): Path<(Uuid, Uuid)>,
    mut command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let bucket = commands::retire_quota(&mut command.tx, survey_id, bucket_id).await?;
    command.respond(StatusCode::OK, &bucket).await
}
