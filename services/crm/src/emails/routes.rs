//! The HTTP routes of mails.

use super::{
    commands::{EmailRequest, RequestError, UnknownResolution, record_denial, request_email, resolve_unknown},
    store::{self, EmailFilter},
};
use crate::{
    EMAIL_INVALID, RECIPIENT_DENIED, TEMPLATE_INVALID,
    artifacts::{check_artifact, read_message},
    changes::{self, Change},
    state::CrmState,
    templates::{self, variable_errors},
};
use onceward::{
    prelude::*,
    web::axum::extract::{Query, State},
};
use serde::Deserialize;
use std::sync::Arc;
use uuid::Uuid;

const LIST_LIMIT: i64 = 50;
/// The base64 of the largest message, and the rest of the request.
const BODY_FACTOR: usize = 2;
const ADMIN: &str = "crm:admin";

pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/crm.email.requested.v1.json"),
    include_str!("../../schemas/crm.email.sent.v1.json"),
    include_str!("../../schemas/crm.email.failed.v1.json"),
    include_str!("../../schemas/crm.email.suppressed.v1.json"),
    include_str!("../../schemas/crm.email.request.v1.json"),
    include_str!("../../schemas/crm.email.accepted.v1.json"),
    include_str!("../../schemas/crm.email.v1.json"),
    include_str!("../../schemas/crm.email.list.v1.json"),
    include_str!("../../schemas/crm.email.resolve.v1.json"),
    include_str!("../../schemas/crm.artifact.v1.json"),
    include_str!("../../schemas/crm.template.test.v1.json"),
    include_str!("../../schemas/crm.sweep.v1.json"),
];

pub(crate) fn routes(max_message_bytes: usize) -> Routes<Arc<CrmState>> {
    Routes::new()
        .post("/api/crm/emails", Access::role("crm:write"), post)
        .summary("Request a mail by template. It is rendered and sent asynchronously")
        .max_body_bytes(max_message_bytes.saturating_mul(BODY_FACTOR))
        .request("crm.email.request.v1")
        .responds(202, "crm.email.accepted.v1")
        .post("/api/crm/loans/{id}/send-email", Access::role("crm:write"), post_for_loan)
        .summary("Request a mail about a loan")
        .max_body_bytes(max_message_bytes.saturating_mul(BODY_FACTOR))
        .request("crm.email.request.v1")
        .responds(202, "crm.email.accepted.v1")
        .post("/api/crm/templates/{id}/test-send", Access::role(ADMIN), test_send)
        .summary("Send a version with sample variables to one address. It is a mail like any other, checks included")
        .request("crm.template.test.v1")
        .responds(202, "crm.email.accepted.v1")
        .get("/api/crm/emails", Access::role("crm:read"), list)
        .summary("List the mails of a loan (?loan_id=) or a contact (?contact_id=), latest first")
        .responds(200, "crm.email.list.v1")
        .get("/api/crm/emails/{id}", Access::role("crm:read"), show)
        .summary("Show a mail and the state of each recipient")
        .responds(200, "crm.email.v1")
        .get("/api/crm/emails/{id}/artifact", Access::role("crm:read"), show_artifact)
        .summary("Show the manifest of a mail, and whether its objects and its audit entry match it")
        .responds(200, "crm.artifact.v1")
        .get("/api/crm/emails/{id}/message", Access::role(ADMIN), show_message)
        .summary("Return the exact bytes that were handed over. The access is audited")
        .responds_media(200, "message/rfc822")
        .post("/api/crm/emails/{id}/recipients/{position}/resolve", Access::role(ADMIN), resolve)
        .summary("Settle a recipient whose outcome is unknown, after finding out whether the mail was sent")
        .request("crm.email.resolve.v1")
        .responds(200, "crm.email.v1")
}

async fn post(State(state): State<Arc<CrmState>>, command: Command<EmailRequest>) -> Result<Response, Problem> {
    request(&state, command).await
}

