//! The HTTP API of templates.

use super::{
    commands::{self, SavedVersion, TemplateDraft},
    load, preview, store,
};
use crate::{CrmError, access, html_response::html_response, state::CrmState};
use onceward::{
    Idempotency,
    prelude::*,
    web::axum::extract::{Query, State},
};
use onceward_mail::{
    class::{MailClass, MailDelivery},
    template::{TemplateSource, diff},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

const TEMPLATES: &str = "/api/crm/templates";
const TEMPLATE: &str = "/api/crm/templates/{id}";
const PREVIEW: &str = "/api/crm/templates/{id}/preview";
/// A template has two parts of up to half a megabyte of text, which JSON may escape.
const MAX_BODY_BYTES: usize = 4 << 20;
const DEFAULT_PAGE_SIZE: u16 = 50;
const MAX_PAGE_SIZE: u16 = 200;
/// Allows no scripts, forms and frames of other sites. A mail has its styles inline and its images on the web.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src https: data:; form-action 'none'; \
                      base-uri 'none'; frame-ancestors 'none'";

pub(crate) fn routes() -> Routes<Arc<CrmState>> {
    let routes = Routes::new()
        .post(TEMPLATES, access::admin(), create)
        .summary("Create a template with version 1. A template with mistakes is refused with all of them")
        .max_body_bytes(MAX_BODY_BYTES)
        .request("crm.template.new.v1")
        .responds(201, "crm.template.saved.v1")
        .get(TEMPLATES, access::read(), list)
        .summary("List the templates by id. ?retired=true includes retired ones; page with ?limit= and ?cursor=")
        .responds(200, "crm.template.list.v1")
        .post("/api/crm/templates/ready", access::admin(), install_ready)
        .summary("Install the templates that come with the product, without those that exist")
        .responds(200, "crm.template.installed.v1")
        .get(TEMPLATE, access::read(), show)
        .summary("Show a template with its latest 100 versions")
        .responds(200, "crm.template.v1")
        .put(TEMPLATE, access::admin(), save)
        .summary("Save a new version, which becomes the current one. The same content again is no new version")
        .max_body_bytes(MAX_BODY_BYTES)
        .request("crm.template.save.v1")
        .responds(200, "crm.template.saved.v1")
        .responds(201, "crm.template.saved.v1");
    routes
        .get("/api/crm/templates/{id}/versions/{version}", access::read(), show_version)
        .summary("Show a version with its source")
        .responds(200, "crm.template.version.v1")
        .get("/api/crm/templates/{id}/diff", access::read(), show_diff)
        .summary("Compare two versions: ?from= and ?to=, by default the current version and the one before")
        .responds(200, "crm.template.diff.v1")
        .post(PREVIEW, access::read(), post_preview)
        .summary("Render a version with the given or with sample variables. Nothing is stored")
        .idempotency(Idempotency::Off)
        .request("crm.template.preview.v1")
        .responds(200, "crm.template.previewed.v1")
        .get(PREVIEW, access::read(), show_preview)
        .summary("Show a version, rendered with sample variables, as a page. ?version= is the current one by default")
        .responds_media(200, "text/html")
        .post("/api/crm/templates/{id}/retire", access::admin(), retire)
        .summary("Retire a template: nobody can request mails with it until a version is saved again")
        .responds(200, "crm.template.summary.v1")
}

#[derive(Deserialize)]
struct NewTemplate {
    template_id: String,
    #[serde(flatten)]
    draft: TemplateBody,
}

#[derive(Deserialize)]
struct TemplateBody {
    class: MailClass,
    delivery: Option<MailDelivery>,
    source: TemplateSource,
}

impl From<TemplateBody> for TemplateDraft {
    fn from(TemplateBody { class, delivery, source }: TemplateBody) -> Self {
        Self { class, delivery, source }
    }
}

async fn create(command: Command<NewTemplate>) -> Result<Response, Problem> {
    let (NewTemplate { template_id, draft }, mut command) = command.into_parts();
    let saved = commands::create(&mut command.tx, &template_id, draft.into()).await?;
    command.respond(StatusCode::CREATED, &saved_view(&template_id, &saved)).await
}

async fn save(Path(id): Path<String>, command: Command<TemplateBody>) -> Result<Response, Problem> {
    let (draft, mut command) = command.into_parts();
    let saved = commands::save_version(&mut command.tx, &id, draft.into()).await?;
    let status = if saved.is_new { StatusCode::CREATED } else { StatusCode::OK };
    command.respond(status, &saved_view(&id, &saved)).await
}

fn saved_view(template_id: &str, saved: &SavedVersion) -> Value {
    json!({
        "template_id": template_id, "version": saved.version, "is_new": saved.is_new, "warnings": saved.warnings,
    })
}

#[derive(Deserialize)]
struct TemplateListQuery {
    #[serde(default)]
    retired: bool,
    #[serde(default)]
    cursor: String,
    limit: Option<u16>,
}

async fn list(Query(query): Query<TemplateListQuery>, reader: Reader) -> Result<Response, Problem> {
    let limit = usize::from(query.limit.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE));
    // One more row than the page shows indicates that another page exists.
    let fetched = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    let mut templates = store::list_templates(&reader.tx, &query.cursor, query.retired, fetched).await?;
    let has_more = templates.len() > limit;
    templates.truncate(limit);
    let next = templates.last().filter(|_| has_more).map(|last| last.template_id.clone());
    reader.respond(&json!({ "templates": templates, "next": next })).await
}

