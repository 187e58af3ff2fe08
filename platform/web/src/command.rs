//! The extractor for commands: a checked body, the caller, and the one transaction that contains all effects.
//!
//! A request is checked in this order: caller and role (before the handler), the key's form, the body's size, its
//! content type, JSON, the route's schema, the handler's type. Then a transaction begins, and in it the idempotency key
//! is claimed. Nothing takes effect until [`Command::respond`] commits.

use crate::{
    AppState, Caller, Problem, WebConfig, body,
    idempotency::{self, IDEMPOTENCY_REPLAYED, KeyClaim, ScopedKey, StoredResponse},
    problem::codes,
    routes::RouteSpec,
};
use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use onceward_db::{Db, DbError, Tx};
use onceward_envelope::{CorrelationId, SchemaRegistry};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::Arc;

/// A command in progress. Dropping it rolls everything back.
pub struct Command<B = ()> {
    /// Holds the command's effects; committed by [`Command::respond`].
    pub tx: Tx,
    /// The request's body, valid under the route's schema.
    pub body: B,
    /// The caller.
    pub caller: Caller,
    key: Option<ScopedKey>,
    config: Arc<WebConfig>,
    db: Db,
}

/// The body of a 202, as `schemas/command.accepted.v1.json` declares it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Accepted<'a, T> {
    correlation_id: &'a str,
    status_url: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

impl<B> Command<B> {
    /// Separates the body from the command, for handlers that need to own it.
    pub fn into_parts(self) -> (B, Command) {
        let Self { tx, body, caller, key, config, db } = self;
        let rest = Command { tx, body: (), caller, key, config, db };
        (body, rest)
    }

    /// Begins another transaction for the caller, which is committed whatever becomes of the command: to record that it was
    /// denied, or what must be known before it commits.
    pub async fn begin_separate(&self) -> Result<Tx, DbError> {
        self.db.begin(self.caller.scope()).await
    }

    /// Returns the id that links everything this command causes.
    pub fn correlation_id(&self) -> &CorrelationId {
        &self.caller.correlation_id
    }

    /// Stores the response under the idempotency key and commits it with the command's effects.
    pub async fn respond(self, status: StatusCode, body: &impl Serialize) -> Result<Response, Problem> {
        self.finish(status, None, body).await
    }

    /// Like [`Command::respond`], for a body with a value that is returned once and not stored: a repetition returns
    /// `stored`.
    pub async fn respond_once(
        self,
        status: StatusCode,
        body: &impl Serialize,
        stored: &impl Serialize,
    ) -> Result<Response, Problem> {
        let body = serde_json::to_vec(body).map_err(Problem::internal)?;
        let mut response = self.finish(status, None, stored).await?;
        *response.body_mut() = Body::from(body);
        Ok(response)
    }

    /// Responds with 202: the work continues asynchronously, and `location` is the URL of its status. The body contains
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
        let response = StoredResponse {
            status: status.as_u16(),
            content_type: Some("application/json".to_owned()),
            location,
            body: serde_json::to_vec(body).map_err(Problem::internal)?,
        };
        if let Some(key) = &self.key {
            let limit = self.config.max_stored_response_bytes;
            if response.body.len() > limit {
                return Err(Problem::internal(format!(
                    "the response has {} bytes, more than http.max_stored_response_bytes ({limit}), and cannot be stored \
                     for its idempotency key; return less, or raise the setting",
                    response.body.len()
                )));
            }
            let ttl_s = self.config.idempotency_ttl_s;
            if !idempotency::save(&self.tx, key, &response, ttl_s).await? {
                return Err(in_progress());
            }
        }
        self.tx.commit().await?;
        response.into_response()
    }
}

impl StoredResponse {
    fn into_response(self) -> Result<Response, Problem> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).map_err(Problem::internal)?;
        for (name, value) in [(header::CONTENT_TYPE, self.content_type), (header::LOCATION, self.location)] {
            if let Some(value) = value {
                let value = HeaderValue::try_from(value).map_err(Problem::internal)?;
                response.headers_mut().insert(name, value);
            }
        }
        Ok(response)
    }
}

