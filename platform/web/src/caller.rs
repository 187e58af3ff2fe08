//! The caller: the token's tenant, user and roles, checked before any handler runs.

use crate::{
    Access, AppState, Problem,
    auth::Identity,
    observe::RequestIds,
    problem::codes,
    routes::{RouteSpec, declared::assert_declared},
};
use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, Method, request::Parts},
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
    /// The caller's roles.
    pub roles: Vec<String>,
    /// Links everything that this request causes.
    pub correlation_id: CorrelationId,
    /// The request's span in its trace.
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

    /// Returns whether the token carries `role`.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|held| held == role)
    }

    /// Returns the scope in which this request's transactions run.
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
            Problem::internal("the handler of a public route needs a caller; declare the route with Access::role or Access::authenticated")
        })
    }
}

/// The layer of one route: admits the callers that its declaration allows, stores what extractors need in the request,
/// and responds only after rolled-back work is undone.
pub(crate) async fn authorize(
    State((state, spec)): State<(Arc<AppState>, Arc<RouteSpec>)>,
    mut request: Request,
    next: Next,
) -> Response {
    if spec.access != Access::Public {
        let ids = RequestIds::of(request.extensions());
        match authenticate(&state, &spec, request.headers(), ids).await {
            Ok(caller) => {
                tracing::Span::current().record("tenant", caller.tenant.as_str());
                request.extensions_mut().insert(caller);
            }
            Err(problem) => return problem.into_response(),
        }
    }
    request.extensions_mut().insert(spec.clone());
    request.extensions_mut().insert(state.clone());
    // The response to HEAD has no body that could be compared.
    let is_checked = cfg!(debug_assertions) && request.method() != Method::HEAD;
    let response = onceward_db::rollbacks::await_rollbacks(next.run(request)).await;
    if is_checked { assert_declared(&spec, &state.schemas, response).await } else { response }
}

async fn authenticate(
    state: &AppState,
    spec: &RouteSpec,
    headers: &HeaderMap,
    ids: RequestIds,
) -> Result<Caller, Problem> {
    let identity = state.auth.authenticate(headers).await?;
    let caller = Caller::new(identity, ids);
    match &spec.access {
        Access::Role(role) if !caller.has_role(role) => Err(Problem::new(codes::FORBIDDEN)
            .detail(format!("This route requires the role {role}, which the token does not have."))),
        _ => Ok(caller),
    }
}