async fn install_ready(command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    let installed = commands::install_ready(&mut command.tx).await?;
    command.respond(StatusCode::OK, &json!({ "installed": installed })).await
}

async fn show(Path(id): Path<String>, reader: Reader) -> Result<Response, Problem> {
    let template = store::find_template(&reader.tx, &id).await?.ok_or(CrmError::NotFound("template"))?;
    let mut body = json!(template);
    body["versions"] = json!(store::list_versions(&reader.tx, &id).await?);
    reader.respond(&body).await
}

async fn show_version(Path((id, version)): Path<(String, i32)>, reader: Reader) -> Result<Response, Problem> {
    let row = store::find_version(&reader.tx, &id, version).await?.ok_or(CrmError::NotFound("version"))?;
    let body = json!({
        "template_id": id, "version": version, "class": row.class, "delivery": row.delivery, "source": row.source,
        "sha256": row.sha256, "created_by": row.created_by, "created_at": row.created_at,
    });
    reader.respond(&body).await
}

#[derive(Deserialize)]
struct DiffQuery {
    from: Option<i32>,
    to: Option<i32>,
}

async fn show_diff(
    Path(id): Path<String>,
    Query(query): Query<DiffQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    let template = store::find_template(&reader.tx, &id).await?.ok_or(CrmError::NotFound("template"))?;
    let to = query.to.unwrap_or(template.version);
    let from = query.from.unwrap_or_else(|| to.saturating_sub(1).max(1));
    let old = store::find_version(&reader.tx, &id, from).await?.ok_or(CrmError::NotFound("version"))?;
    let new = store::find_version(&reader.tx, &id, to).await?.ok_or(CrmError::NotFound("version"))?;
    let mut body = json!(diff(&old.source, &new.source));
    body["from"] = from.into();
    body["to"] = to.into();
    body["class"] = json!({ "old": old.class, "new": new.class });
    body["delivery"] = json!({ "old": old.delivery, "new": new.delivery });
    reader.respond(&body).await
}

#[derive(Deserialize)]
struct PreviewRequest {
    version: Option<i32>,
    variables: Option<Map<String, Value>>,
}

async fn post_preview(
    State(state): State<Arc<CrmState>>,
    Path(id): Path<String>,
    command: Command<PreviewRequest>,
) -> Result<Response, Problem> {
    let (PreviewRequest { version, variables }, command) = command.into_parts();
    let template = load(&command.tx, &state.templates, &id, version).await?.ok_or(CrmError::NotFound("template"))?;
    let mail = preview::render(&template, variables.as_ref())?;
    let body = json!({
        "template_id": template.template_id, "version": template.version, "subject": mail.subject, "html": mail.html,
        "text": mail.text, "text_is_derived": mail.text_is_derived, "warnings": mail.warnings,
    });
    command.respond(StatusCode::OK, &body).await
}

#[derive(Deserialize)]
struct PreviewQuery {
    version: Option<i32>,
}

async fn show_preview(
    State(state): State<Arc<CrmState>>,
    Path(id): Path<String>,
    Query(query): Query<PreviewQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    let template =
        load(&reader.tx, &state.templates, &id, query.version).await?.ok_or(CrmError::NotFound("template"))?;
    let mail = preview::render(&template, None)?;
    Ok(html_response(StatusCode::OK, POLICY, preview::page(&template, &mail)))
}

async fn retire(Path(id): Path<String>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::retire(&mut command.tx, &id).await?;
    let template = store::find_template(&command.tx, &id).await?.ok_or(CrmError::NotFound("template"))?;
    command.respond(StatusCode::OK, &template).await
}
