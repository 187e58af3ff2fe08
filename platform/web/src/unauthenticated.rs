//! The extractor for public routes: the bytes as they were sent, and no caller.
//!
//! The handler authenticates the sender itself, by a signature over the bytes or by a token of its own. Everything
//! before that check must be harmless: read the secret of the tenant that the request claims, compare, reject.

use crate::{AppState, Problem, body, observe::RequestIds, routes::RouteSpec};
use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::HeaderMap,
};
use onceward_db::{Db, Scope, Tx};
use onceward_envelope::{Actor, TenantId};
use onceward_supervisor::Supervisor;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A request whose sender the platform has not authenticated.
pub struct UnauthenticatedRequest {
    /// The headers; one of them contains the signature or the token.
    pub headers: HeaderMap,
    /// The body, unparsed.
    pub body: Bytes,
    ids: RequestIds,
    spec: Arc<RouteSpec>,
    state: Arc<AppState>,
}

impl UnauthenticatedRequest {
    /// Returns a header's value if it is present and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Parses the body as JSON, whatever its content type, and checks it against the route's schema if one is declared.
    pub fn json<B: DeserializeOwned>(&self) -> Result<B, Problem> {
        match &self.spec.request {
            Some(schema_id) => body::parse_valid_json(&self.body, schema_id, &self.state.schemas),
            None => body::parse_json(&self.body),
        }
    }

    /// Begins a transaction that sees `tenant`, with `service` as the actor. The caller commits.
    pub async fn begin(&self, tenant: TenantId, service: &str) -> Result<Tx, Problem> {
        Ok(self.db().begin(self.scope(tenant, service)).await?)
    }

    /// Returns the scope of this request for `tenant`, with `service` as the actor, for a transaction that several
    /// requests share.
    pub fn scope(&self, tenant: TenantId, service: &str) -> Scope {
        Scope {
            tenant: Some(tenant),
            actor: Actor { user_id: None, service: Some(service.to_owned()) },
            correlation_id: self.ids.correlation_id.clone(),
            causation_id: None,
            trace: Some(self.ids.trace.clone()),
        }
    }

    /// Returns the database in which such a transaction begins.
    pub fn db(&self) -> &Db {
        &self.state.db
    }

    /// Returns the supervisor of tasks that outlive this request.
    pub fn supervisor(&self) -> &Supervisor {
        &self.state.supervisor
    }
}

impl<S: Send + Sync> FromRequest<S> for UnauthenticatedRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let (state, spec) = (AppState::of(&parts.extensions)?.clone(), RouteSpec::of(&parts.extensions)?.clone());
        let limit = spec.max_body_bytes.unwrap_or(state.config.max_body_bytes);
        let body = body::read(&parts.headers, body, limit).await?;
        Ok(Self { ids: RequestIds::of(&parts.extensions), headers: parts.headers, body, spec, state })
    }
}
