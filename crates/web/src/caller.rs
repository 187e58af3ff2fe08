//! Who calls: the token's tenant, user and roles, checked before any handler runs.

use crate::{Access, AppState, Problem, auth::Identity, observe::RequestIds, problem::codes, routes::RouteSpec};
use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use onceward_db::Scope;
use onceward_envelope::{Actor, CorrelationId, TenantId, TraceContext};
use std::sync::Arc;

/// The authenticated caller of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The tenant whose data is visible.
    pub tenant: TenantId,
    /// The token's subject.
    pub user_id: String,
    /// What the caller may do.
    pub roles: Vec<String>,
    /// Ties together everything this request sets in motion.
    pub correlation_id: CorrelationId,
    /// The request's place in its trace.
    pub trace: TraceContext,
}

impl Caller {
    fn new(identity: Identity, ids: RequestIds) -> Self {
        Self {
            tenant: identity.tenant,
            user_id: identity.user_id,
            roles: identity.roles,
            correlation_id: ids.correlation_id,
            trace: ids.trace,
        }
    }

    /// Whether the token carries `role`.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|held| held == role)
    }

    /// On whose behalf this request's transactions run.
    pub fn scope(&self) -> Scope {
        Scope {
            tenant: Some(self.tenant.clone()),
            actor: Actor { user_id: Some(self.user_id.clone()), service: None },
            correlation_id: self.correlation_id.clone(),
            causation_id: None,
            trace: Some(self.trace.clone()),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| {
            Problem::internal("a handler asked for the caller of a public route; declare it with Access::role or Access::authenticated")
        })
    }
}

/// Stands before one route: lets through whom its declaration lets through, and answers once what was refused is undone.
pub(crate) async fn gate(
    State((state, spec)): State<(AppState, Arc<RouteSpec>)>,
    mut request: Request,
    next: Next,
) -> Response {
    if spec.access != Access::Public {
        let ids = RequestIds::of(request.extensions());
        match admit(&state, &spec, request.headers(), ids).await {
            Ok(caller) => {
                tracing::Span::current().record("tenant", caller.tenant.as_str());
                request.extensions_mut().insert(caller);
            }
            Err(problem) => return problem.into_response(),
        }
    }
    request.extensions_mut().insert(spec);
    onceward_db::undo::settled(next.run(request)).await
}

async fn admit(state: &AppState, spec: &RouteSpec, headers: &HeaderMap, ids: RequestIds) -> Result<Caller, Problem> {
    let identity = state.auth.authenticate(headers).await?;
    let caller = Caller::new(identity, ids);
    match &spec.access {
        Access::Role(role) if !caller.has_role(role) => {
            Err(Problem::new(codes::FORBIDDEN).detail(format!("This route asks for the role {role}.")))
        }
        _ => Ok(caller),
    }
}
