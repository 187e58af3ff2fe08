//! `POST /api/loans`: accepted and made by a message, or made at once.

use crate::{
    LendingError,
    loans::{
        commands,
        events::LoanCreate,
        request::LoanData,
        store::{self, Claim, Progress, State},
    },
};
use onceward::{
    Caller,
    envelope::fingerprint_hex,
    prelude::*,
    web::axum::http::{HeaderMap, HeaderValue, header::LOCATION},
};
use uuid::Uuid;

/// The feature by which a tenant chooses between the two ways.
const ASYNC: &str = "async_loan_create";
/// A longer name is hashed, so that a key stays within its limit.
const USER_MAX: usize = 100;

pub(super) async fn create(
    headers: HeaderMap,
    command: Command<LoanData>,
    is_async: bool,
) -> Result<Response, Problem> {
    let (mut data, command) = command.into_parts();
    let terms = commands::terms(&command.tx, &data).await?;
    let is_async = store::feature(&command.tx, ASYNC).await?.unwrap_or(is_async);
    let key = request_key(&command.caller, headers.get("idempotency-key"), &data)?;
    let refused_before = match store::claim(&command.tx, LoanCreate::TYPE, &key).await? {
        Claim::Known(progress) => return again(command, progress, is_async).await,
        Claim::New { refused_before } => refused_before,
    };
    let loan_id = data.loan_id.unwrap_or_else(Uuid::now_v7);
    if data.loan_id.is_some() && store::find_loan(&command.tx, loan_id).await?.is_some() {
        return Err(LendingError::LoanExists(loan_id).into());
    }
    // The version that was checked is the one that is used, however long the message takes.
    data.product_version = Some(terms.product_version);
    store::begin(&command.tx, LoanCreate::TYPE, loan_id, Some(&key)).await?;
    match is_async {
        true => accept(command, LoanCreate { loan_id, loan_data: data }, key, refused_before).await,
        false => make(command, loan_id, &data).await,
    }
}

async fn accept(
    mut command: Command,
    create: LoanCreate,
    key: String,
    refused_before: i64,
) -> Result<Response, Problem> {
    let tenant = command.caller.tenant.clone();
    // A refused command may be given again, and is then another message.
    let key = if refused_before == 0 { key } else { format!("{key}:{}", refused_before + 1) };
    outbox::send(&mut command.tx, NewMessage::from_event(&create, &tenant)?.once_per(key)).await?;
    let body = json!({"status": State::Processing.as_str(), "loanId": create.loan_id});
    command.accepted(status_url(create.loan_id), &body).await
}

async fn make(mut command: Command, loan_id: Uuid, data: &LoanData) -> Result<Response, Problem> {
    let loan = commands::create_loan(&mut command.tx, loan_id, data).await?;
    store::settle(&command.tx, LoanCreate::TYPE, loan_id, State::Done, None).await?;
    let response = command.respond(StatusCode::CREATED, &loan.view()).await?;
    Ok(located(response, &format!("/api/loans/{loan_id}")))
}

/// The same command was accepted before: the same answer, under the first one's correlation id.
async fn again(command: Command, known: Progress, is_async: bool) -> Result<Response, Problem> {
    let loan_id = known.subject_id;
    let made = store::find_loan(&command.tx, loan_id).await?;
    let mut response = match made {
        Some(loan) if !is_async => {
            let response = command.respond(StatusCode::CREATED, &loan.view()).await?;
            located(response, &format!("/api/loans/{loan_id}"))
        }
        _ => {
            let location = status_url(loan_id);
            let body = json!({
                "correlationId": known.correlation_id, "statusUrl": location,
                "status": State::Processing.as_str(), "loanId": loan_id,
            });
            located(command.respond(StatusCode::ACCEPTED, &body).await?, &location)
        }
    };
    response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    Ok(response)
}

/// What makes two requests the same: who asks, and for what; with a key of the caller's, that as well.
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

fn located(mut response: Response, location: &str) -> Response {
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}
