//! `/api/surveys`.

use super::LIST_MAX;
use crate::{
    SurveyError,
    authoring::{
        commands,
        store::{self, Survey},
    },
};
use onceward::{prelude::*, web::axum::extract::Query};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

#[derive(Deserialize)]
pub(super) struct NewSurvey {
    title: String,
    definition: Option<Value>,
}

pub(super) async fn create(command: Command<NewSurvey>) -> Result<Response, Problem> {
    let (NewSurvey { title, definition }, mut command) = command.into_parts();
    let survey = commands::create_survey(&mut command.tx, &title, definition.as_ref()).await?;
    command.respond(StatusCode::CREATED, &survey).await
}

#[derive(Deserialize)]
pub(super) struct SurveyQuery {
    limit: Option<i64>,
    after: Option<Uuid>,
    version: Option<i32>,
}

pub(super) async fn list(Query(query): Query<SurveyQuery>, reader: Reader) -> Result<Response, Problem> {
    let limit = query.limit.unwrap_or(50).clamp(1, LIST_MAX);
    let surveys = store::list_surveys(&reader.tx, query.after, limit).await?;
    reader.respond(&json!({ "surveys": surveys })).await
}

pub(super) async fn show(
    Path(survey_id): Path<Uuid>,
    Query(query): Query<SurveyQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    let survey = store::find_survey(&reader.tx, survey_id).await?.ok_or(SurveyError::NotFound("survey"))?;
    let version = query.version.or(survey.published_version).unwrap_or(1);
    let definition = store::find_definition(&reader.tx, survey_id, version).await?;
    let mut body = json!(survey);
    match definition {
        Some((definition, published_at)) => {
            body["definition"] = definition;
            body["version"] = version.into();
            body["version_published_at"] = json!(published_at);
        }
        None if query.version.is_some() => return Err(SurveyError::NotFound("version").into()),
        None => {}
    }
    reader.respond(&body).await
}

#[derive(Deserialize)]
pub(super) struct DraftRequest {
    definition: Value,
}

pub(super) async fn save(Path(survey_id): Path<Uuid>, command: Command<DraftRequest>) -> Result<Response, Problem> {
    let (DraftRequest { definition }, mut command) = command.into_parts();
    let survey = commands::save_definition(&mut command.tx, survey_id, &definition).await?;
    respond(command, &survey).await
}

pub(super) async fn publish(
    Path(survey_id): Path<Uuid>,
    mut command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let survey = commands::publish_survey(&mut command.tx, survey_id).await?;
    respond(command, &survey).await
}

pub(super) async fn set_paused(
    Path(survey_id): Path<Uuid>,
    mut command: Command<Option<()>>,
    paused: bool,
) -> Result<Response, Problem> {
    let survey = commands::set_paused(&mut command.tx, survey_id, paused).await?;
    respond(command, &survey).await
}

async fn respond<B>(command: Command<B>, survey: &Survey) -> Result<Response, Problem> {
    command.respond(StatusCode::OK, survey).await
}
