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
pub(super) struct Wanted {
    limit: Option<i64>,
    after: Option<Uuid>,
    version: Option<i32>,
}

pub(super) async fn list(Query(wanted): Query<Wanted>, reader: Reader) -> Result<Response, Problem> {
    let limit = wanted.limit.unwrap_or(50).clamp(1, LIST_MAX);
    let surveys = store::list_surveys(&reader.tx, wanted.after, limit).await?;
    reader.respond(&json!({ "surveys": surveys })).await
}

pub(super) async fn show(
    Path(survey_id): Path<Uuid>,
    Query(wanted): Query<Wanted>,
    reader: Reader,
) -> Result<Response, Problem> {
    let survey = store::find_survey(&reader.tx, survey_id).await?.ok_or(SurveyError::Missing("survey"))?;
    let version = wanted.version.or(survey.published_version).unwrap_or(1);
    let found = store::find_definition(&reader.tx, survey_id, version).await?;
    let mut body = json!(survey);
    match found {
        Some((definition, published_at)) => {
            body["definition"] = definition;
            body["version"] = version.into();
            body["version_published_at"] = json!(published_at);
        }
        None if wanted.version.is_some() => return Err(SurveyError::Missing("version").into()),
        None => {}
    }
    reader.respond(&body).await
}

#[derive(Deserialize)]
pub(super) struct Draft {
    definition: Value,
}

pub(super) async fn save(Path(survey_id): Path<Uuid>, command: Command<Draft>) -> Result<Response, Problem> {
    let (Draft { definition }, mut command) = command.into_parts();
    let survey = commands::save_definition(&mut command.tx, survey_id, &definition).await?;
    done(command, &survey).await
}

pub(super) async fn publish(
    Path(survey_id): Path<Uuid>,
    mut command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let survey = commands::publish_survey(&mut command.tx, survey_id).await?;
    done(command, &survey).await
}

pub(super) async fn set_paused(
    Path(survey_id): Path<Uuid>,
    mut command: Command<Option<()>>,
    paused: bool,
) -> Result<Response, Problem> {
    let survey = commands::set_paused(&mut command.tx, survey_id, paused).await?;
    done(command, &survey).await
}

async fn done<B>(command: Command<B>, survey: &Survey) -> Result<Response, Problem> {
    command.respond(StatusCode::OK, survey).await
}