async fn post_for_loan(
    State(state): State<Arc<CrmState>>,
    Path(loan_id): Path<String>,
    mut command: Command<EmailRequest>,
) -> Result<Response, Problem> {
    if command.body.loan_id.as_ref().is_some_and(|named| *named != loan_id) {
        return Err(Problem::new(EMAIL_INVALID).error("/loan_id", "must be the loan of the address, or absent"));
    }
    command.body.loan_id = Some(loan_id);
    request(&state, command).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestSend {
    to: String,
    version: Option<i32>,
}

async fn test_send(
    State(state): State<Arc<CrmState>>,
    Path(template_id): Path<String>,
    command: Command<TestSend>,
) -> Result<Response, Problem> {
    let (TestSend { to, version }, command) = command.into_parts();
    let template = templates::load(&command.tx, &state.templates, &template_id, version).await?;
    let none = || Problem::new(codes::NOT_FOUND).detail("There is no such template or version.");
    let template = template.ok_or_else(none)?;
    let request = EmailRequest {
        template_version: Some(template.version),
        to: vec![to],
        variables: template.checked.sample_variables(),
        ..EmailRequest::by_template(template_id)
    };
    accept(&state, request, command).await
}

async fn request(state: &CrmState, command: Command<EmailRequest>) -> Result<Response, Problem> {
    let (request, command) = command.into_parts();
    check_loan(&command, &request).await?;
    accept(state, request, command).await
}

/// Publishes the request, or records that it was denied.
async fn accept(state: &CrmState, request: EmailRequest, mut command: Command) -> Result<Response, Problem> {
    let separate = if request.has_large_files(state) { Some(command.begin_separate().await?) } else { None };
    match request_email(&mut command.tx, separate, state, request.clone()).await {
        Ok(email_id) => {
            let location = format!("/api/crm/emails/{email_id}");
            command.accepted(location, &json!({ "email_id": email_id, "status": "queued" })).await
        }
        Err(RequestError::Denied { position, denial, template }) => {
            let mut separate = command.begin_separate().await?;
            record_denial(&mut separate, &request, &template, position, &denial).await?;
            separate.commit().await?;
            let detail = format!("Recipient {position} may not be written to: {denial}.");
            Err(Problem::new(RECIPIENT_DENIED).detail(detail))
        }
        Err(error) => Err(problem(error)),
    }
}

/// Users may write about the loans that they own or are assigned to; administrators about all.
async fn check_loan(command: &Command, request: &EmailRequest) -> Result<(), Problem> {
    let Some(loan_id) = request.loan_id.as_deref().filter(|_| !command.caller.has_role(ADMIN)) else {
        return Ok(());
    };
    if store::is_assigned(&command.tx, "loan", loan_id, &command.caller.user_id).await? {
        return Ok(());
    }
    let detail =
        "You may write about loans that you own or are assigned to. Ask for an assignment, or for the role crm:admin.";
    Err(Problem::new(codes::FORBIDDEN).detail(detail))
}

fn problem(error: RequestError) -> Problem {
    match error {
        RequestError::Crm(error) => error.into(),
        RequestError::Invalid(problems) => problems.into_iter().fold(
            Problem::new(EMAIL_INVALID).detail("Correct the members that `errors` lists, and send the request again."),
            |problem, (path, message)| problem.error(path, message),
        ),
        RequestError::Variables(problems) => Problem::new(TEMPLATE_INVALID)
            .detail("Correct the variables that `errors` lists, and send the request again.")
            .errors(variable_errors("/variables", &problems)),
        RequestError::NoTemplate => Problem::new(EMAIL_INVALID)
            .error("/template_id", "names no template, a retired one, or a version that does not exist"),
        RequestError::NoContact => {
            Problem::new(EMAIL_INVALID).error("/contact_id", "names no contact, or an erased one")
        }
        RequestError::Denied { .. } => Problem::new(RECIPIENT_DENIED),
    }
}

#[derive(Deserialize)]
struct ListQuery {
    loan_id: Option<String>,
    contact_id: Option<Uuid>,
    before: Option<Uuid>,
}

async fn list(Query(query): Query<ListQuery>, reader: Reader) -> Result<Response, Problem> {
    let filter = match (&query.loan_id, query.contact_id) {
        (Some(loan_id), None) => EmailFilter::Loan(loan_id),
        (None, Some(contact_id)) => EmailFilter::Contact(contact_id),
        _ => return Err(Problem::new(codes::INVALID_REQUEST).detail("Set either `loan_id` or `contact_id`.")),
    };
    let emails = store::list(&reader.tx, &filter, query.before.unwrap_or(Uuid::max()), LIST_LIMIT).await?;
    let is_full = i64::try_from(emails.len()).unwrap_or(0) == LIST_LIMIT;
    let next = emails.last().filter(|_| is_full).map(|email| email["email_id"].clone());
    reader.respond(&json!({ "emails": emails, "next": next })).await
}

async fn show(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let email = store::show(&reader.tx, id).await?.ok_or_else(not_found)?;
    reader.respond(&email).await
}

async fn show_artifact(
    State(state): State<Arc<CrmState>>,
    Path(id): Path<Uuid>,
    reader: Reader,
) -> Result<Response, Problem> {
    let check = check_artifact(&reader.tx, &state, id).await?.ok_or_else(not_rendered)?;
    reader.respond(&check).await
}

async fn show_message(
    State(state): State<Arc<CrmState>>,
    Path(id): Path<Uuid>,
    reader: Reader,
) -> Result<Response, Problem> {
    let mut tx = reader.tx;
    let message = read_message(&tx, &state, id).await?.ok_or_else(not_rendered)?;
    changes::record(&mut tx, Change::new("CRM.EMAIL.READ", "email", id).email(id)).await?;
    tx.commit().await?;
    onceward::web::axum::response::Response::builder()
        .header("content-type", "message/rfc822")
        .header("content-disposition", "attachment; filename=\"message.eml\"")
        .header("cache-control", "no-store")
        .body(message.into())
        .map_err(Problem::internal)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolve {
    sent: bool,
    reason: String,
}

async fn resolve(
    Path((email_id, position)): Path<(Uuid, i16)>,
    command: Command<Resolve>,
) -> Result<Response, Problem> {
    let (Resolve { sent, reason }, mut command) = command.into_parts();
    let resolution = UnknownResolution { email_id, position, was_sent: sent, reason: &reason };
    if !resolve_unknown(&mut command.tx, &resolution).await? {
        let detail = "There is no recipient with this position whose outcome is unknown.";
        return Err(Problem::new(codes::NOT_FOUND).detail(detail));
    }
    let email = store::show(&command.tx, email_id).await?.ok_or_else(not_found)?;
    command.respond(StatusCode::OK, &email).await
}

fn not_found() -> Problem {
    Problem::new(codes::NOT_FOUND).detail("There is no mail with this id.")
}

fn not_rendered() -> Problem {
    Problem::new(codes::NOT_FOUND).detail("There is no mail with this id, or it was not rendered yet.")
}
