//! The HTTP routes of the live view.

use super::{
    live_feed::{LiveFeed, LiveSubscription},
    live_link::{LiveLink, LiveLinkSigner},
    page, probe,
    snapshot::{self, LiveSnapshot},
};
use crate::{Settings, SurveyError, token::TokenError};
use futures_util::{Stream, StreamExt, stream};
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

/// The maximum duration of a stream; viewers that are still there reconnect.
const STREAM_DURATION_MAX: Duration = Duration::from_secs(60 * 60);
const HEARTBEAT: Duration = Duration::from_secs(15);
const RECONNECT_AFTER: Duration = Duration::from_secs(2);
const VIEWERS_MAX_RETRY_S: u32 = 10;
const EVENT_STREAM: &str = "text/event-stream";
/// Allows only our own files, and no framing by other sites. The page's empty icon (`data:`) saves a request.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The state shared by the routes of the live view.
pub(crate) struct LiveView {
    feed: Arc<LiveFeed>,
    link_signer: LiveLinkSigner,
    link_minutes: u32,
    /// The idle time after which a session counts as gone.
    idle_s: u32,
}

impl LiveView {
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        let interval = Duration::from_millis(settings.live_every_ms.max(100));
        let idle_s = settings.reservation_s;
        Arc::new(Self {
            feed: LiveFeed::new(settings.live_listeners_max, interval, idle_s),
            link_signer: LiveLinkSigner::new(&settings.token_secret),
            link_minutes: settings.live_link_minutes,
            idle_s,
        })
    }
}

pub(crate) fn routes() -> Routes<Arc<LiveView>> {
    Routes::new()
        .get("/api/surveys/{id}/live", Access::role("surveys:read"), live)
        .summary("Show the live view of a survey: one snapshot, or a stream of them with `Accept: text/event-stream`.")
        .responds(200, "survey.live.v1")
        .responds_media(200, EVENT_STREAM)
        .post("/api/surveys/{id}/live-link", Access::role("surveys:read"), create_link)
        .summary("Create a link that shows the live view of this survey in a browser. It is read-only and expires.")
        .responds(201, "live.link.v1")
        .idempotency(Idempotency::Optional)
        .get("/live/{token}", Access::public(), show_page)
        .summary("Show the live view as a page, with a live-view link.")
        .responds_media(200, "text/html")
        .get("/live/{token}/events", Access::public(), stream_by_link)
        .summary("Stream the live view as server-sent events, with a live-view link.")
        .responds_media(200, EVENT_STREAM)
        .get("/live/assets/live.js", Access::public(), || asset("text/javascript; charset=utf-8", page::SCRIPT))
        .summary("The script of the live view.")
        .responds_media(200, "text/javascript")
        .get("/live/assets/live.css", Access::public(), || asset("text/css; charset=utf-8", page::STYLE))
        .summary("The style sheet of the live view.")
        .responds_media(200, "text/css")
}

async fn live(
    State(live_view): State<Arc<LiveView>>,
    Path(survey_id): Path<Uuid>,
    headers: HeaderMap,
    state: AppState,
    caller: Caller,
) -> Result<Response, Problem> {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepts.contains(EVENT_STREAM) {
        return stream_snapshots(&state, &live_view, (caller.tenant, survey_id), STREAM_DURATION_MAX, false).await;
    }
    let snapshot = read(&state.db, caller.scope(), survey_id, live_view.idle_s).await?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(snapshot)).into_response())
}

