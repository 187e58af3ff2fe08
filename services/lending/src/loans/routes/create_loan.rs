//! `POST /api/loans`: accepted and executed asynchronously, or executed at once.

use crate::{
    LendingError, Settings,
    loans::{
        commands,
        events::LoanCreate,
        request::LoanData,
        store::{self, CommandStatus, RequestClaim},
    },
    progress::CommandState,
};
use onceward::{
    Caller,
    envelope::fingerprint_hex,
    prelude::*,
    web::axum::{
        extract::State,
        http::{HeaderMap, HeaderValue, header::LOCATION},
    },
};
use std::sync::Arc;
use uuid::Uuid;

/// The feature flag by which a tenant chooses between the two modes.
const ASYNC: &str = "async_loan_create";
/// A longer name is hashed, so that a key stays within its limit.
const USER_MAX: usize = 100;

pub(super) async fn create(
    State(settings): State<Arc<Settings>>,
    headers: HeaderMap,
    command: Command<LoanData>,
) -> Result<Response, Problem> {
    let (mut data, command) = command.into_parts();
    let loan_terms = commands::loan_terms(&command.tx, &data).await?;
    let is_async = store::tenant_feature(&command.tx, ASYNC).await?.unwrap_or(settings.async_loan_create);
    let key = request_key(&command.caller, headers.get("idempotency-key"), &data)?;
    let refused_before = match store::claim_request(&command.tx, LoanCreate::TYPE, &key).await? {
        RequestClaim::AlreadyAccepted(accepted) => return respond_again(command, accepted, is_async).await,
        RequestClaim::New { refused_before } => refused_before,
    };
    let loan_id = data.loan_id.unwrap_or_else(Uuid::now_v7);
    if data.loan_id.is_some() && store::find_loan(&command.tx, loan_id).await?.is_some() {
        return Err(LendingError::LoanExists(loan_id).into());
    }
    // The version that was checked is the one that is used, however long the message takes.
    data.product_version = Some(loan_terms.product_version);
    store::mark_processing(&command.tx, LoanCreate::TYPE, loan_id, Some(&key)).await?;
    match is_async {
        true => accept(command, LoanCreate { loan_id, loan_data: data }, key, refused_before).await,
        false => create_now(command, loan_id, &data).await,
    }
}

async fn accept(
    mut command: Command,
    create: LoanCreate,
    key: String,
    refused_before: i64,
) -> Result<Response, Problem> {
    let tenant = command.caller.tenant.clone();
    // A refused command may be sent again, and is then another message.
    let key = if refused_before == 0 { key } else { format!("{key}:{}", refused_before + 1) };
    outbox::send(&mut command.tx, NewMessage::from_event(&create, &tenant)?.once_per(key)).await?;
    let body = json!({"status": CommandState::Processing.as_str(), "loanId": create.loan_id});
    command.accepted(status_url(create.loan_id), &body).await
}

async fn create_now(mut command: Command, loan_id: Uuid, data: &LoanData) -> Result<Response, Problem> {
    let loan = commands::create_loan(&mut command.tx, loan_id, data).await?;
    store::set_command_state(&command.tx, LoanCreate::TYPE, loan_id, CommandState::Done, None).await?;
    let response = command.respond(StatusCode::CREATED, &loan.view()).await?;
    Ok(with_location(response, &format!("/api/loans/{loan_id}")))
}

/// Returns the same response for a command that was accepted before, under the original correlation id.
async fn respond_again(command: Command, accepted: CommandStatus, is_async: bool) -> Result<Response, Problem> {
    let loan_id = accepted.subject_id;
    let existing = store::find_loan(&command.tx, loan_id).await?;
    let mut response = match existing {
        Some(loan) if !is_async => {
            let response = command.respond(StatusCode::CREATED, &loan.view()).await?;
            with_location(response, &format!("/api/loans/{loan_id}"))
        }
        _ => {
            let location = status_url(loan_id);
            let body = json!({
                "correlationId": accepted.correlation_id, "statusUrl": location,
                "status": CommandState::Processing.as_str(), "loanId": loan_id,
            });
            with_location(command.respond(StatusCode::ACCEPTED, &body).await?, &location)
        }
    };
    response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    Ok(response)
}

/// Returns the key that identifies repeated requests: caller and content, plus the caller's idempotency key if there
/// is one.
fn request_key(caller: &Caller, key: Option<&HeaderValue>, data: &LoanData) -> Result<String, Problem> {
    let mut content = serde_json::to_vec(data).map_err(Problem::internal)?;
    if let Some(key) = key {
        content.push(b'\n');
        content.extend_from_slice(key.as_bytes());
    }
    let user = &caller.user_id;
    let user = if user.len() > USER_MAX { fingerprint_hex(user) } else { user.clone() };
    Ok(format!("loan-create:{user}:{}", fingerprint_hex(content)))
}

fn status_url(loan_id: Uuid) -> String {
    format!("/api/loans/{loan_id}/status")
}

fn with_location(mut response: Response, location: &str) -> Response {
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}
