//! What a commanding handler gets: a checked body, its caller, and the one transaction that holds everything it does.
//!
//! The order in which a request is looked at: caller and role (before the handler), the key's form, the body's size,
//! its content type, JSON, the route's schema, the handler's type; then a transaction, and in it the idempotency key.
//! Until [`Command::respond`] commits, nothing has happened.

mod body;

pub(crate) use body::read as read_body;

use crate::{
    AppState, Caller, Problem, WebConfig,
    idempotency::{self, Claim, IDEMPOTENCY_REPLAYED, ScopedKey, Stored},
    problem::codes,
    routes::RouteSpec,
};
use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use onceward_db::{DbError, Tx};
use onceward_envelope::{CorrelationId, SchemaRegistry};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::Arc;

/// A command under way. Dropping it undoes everything.
pub struct Command<B = ()> {
    /// Holds the command's effects; committed by [`Command::respond`].
    pub tx: Tx,
    /// The request's body, valid under the route's schema.
    pub body: B,
    /// Who commands.
    pub caller: Caller,
    key: Option<ScopedKey>,
    config: Arc<WebConfig>,
}

/// The body of a 202: where to look, and under which id to ask.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Accepted<'a, T> {
    correlation_id: &'a str,
    status_url: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

impl<B> Command<B> {
    /// The body on its own, for handlers that want to own it.
    pub fn into_parts(self) -> (B, Command) {
        let Self { tx, body, caller, key, config } = self;
        let rest = Command { tx, body: (), caller, key, config };
        (body, rest)
    }

    /// Ties together everything this command sets in motion.
    pub fn correlation_id(&self) -> &CorrelationId {
        &self.caller.correlation_id
    }

    /// Stores the response under the idempotency key and commits it with the command's effects.
    pub async fn respond(self, status: StatusCode, body: &impl Serialize) -> Result<Response, Problem> {
        self.finish(status, None, body).await
    }

    /// The same for a body with something that is told once and kept nowhere: a repetition is answered with `kept`.
    pub async fn respond_once(
        self,
        status: StatusCode,
        body: &impl Serialize,
        kept: &impl Serialize,
    ) -> Result<Response, Problem> {
        let told = serde_json::to_vec(body).map_err(Problem::internal)?;
        let mut response = self.finish(status, None, kept).await?;
        *response.body_mut() = Body::from(told);
        Ok(response)
    }

    /// Answers 202: the work goes on by messages, and `location` is where to ask for its state. The body carries
    /// `correlationId`, `statusUrl` and the fields of `body`, which must be an object.
    pub async fn accepted(self, location: impl Into<String>, body: &impl Serialize) -> Result<Response, Problem> {
        let location = location.into();
        let correlation_id = self.caller.correlation_id.clone();
        let body = Accepted { correlation_id: correlation_id.as_str(), status_url: &location, body };
        self.finish(StatusCode::ACCEPTED, Some(location.clone()), &body).await
    }

    async fn finish(
        self,
        status: StatusCode,
        location: Option<String>,
        body: &impl Serialize,
    ) -> Result<Response, Problem> {
        let response = Stored {
            status: status.as_u16(),
            content_type: Some("application/json".to_owned()),
            location,
            body: serde_json::to_vec(body).map_err(Problem::internal)?,
        };
        if let Some(key) = &self.key {
            let limit = self.config.max_stored_response_bytes;
            if response.body.len() > limit {
                return Err(Problem::internal(format!(
                    "the response has {} bytes and cannot be stored for its idempotency key; answer with less than {limit}, or raise the limit",
                    response.body.len()
                )));
            }
            let ttl_s = self.config.idempotency_ttl_s;
            if !idempotency::save(&self.tx, key, &response, ttl_s).await? {
                return Err(still_running());
            }
        }
        self.tx.commit().await?;
        response.into_response()
    }
}