async fn create_link(
    State(live_view): State<Arc<LiveView>>,
    Path(survey_id): Path<Uuid>,
    mut command: Command<Option<()>>,
) -> Result<Response, Problem> {
    // Issues a link only if the caller may see the survey.
    snapshot::read(&command.tx, survey_id, live_view.idle_s).await?;
    let duration = SignedDuration::from_mins(i64::from(live_view.link_minutes));
    let expires_at = Timestamp::now().saturating_add(duration).map_err(Problem::internal)?;
    let expires_at = Timestamp::from_second(expires_at.as_second()).map_err(Problem::internal)?;
    let link = LiveLink { tenant: command.caller.tenant.clone(), survey_id, expires_at };
    let token = live_view.link_signer.sign(&link).map_err(SurveyError::from)?;
    let entry = Entry::new("survey_live_link_created").object("survey", survey_id);
    audit::record(&mut command.tx, entry.new_value(json!({ "expires_at": expires_at }))).map_err(SurveyError::from)?;
    command.respond(StatusCode::CREATED, &json!({ "url": format!("/live/{token}"), "expires_at": expires_at })).await
}

async fn show_page(
    State(live_view): State<Arc<LiveView>>,
    Path(token): Path<String>,
    state: AppState,
) -> Result<Response, Problem> {
    let (status, html) = match live_view.link_signer.verify(&token, Timestamp::now()) {
        Ok(link) => {
            let snapshot = read(&state.db, Scope::for_tenant(link.tenant), link.survey_id, live_view.idle_s).await?;
            (StatusCode::OK, page::page(&snapshot, &format!("/live/{token}/events"), link.expires_at))
        }
        Err(TokenError::NoSecret) => return Err(SurveyError::Token(TokenError::NoSecret).into()),
        Err(_) => (StatusCode::FORBIDDEN, page::invalid_link()),
    };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        // The address is the credential.
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
    ];
    Ok((status, headers, html).into_response())
}

async fn stream_by_link(
    State(live_view): State<Arc<LiveView>>,
    Path(token): Path<String>,
    state: AppState,
) -> Result<Response, Problem> {
    let now = Timestamp::now();
    let link = live_view.link_signer.verify(&token, now).map_err(SurveyError::from)?;
    let left = Duration::try_from(link.expires_at.duration_since(now)).unwrap_or_default();
    stream_snapshots(&state, &live_view, (link.tenant, link.survey_id), left.min(STREAM_DURATION_MAX), true).await
}

async fn read(db: &Db, scope: Scope, survey_id: Uuid, idle_s: u32) -> Result<LiveSnapshot, Problem> {
    let mut tx = db.begin(scope).await?;
    let snapshot = snapshot::read(&tx, survey_id, idle_s).await?;
    probe::send(&mut tx, survey_id).await?;
    tx.commit().await?;
    Ok(snapshot)
}

/// Streams snapshots as they are read; with `html`, also the parts of the page that show them.
async fn stream_snapshots(
    state: &AppState,
    live_view: &LiveView,
    survey: (TenantId, Uuid),
    duration_max: Duration,
    html: bool,
) -> Result<Response, Problem> {
    let subscription = live_view.feed.subscribe(state, survey, duration_max).await?;
    let Some(subscription) = subscription else {
        return Err(Problem::new(codes::OVERLOADED)
            .detail(format!(
                "The live view is at its limit of concurrent viewers. Try again in {VIEWERS_MAX_RETRY_S} seconds."
            ))
            .retry_after_s(VIEWERS_MAX_RETRY_S));
    };
    let sse = Sse::new(events(subscription, html)).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    // A proxy that buffers the response would delay the live view.
    Ok(([(HeaderName::from_static("x-accel-buffering"), "no")], sse).into_response())
}

/// Each event is a whole snapshot, so a viewer that missed some has lost nothing.
fn events(subscription: LiveSubscription, html: bool) -> impl Stream<Item = Result<Event, Infallible>> {
    let snapshots = stream::unfold(subscription, |mut subscription| async move {
        let snapshot = subscription.next().await?;
        Some((snapshot, subscription))
    });
    snapshots.flat_map(move |snapshot| {
        let live = Event::default().event("live").retry(RECONNECT_AFTER).data(&snapshot.json);
        let view = html.then(|| Event::default().event("view").data(&snapshot.html));
        stream::iter([Some(live), view].into_iter().flatten().map(Ok))
    })
}

async fn asset(content_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "public, max-age=300"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}
