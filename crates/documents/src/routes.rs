//! The HTTP surface: parse, command, response.

use crate::{
    DOCUMENT_EXISTS, MediaType,
    commands::{self, Uploaded},
    store,
};
use onceward::{
    Raw,
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
        .summary("Keep a file: PDF or plain text, as the body; ?file_name= is for people")
        .max_body_bytes(max_bytes)
        .responds(201, "document.v1")
        .put("/api/documents/{id}", write(), put)
        .summary("Keep a file under an id of the caller's")
        .max_body_bytes(max_bytes)
        .idempotency(Idempotency::Optional)
        .responds(201, "document.v1")
        .responds(200, "document.v1");
    routes
        .post("/api/documents/{id}/analyze", write(), analyze)
        .summary("Read a document, by messages. What was asked for before stands, unless the body is {\"again\": true}")
        .idempotency(Idempotency::Optional)
        .responds(202, "document.accepted.v1")
        .get("/api/documents/{id}", read(), show)
        .summary("Show a document, without its content")
        .responds(200, "document.v1")
        .get("/api/documents/{id}/analysis", read(), show_analysis)
        .summary("Show how far the latest analysis is, and what it found")
        .responds(200, "document.analysis.v1")
        .get("/api/documents/{id}/analysis/pages/{page}", read(), show_page)
        .summary("Show the text of one page, from the latest analysis")
        .responds(200, "document.page.v1")
}

fn read() -> Access {
    Access::role("documents:read")
}

fn write() -> Access {
    Access::role("documents:write")
}

#[derive(Deserialize)]
struct Name {
    file_name: Option<String>,
}

async fn post(Query(name): Query<Name>, command: Command<Raw>) -> Result<Response, Problem> {
    keep(command, Uuid::now_v7(), name).await
}

async fn put(Path(id): Path<Uuid>, Query(name): Query<Name>, command: Command<Raw>) -> Result<Response, Problem> {
    keep(command, id, name).await
}

async fn keep(command: Command<Raw>, id: Uuid, name: Name) -> Result<Response, Problem> {
    let (file, mut command) = command.into_parts();
    let Some(media_type) = MediaType::of(&file.bytes) else {
        let detail = "The content is neither PDF nor plain text in UTF-8. Names and declared types are not looked at.";
        return Err(Problem::new(codes::UNSUPPORTED_MEDIA_TYPE).detail(detail));
    };
    let file_name = name.file_name.as_deref().map(check_name).transpose()?;
    match commands::upload(&mut command.tx, id, file_name, media_type, &file.bytes).await? {
        Uploaded::New(document) => command.respond(StatusCode::CREATED, &document).await,
        Uploaded::Same(document) => command.respond(StatusCode::OK, &document).await,
        Uploaded::Other => Err(Problem::new(DOCUMENT_EXISTS).detail(format!("{id} stands for other content."))),
    }
}

/// A name is shown to people and never used as a path.
fn check_name(name: &str) -> Result<&str, Problem> {
    let fine = name.chars().count() <= FILE_NAME_MAX_CHARS && !name.chars().any(char::is_control);
    let problem = || Problem::new(codes::INVALID_REQUEST).detail("file_name: at most 255 characters, none a control.");
    if fine { Ok(name) } else { Err(problem()) }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Analyze {
    again: bool,
}

async fn analyze(Path(id): Path<Uuid>, command: Command<Option<Analyze>>) -> Result<Response, Problem> {
    let (body, mut command) = command.into_parts();
    let again = body.unwrap_or_default().again;
    let (analysis, state) = commands::analyze(&mut command.tx, id, again).await?.ok_or_else(missing)?;
    let location = format!("/api/documents/{id}/analysis");
    command.accepted(location, &json!({ "status": state, "documentId": id, "analysis": analysis })).await
}

async fn show(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let document = store::find_document(&reader.tx, id).await?.ok_or_else(missing)?;
    reader.respond(&document).await
}

async fn show_analysis(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let none = || Problem::new(codes::NOT_FOUND).detail("Nobody asked for this document's analysis yet.");
    let analysis = store::latest_analysis(&reader.tx, id).await?.ok_or_else(none)?;
    reader.respond(&analysis.view()).await
}

async fn show_page(Path((id, page)): Path<(Uuid, i32)>, reader: Reader) -> Result<Response, Problem> {
    let none = || Problem::new(codes::NOT_FOUND).detail("There is no such page, or it is not read yet.");
    let latest = store::latest_analysis(&reader.tx, id).await?.ok_or_else(none)?;
    let text = store::page_text(&reader.tx, id, latest.number, page).await?.ok_or_else(none)?;
    let body = json!({ "document_id": id, "analysis": latest.number, "page": page, "text": text });
    reader.respond(&body).await
}

fn missing() -> Problem {
    Problem::new(codes::NOT_FOUND).detail("There is no such document.")
}