impl Stored {
    fn into_response(self) -> Result<Response, Problem> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).map_err(Problem::internal)?;
        let named = [(header::CONTENT_TYPE, self.content_type), (header::LOCATION, self.location)];
        for (name, value) in named {
            if let Some(value) = value {
                let value = HeaderValue::try_from(value).map_err(Problem::internal)?;
                response.headers_mut().insert(name, value);
            }
        }
        Ok(response)
    }
}

/// Why a handler does not run: something is wrong, or it ran before.
pub enum Refusal {
    /// Something is wrong.
    Problem(Problem),
    /// The command was done before; this is its response.
    Replay(Box<Response>),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Problem(problem) => problem.into_response(),
            Self::Replay(response) => *response,
        }
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<DbError> for Refusal {
    fn from(error: DbError) -> Self {
        Self::Problem(error.into())
    }
}

/// A body that is not JSON, as it was sent: a file, for a handler that reads it itself.
#[derive(Clone, Debug)]
pub struct Raw {
    /// What the request says it is, without parameters and in lower case; empty if it says nothing.
    pub content_type: String,
    /// The bytes.
    pub bytes: Bytes,
}

impl<B: DeserializeOwned + Send> FromRequest<AppState> for Command<B> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Refusal> {
        Self::begin(request, state, |headers, bytes, schema_id, schemas| {
            body::checked(headers, bytes, schema_id, schemas)
        })
        .await
    }
}

impl FromRequest<AppState> for Command<Raw> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Refusal> {
        Self::begin(request, state, |headers, bytes, _, _| {
            Ok(Raw { content_type: body::media_type(headers), bytes: bytes.clone() })
        })
        .await
    }
}

impl<B> Command<B> {
    async fn begin(
        request: Request,
        state: &AppState,
        read: impl FnOnce(&HeaderMap, &Bytes, Option<&str>, &SchemaRegistry) -> Result<B, Problem>,
    ) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let spec = parts
            .extensions
            .get::<Arc<RouteSpec>>()
            .ok_or_else(|| Problem::internal("a command was routed around Routes; declare its route there"))?;
        let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(|| {
            Problem::internal("a command's route is public; declare it with Access::role or Access::authenticated")
        })?;
        let key = idempotency::key_of(&parts.headers, spec.idempotency)?;
        let limit = spec.max_body_bytes.unwrap_or(state.config.max_body_bytes);
        let bytes = body::read(&parts.headers, body, limit).await?;
        let body = read(&parts.headers, &bytes, spec.request.as_deref(), &state.schemas)?;
        let key = key.map(|key| ScopedKey::new(&caller, &parts.method, parts.uri.path(), &key, &bytes));
        let mut tx = state.db.begin(caller.scope()).await?;
        if let Some(key) = &key {
            tx = claim(tx, key).await?;
        }
        Ok(Self { tx, body, caller, key, config: state.config.clone() })
    }
}

/// Goes on only if the key is free.
async fn claim(tx: Tx, key: &ScopedKey) -> Result<Tx, Refusal> {
    let claim = idempotency::claim(&tx, key).await?;
    if matches!(claim, Claim::Free) {
        return Ok(tx);
    }
    tx.rollback().await?;
    match claim {
        Claim::Done(stored) => {
            let mut response = stored.into_response()?;
            response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
            metrics::counter!("http_idempotent_replays_total").increment(1);
            Err(Refusal::Replay(Box::new(response)))
        }
        Claim::OtherBody => Err(Problem::new(codes::KEY_REUSED)
            .detail("This Idempotency-Key stands for a request with another body. Use a new key for a new command.")
            .into()),
        Claim::Running | Claim::Free => Err(still_running().into()),
    }
}

fn still_running() -> Problem {
    Problem::new(codes::KEY_IN_PROGRESS)
        .detail("A request with this Idempotency-Key is being worked on. Send it again, unchanged, in a moment.")
        .retry_after_s(1)
}
