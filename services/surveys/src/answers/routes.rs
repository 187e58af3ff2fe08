//! The HTTP routes of answers.

use super::{
    erase,
    export::{self, AnswerExport, ExportFormat},
    read, store,
};
use crate::{SurveyError, runtime::SurveyContext};
use onceward::{
    Caller,
    prelude::*,
    web::{
        AppState,
        axum::{
            body::Body,
            extract::{Query, State},
            http::header,
            response::IntoResponse,
        },
    },
};
use onceward_audit::{self as audit, Entry};
use serde::Deserialize;
use std::sync::Arc;
use uuid::Uuid;

/// The maximum number of sessions per response.
const LIST_MAX: i64 = 200;
/// The maximum number of concurrent exports per process.
pub(crate) const CONCURRENT_EXPORTS_MAX: usize = 4;
const EXPORTS_RETRY_S: u32 = 10;

pub(crate) fn routes() -> Routes<Arc<SurveyContext>> {
    Routes::new()
        .get("/api/surveys/{id}/answers", may_read(), list)
        .summary("List answers by session, oldest first. Page with `?limit=` and `?after=`, the `next` of the previous response.")
        .responds(200, "answers.list.v1")
        .get("/api/surveys/{id}/answers/{session_id}", may_read(), find)
        .summary("Show the answers of one session.")
        .responds(200, "answers.v1")
        .get("/api/surveys/{id}/export", may_read(), export)
        .summary("Export all answers as a stream, with `?format=csv` (the default) or `?format=jsonl`.")
        .responds_media(200, "text/csv")
        .responds_media(200, "application/x-ndjson")
        .delete("/api/surveys/{id}/answers/{session_id}", may_erase(), erase_session)
        .summary("Erase the answers of one session permanently. Counts are kept.")
        .responds(200, "answers.erased.v1")
        .post("/api/surveys/{id}/erasures", may_erase(), erase_respondent)
        .summary("Erase the answers of all sessions that were started with invites of this `ref`.")
        .request("answers.erase.v1")
        .responds(200, "answers.erased.v1")
}

fn may_read() -> Access {
    Access::role("surveys:answers")
}

fn may_erase() -> Access {
    Access::role("surveys:erase")
}

#[derive(Deserialize)]
struct AnswersQuery {
    limit: Option<i64>,
    after: Option<Uuid>,
}

async fn list(
    State(context): State<Arc<SurveyContext>>,
    Path(survey_id): Path<Uuid>,
    Query(query): Query<AnswersQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    require_survey(&reader.tx, survey_id).await?;
    let limit = query.limit.unwrap_or(50).clamp(1, LIST_MAX);
    let sessions = store::list(&reader.tx, survey_id, query.after.unwrap_or_default(), limit).await?;
    let is_full = i64::try_from(sessions.len()).is_ok_and(|count| count == limit);
    let next = sessions.last().filter(|_| is_full).map(|last| last.session_id);
    let mut listed = Vec::with_capacity(sessions.len());
    for session in &sessions {
        listed.push(read::to_json(session, read::by_question(&reader.tx, &context, survey_id, session).await?));
    }
    let response = reader.respond(&json!({"sessions": listed, "next": next})).await?;
    Ok(no_store(response))
}

async fn find(
    State(context): State<Arc<SurveyContext>>,
    Path((survey_id, session_id)): Path<(Uuid, Uuid)>,
    reader: Reader,
) -> Result<Response, Problem> {
    let session = store::find(&reader.tx, survey_id, session_id).await?;
    let session = session.ok_or(SurveyError::NotFound("session"))?;
    let body = read::to_json(&session, read::by_question(&reader.tx, &context, survey_id, &session).await?);
    Ok(no_store(reader.respond(&body).await?))
}

#[derive(Deserialize)]
struct ExportQuery {
    #[serde(default)]
    format: ExportFormat,
}

async fn export(
    State(context): State<Arc<SurveyContext>>,
    Path(survey_id): Path<Uuid>,
    Query(ExportQuery { format }): Query<ExportQuery>,
    state: AppState,
    caller: Caller,
) -> Result<Response, Problem> {
    let permit = context.exports.clone().try_acquire_owned().map_err(|_| {
        let text =
            format!("{CONCURRENT_EXPORTS_MAX} exports are already running. Try again in {EXPORTS_RETRY_S} seconds.");
        Problem::new(codes::OVERLOADED).detail(text).retry_after_s(EXPORTS_RETRY_S)
    })?;
    let mut tx = state.db.begin(caller.scope()).await?;
    require_survey(&tx, survey_id).await?;
    let columns = export::columns(&tx, survey_id, format).await?;
    let entry = Entry::new("answers_exported").object("survey", survey_id);
    audit::record(&mut tx, entry.new_value(json!({"format": format.extension()}))).map_err(SurveyError::from)?;
    tx.commit().await?;
    let (db, scope, after) = (state.db.clone(), caller.scope(), Uuid::nil());
    let export = AnswerExport { db, scope, context, survey_id, format, after, columns, _permit: permit };
    let name = format!("attachment; filename=\"survey-{survey_id}.{}\"", format.extension());
    let headers = [(header::CONTENT_TYPE, format.content_type().to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok(no_store((headers, Body::from_stream(export::chunks(export))).into_response()))
}

async fn erase_session(
    State(context): State<Arc<SurveyContext>>,
    Path((survey_id, session_id)): Path<(Uuid, Uuid)>,
    mut command: Command<Option<()>>,
) -> Result<Response, Problem> {
    erase::erase_sessions(&mut command.tx, &context, survey_id, &[session_id]).await?;
    command.respond(StatusCode::OK, &json!({"erased": [session_id], "more": false})).await
}

#[derive(Deserialize)]
struct ErasureRequest {
    #[serde(rename = "ref")]
    reference: String,
}

async fn erase_respondent(
    State(context): State<Arc<SurveyContext>>,
    Path(survey_id): Path<Uuid>,
    command: Command<ErasureRequest>,
) -> Result<Response, Problem> {
    let (ErasureRequest { reference }, mut command) = command.into_parts();
    require_survey(&command.tx, survey_id).await?;
    let erased = erase::erase_respondent(&mut command.tx, &context, survey_id, &reference).await?;
    let more = i64::try_from(erased.len()).is_ok_and(|count| count == erase::SESSIONS_MAX);
    command.respond(StatusCode::OK, &json!({"erased": erased, "more": more})).await
}

async fn require_survey(tx: &onceward::Tx, survey_id: Uuid) -> Result<(), SurveyError> {
    match store::survey_exists(tx, survey_id).await? {
        true => Ok(()),
        false => Err(SurveyError::NotFound("survey")),
    }
}

/// Forbids caching, because the response contains personal data.
fn no_store(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}