/// The reason why a handler does not run: a problem, or a stored response.
pub enum CommandRejection {
    /// The request has a problem.
    Problem(Problem),
    /// The command was completed earlier; this is its response.
    Replay(Box<Response>),
}

impl IntoResponse for CommandRejection {
    fn into_response(self) -> Response {
        match self {
            Self::Problem(problem) => problem.into_response(),
            Self::Replay(response) => *response,
        }
    }
}

impl From<Problem> for CommandRejection {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<DbError> for CommandRejection {
    fn from(error: DbError) -> Self {
        Self::Problem(error.into())
    }
}

/// A body that is not JSON, such as a file, for a handler that reads the raw bytes.
#[derive(Clone, Debug)]
pub struct RawBody {
    /// The declared media type, without parameters and in lower case; empty if none is declared.
    pub content_type: String,
    /// The bytes.
    pub bytes: Bytes,
}

impl<S: Send + Sync, B: DeserializeOwned + Send> FromRequest<S> for Command<B> {
    type Rejection = CommandRejection;

    async fn from_request(request: Request, _: &S) -> Result<Self, CommandRejection> {
        Self::begin(request, |headers, bytes, schema_id, schemas| {
            body::parse_command(headers, bytes, schema_id, schemas)
        })
        .await
    }
}

impl<S: Send + Sync> FromRequest<S> for Command<RawBody> {
    type Rejection = CommandRejection;

    async fn from_request(request: Request, _: &S) -> Result<Self, CommandRejection> {
        Self::begin(request, |headers, bytes, _, _| {
            Ok(RawBody { content_type: body::media_type(headers), bytes: bytes.clone() })
        })
        .await
    }
}

impl<B> Command<B> {
    async fn begin(
        request: Request,
        parse: impl FnOnce(&HeaderMap, &Bytes, Option<&str>, &SchemaRegistry) -> Result<B, Problem>,
    ) -> Result<Self, CommandRejection> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, &()).await?;
        let (state, spec) = (AppState::of(&parts.extensions)?, RouteSpec::of(&parts.extensions)?);
        let key = idempotency::key_of(&parts.headers, spec.idempotency)?;
        let limit = spec.max_body_bytes.unwrap_or(state.config.max_body_bytes);
        let bytes = body::read(&parts.headers, body, limit).await?;
        let body = parse(&parts.headers, &bytes, spec.request.as_deref(), &state.schemas)?;
        let key = key.map(|key| ScopedKey::new(&caller, &parts.method, parts.uri.path(), &key, &bytes));
        let mut tx = state.db.begin(caller.scope()).await?;
        if let Some(key) = &key {
            tx = claim_key(tx, key).await?;
        }
        Ok(Self { tx, body, caller, key, config: state.config.clone(), db: state.db.clone() })
    }
}

/// Claims the key and returns the transaction if the key is free. Otherwise rolls back and returns the response.
async fn claim_key(tx: Tx, key: &ScopedKey) -> Result<Tx, CommandRejection> {
    let claim = idempotency::claim(&tx, key).await?;
    if matches!(claim, KeyClaim::Free) {
        return Ok(tx);
    }
    tx.rollback().await?;
    match claim {
        KeyClaim::Completed(stored) => {
            let mut response = stored.into_response()?;
            response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
            metrics::counter!("http_idempotent_replays_total").increment(1);
            Err(CommandRejection::Replay(Box::new(response)))
        }
        KeyClaim::OtherBody => Err(Problem::new(codes::KEY_REUSED)
            .detail("This Idempotency-Key was used for a request with another body. Use a new key for a new command.")
            .into()),
        KeyClaim::InProgress | KeyClaim::Free => Err(in_progress().into()),
    }
}

fn in_progress() -> Problem {
    Problem::new(codes::KEY_IN_PROGRESS)
        .detail("A request with this Idempotency-Key is in progress. Send the same request again after a moment.")
        .retry_after_s(1)
}
