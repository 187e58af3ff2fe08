//! What the handler of a webhook gets: the bytes as they were sent, to check a signature over, and no caller.
//!
//! Its route is public, so whatever it does before the signature is checked must be harmless: read the secret of the
//! tenant that the request claims, compare, refuse.

use crate::{AppState, Problem, command, observe::RequestIds};
use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::HeaderMap,
};
use onceward_db::{Db, Scope, Tx};
use onceward_envelope::{Actor, TenantId};

/// A request whose sender is proved by a signature instead of a token.
pub struct SignedRequest {
    /// Its headers; one of them holds the signature.
    pub headers: HeaderMap,
    /// The body, unread.
    pub body: Bytes,
    ids: RequestIds,
    db: Db,
}

impl SignedRequest {
    /// A header's value, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A transaction that sees `tenant`, in the name of `service`. The caller commits.
    pub async fn begin(&self, tenant: TenantId, service: &str) -> Result<Tx, Problem> {
        Ok(self.db.begin(self.scope(tenant, service)).await?)
    }

    /// This request's work for `tenant`, in the name of `service`: for a transaction that several requests share.
    pub fn scope(&self, tenant: TenantId, service: &str) -> Scope {
        Scope {
            tenant: Some(tenant),
            actor: Actor { user_id: None, service: Some(service.to_owned()) },
            correlation_id: self.ids.correlation_id.clone(),
            causation_id: None,
            trace: Some(self.ids.trace.clone()),
        }
    }

    /// Where such a transaction is begun.
    pub fn db(&self) -> &Db {
        &self.db
    }
}

impl FromRequest<AppState> for SignedRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let body = command::read_body(&parts.headers, body, state.config.max_body_bytes).await?;
        Ok(Self { ids: RequestIds::of(&parts.extensions), headers: parts.headers, body, db: state.db.clone() })
    }
}
