//! The events of the provider Resend: `POST /crm/providers/resend/events`.
//!
//! The route is public; the provider signs each event (`signature`). `event` reads what it says. A mail is found by the token
//! in our own tag, which names its tenant safely, and otherwise by the provider's id. Events about mails that are not ours
//! are ignored and counted, because an account may send other mail too.

mod event;
mod signature;

use super::{AppliedFeedback, Feedback, JoinedBy, apply, mail_lookup, measure, store};
use crate::{CrmError, state::CrmState};
use event::{EventRead, ProviderEvent};
use jiff::Timestamp;
use onceward::{
    Db, Idempotency, UnauthenticatedRequest,
    prelude::*,
    web::axum::{Json, extract::State, response::IntoResponse},
};
use serde_json::Value;
use signature::SignedHeaders;
use std::sync::Arc;
use uuid::Uuid;

const SOURCE: &str = "resend";
const SERVICE: &str = "resend-webhook";
const BODY_BYTES_MAX: usize = 256 * 1024;
const ID_BYTES_MAX: usize = 255;

pub(super) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .post("/crm/providers/resend/events", Access::public(), receive)
        .summary("Receive an event of the mail provider Resend, authenticated by its signature")
        .max_body_bytes(BODY_BYTES_MAX)
        .responds(200, "crm.provider.event.answer.v1")
        .idempotency(Idempotency::Off)
}

async fn receive(State(state): State<Arc<CrmState>>, request: UnauthenticatedRequest) -> Result<Response, Problem> {
    let header = |name: &str, standard: &str| request.header(name).or_else(|| request.header(standard));
    let headers = SignedHeaders {
        id: header("svix-id", "webhook-id").unwrap_or_default(),
        timestamp: header("svix-timestamp", "webhook-timestamp").unwrap_or_default(),
        signatures: header("svix-signature", "webhook-signature").unwrap_or_default(),
    };
    let is_id = (1..=ID_BYTES_MAX).contains(&headers.id.len());
    let secrets = &state.settings.resend_webhook_secret;
    if let (false, _) | (_, Err(_)) = (is_id, headers.verify(secrets, &request.body, Timestamp::now())) {
        let detail =
            "The signature could not be verified, or is older than 5 minutes. Check crm.resend_webhook_secret.";
        return Err(Problem::new(codes::UNAUTHORIZED).detail(detail));
    }
    let event = match event::read(&request.json::<Value>()?, Timestamp::now()) {
        EventRead::Event(event) => *event,
        EventRead::Ignored => return Ok(answer_ignored("no_report")),
    };
    let Some((tenant, email_id, position, joined_by)) = find_recipient(&state, request.db(), &event).await? else {
        return Ok(answer_ignored("unknown_mail"));
    };
    let mut tx = request.begin(tenant, SERVICE).await?;
    let ProviderEvent { kind, occurred_at, .. } = event;
    let source_id = headers.id.to_owned();
    let feedback = Feedback { source: SOURCE, source_id, email_id, position, kind, joined_by, occurred_at };
    let applied = apply(&mut tx, &feedback).await?;
    tx.commit().await?;
    Ok(match applied {
        AppliedFeedback::Recorded => answer("recorded"),
        AppliedFeedback::Duplicate => answer("duplicate"),
        AppliedFeedback::UnknownMail => answer_ignored("unknown_mail"),
    })
}

type FoundRecipient = (TenantId, Uuid, i16, JoinedBy);

async fn find_recipient(state: &CrmState, db: &Db, event: &ProviderEvent) -> Result<Option<FoundRecipient>, CrmError> {
    let reference = event.token.as_deref().and_then(|token| state.keys.read_link_token(token));
    if let Some(reference) = reference {
        let target = mail_lookup::by_token(db, reference).await?;
        return Ok(target.map(|found| (found.tenant, found.email_id, found.position, found.joined_by)));
    }
    let Some(provider_id) = &event.provider_id else { return Ok(None) };
    let found = store::provider_recipient(db, SOURCE, provider_id).await?;
    Ok(found.map(|(tenant, email_id, position)| (tenant, email_id, position, JoinedBy::ProviderId)))
}

fn answer_ignored(reason: &'static str) -> Response {
    measure::ignored(SOURCE, reason);
    answer("ignored")
}

fn answer(status: &str) -> Response {
    Json(json!({ "status": status })).into_response()
}
