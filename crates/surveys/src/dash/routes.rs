//! The HTTP surface of the live view.

use super::{
    Dash,
    hub::Listener,
    link::View,
    page,
    snapshot::{self, Snapshot},
};
use crate::{SurveyError, token::TokenError};
use futures_util::{Stream, stream};
use jiff::{SignedDuration, Timestamp};
use onceward::{
    Caller, Db, Idempotency, Scope,
    prelude::*,
    web::{
        AppState,
        axum::{
            Json,
            extract::State,
            http::{HeaderMap, HeaderName, header},
            response::{
                IntoResponse,
                sse::{Event, KeepAlive, Sse},
            },
        },
    },
};
use onceward_audit::{self as audit, Entry};
use std::{convert::Infallible, sync::Arc, time::Duration};
use uuid::Uuid;

/// A stream ends after this time at the latest; whoever still looks on connects again.
const STREAM_AT_MOST: Duration = Duration::from_secs(60 * 60);
const HEARTBEAT: Duration = Duration::from_secs(15);
const RECONNECT_AFTER: Duration = Duration::from_secs(2);
const SEATS_TAKEN_RETRY_S: u32 = 10;
const EVENT_STREAM: &str = "text/event-stream";
/// Nothing but our own files, and no page of anybody else's around ours. The empty icon spares a request.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn routes(routes: Routes, dash: &Arc<Dash>) -> Routes {
    let [for_live, for_link, for_page, for_events] = [(); 4].map(|()| dash.clone());
    routes
        .get("/api/surveys/{id}/live", Access::role("surveys:read"), move |path, headers, state, caller| {
            live(path, headers, state, caller, for_live.clone())
        })
        .summary("What happens in a survey: a snapshot, or with Accept: text/event-stream one after the other")
        .responds(200, "survey.live.v1")
        .post("/api/surveys/{id}/live-link", Access::role("surveys:read"), move |path, command| {
            make_link(path, command, for_link.clone())
        })
        .summary("Make a link that shows the live view of this survey in a browser, to read only and for a time")
        .responds(201, "live.link.v1")
        .idempotency(Idempotency::Optional)
        .get("/live/{token}", Access::public(), move |path, state| show(path, state, for_page.clone()))
        .summary("The live view as a page, by a live-view link")
        .responds_empty(200)
        .get("/live/{token}/events", Access::public(), move |path, state| watch(path, state, for_events.clone()))
        .summary("The live view as server-sent events, by a live-view link")
        .responds_empty(200)
        .get("/live/assets/live.js", Access::public(), || file("text/javascript; charset=utf-8", page::SCRIPT))
        .summary("The page's script")
        .responds_empty(200)
        .get("/live/assets/live.css", Access::public(), || file("text/css; charset=utf-8", page::STYLE))
        .summary("The page's style")
        .responds_empty(200)
}

async fn live(
    Path(survey_id): Path<Uuid>,
    headers: HeaderMap,
    State(state): State<AppState>,
    caller: Caller,
    dash: Arc<Dash>,
) -> Result<Response, Problem> {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepts.contains(EVENT_STREAM) {
        return stream_to(&state, &dash, caller.tenant, survey_id, STREAM_AT_MOST).await;
    }
    let snapshot = read(&state.db, caller.scope(), survey_id).await?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(snapshot)).into_response())
}

async fn make_link(
    Path(survey_id): Path<Uuid>,
    mut command: Command<Option<()>>,
    dash: Arc<Dash>,
) -> Result<Response, Problem> {
    // Who may not see it gets no link to it.
    snapshot::read(&command.tx, survey_id).await?;
    let lasts = SignedDuration::from_mins(i64::from(dash.link_minutes));
    let until = Timestamp::now().saturating_add(lasts).map_err(Problem::internal)?;
    let until = Timestamp::from_second(until.as_second()).map_err(Problem::internal)?;
    let view = View { tenant: command.caller.tenant.clone(), survey_id, until };
    let token = dash.links.sign(&view).map_err(SurveyError::from)?;
    let entry = Entry::new("survey_live_link_created").object("survey", survey_id);
    audit::record(&mut command.tx, entry.new_value(json!({ "expires_at": until }))).map_err(SurveyError::from)?;
    command.respond(StatusCode::CREATED, &json!({ "url": format!("/live/{token}"), "expires_at": until })).await
}

async fn show(Path(token): Path<String>, State(state): State<AppState>, dash: Arc<Dash>) -> Result<Response, Problem> {
    let (status, html) = match dash.links.read(&token, Timestamp::now()) {
        Ok(view) => {
            let snapshot = read(&state.db, Scope::tenant(view.tenant), view.survey_id).await?;
            (StatusCode::OK, page::page(&snapshot, &format!("/live/{token}/events"), view.until))
        }
        Err(TokenError::NoSecret) => return Err(SurveyError::Token(TokenError::NoSecret).into()),
        Err(_) => (StatusCode::FORBIDDEN, page::closed()),
    };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        // The address is the key.
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
    ];
    Ok((status, headers, html).into_response())
}

async fn watch(Path(token): Path<String>, State(state): State<AppState>, dash: Arc<Dash>) -> Result<Response, Problem> {
    let now = Timestamp::now();
    let view = dash.links.read(&token, now).map_err(SurveyError::from)?;
    let left = Duration::try_from(view.until.duration_since(now)).unwrap_or_default();
    stream_to(&state, &dash, view.tenant, view.survey_id, left.min(STREAM_AT_MOST)).await
}

async fn read(db: &Db, scope: Scope, survey_id: Uuid) -> Result<Snapshot, Problem> {
    let tx = db.begin(scope).await?;
    let snapshot = snapshot::read(&tx, survey_id).await?;
    tx.rollback().await?;
    Ok(snapshot)
}

async fn stream_to(
    state: &AppState,
    dash: &Dash,
    tenant: TenantId,
    survey_id: Uuid,
    at_most: Duration,
) -> Result<Response, Problem> {
    let listener = dash.hub.listen(&state.db, (tenant, survey_id), at_most, &state.stopping).await?;
    let Some(listener) = listener else {
        return Err(Problem::new(codes::OVERLOADED)
            .detail("As many as this server lets look on at once do so.")
            .retry_after_s(SEATS_TAKEN_RETRY_S));
    };
    let sse = Sse::new(events(listener)).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    // A proxy that collects what it passes on would make a live view a dead one.
    Ok(([(HeaderName::from_static("x-accel-buffering"), "no")], sse).into_response())
}

/// Each event is a whole snapshot, so that whoever missed some has missed nothing.
fn events(listener: Listener) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(listener, |mut listener| async move {
        let snapshot = listener.next().await?;
        Some((Ok(Event::default().event("live").retry(RECONNECT_AFTER).data(&*snapshot)), listener))
    })
}

async fn file(content_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "public, max-age=300"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}
