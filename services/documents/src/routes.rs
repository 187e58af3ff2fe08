//! The HTTP routes. Each parses the request, runs a command or a query, and responds.

use crate::{
    DOCUMENT_EXISTS, MediaType,
    commands::{self, UploadOutcome},
    store,
};
use onceward::{
    RawBody,
    prelude::*,
    web::{Idempotency, axum::extract::Query},
};
use serde::Deserialize;
use uuid::Uuid;

const FILE_NAME_MAX_CHARS: usize = 255;

pub(crate) fn routes(max_bytes: usize) -> Routes {
    let routes = Routes::new()
        .problems(&[DOCUMENT_EXISTS])
        .post("/api/documents", write(), post)
        .summary("Store a file, PDF or plain text, sent as the body. ?file_name= is a display name only")
        .max_body_bytes(max_bytes)
        .responds(201, "document.v1")
        .put("/api/documents/{id}", write(), put)
        .summary("Store a file under an id chosen by the caller")
        .max_body_bytes(max_bytes)
        .idempotency(Idempotency::Optional)
        .responds(201, "document.v1")
        .responds(200, "document.v1");
    routes
        .post("/api/documents/{id}/analyze", write(), analyze)
        .summary(
            "Analyse a document asynchronously. Returns the existing analysis unless the body is {\"again\": true}",
        )
        .idempotency(Idempotency::Optional)
        .responds(202, "document.accepted.v1")
        .get("/api/documents/{id}", read(), show)
        .summary("Show a document's metadata, without its content")
        .responds(200, "document.v1")
        .get("/api/documents/{id}/analysis", read(), show_analysis)
        .summary("Show the progress and results of the latest analysis")
        .responds(200, "document.analysis.v1")
        .get("/api/documents/{id}/analysis/pages/{page}", read(), show_page)
        .summary("Show the text of one page from the latest analysis")
        .responds(200, "document.page.v1")
}

fn read() -> Access {
    Access::role("documents:read")
}

fn write() -> Access {
    Access::role("documents:write")
}

#[derive(Deserialize)]
struct FileNameQuery {
    file_name: Option<String>,
}

async fn post(Query(query): Query<FileNameQuery>, command: Command<RawBody>) -> Result<Response, Problem> {
    store_file(command, Uuid::now_v7(), query).await
}

async fn put(
    Path(id): Path<Uuid>,
    Query(query): Query<FileNameQuery>,
    command: Command<RawBody>,
) -> Result<Response, Problem> {
    store_file(command, id, query).await
}

async fn store_file(command: Command<RawBody>, id: Uuid, query: FileNameQuery) -> Result<Response, Problem> {
    let (file, mut command) = command.into_parts();
    let Some(media_type) = MediaType::of(&file.bytes) else {
        let detail =
            "The content is neither a PDF nor UTF-8 plain text. The file name and the declared type are ignored.";
        return Err(Problem::new(codes::UNSUPPORTED_MEDIA_TYPE).detail(detail));
    };
    let file_name = query.file_name.as_deref().map(check_file_name).transpose()?;
    match commands::upload(&mut command.tx, id, file_name, media_type, &file.bytes).await? {
        UploadOutcome::Created(document) => command.respond(StatusCode::CREATED, &document).await,
        UploadOutcome::Unchanged(document) => command.respond(StatusCode::OK, &document).await,
        UploadOutcome::Conflict => {
            Err(Problem::new(DOCUMENT_EXISTS).detail(format!("Document {id} has different content.")))
        }
    }
}

/// Checks a display name. It is shown to people and never used as a path.
fn check_file_name(name: &str) -> Result<&str, Problem> {
    let valid = name.chars().count() <= FILE_NAME_MAX_CHARS && !name.chars().any(char::is_control);
    let problem = || {
        Problem::new(codes::INVALID_REQUEST)
            .detail("`file_name` must be at most 255 characters, without control characters.")
    };
    if valid { Ok(name) } else { Err(problem()) }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AnalyzeBody {
    again: bool,
}

async fn analyze(Path(id): Path<Uuid>, command: Command<Option<AnalyzeBody>>) -> Result<Response, Problem> {
    let (body, mut command) = command.into_parts();
    let again = body.unwrap_or_default().again;
    let (analysis, state) = commands::analyze(&mut command.tx, id, again).await?.ok_or_else(not_found)?;
    let location = format!("/api/documents/{id}/analysis");
    command.accepted(location, &json!({ "status": state, "documentId": id, "analysis": analysis })).await
}

async fn show(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let document = store::find_document(&reader.tx, id).await?.ok_or_else(not_found)?;
    reader.respond(&document).await
}

async fn show_analysis(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let none = || {
        Problem::new(codes::NOT_FOUND)
            .detail("This document has not been analysed yet. Request it with POST …/analyze.")
    };
    let analysis = store::latest_analysis(&reader.tx, id).await?.ok_or_else(none)?;
    reader.respond(&analysis.view()).await
}

async fn show_page(Path((id, page)): Path<(Uuid, i32)>, reader: Reader) -> Result<Response, Problem> {
    let none = || Problem::new(codes::NOT_FOUND).detail("The page does not exist or has not been read yet.");
    let latest = store::latest_analysis(&reader.tx, id).await?.ok_or_else(none)?;
    let text = store::page_text(&reader.tx, id, latest.number, page).await?.ok_or_else(none)?;
    let body = json!({ "document_id": id, "analysis": latest.number, "page": page, "text": text });
    reader.respond(&body).await
}

fn not_found() -> Problem {
    Problem::new(codes::NOT_FOUND).detail("There is no document with this id.")
}
