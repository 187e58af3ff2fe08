//! The state that survey routes share, and the checks that every respondent's request passes first: its body, its
//! token, its rate limit.

use super::{
    commands::SessionStep,
    step_batcher::{self, StepBatcher},
};
use crate::{
    Settings, SurveyError,
    answers::CONCURRENT_EXPORTS_MAX,
    cache::SurveyCache,
    limits::{RespondentRateLimiter, client_address},
    token::{SessionClaim, TokenClaim, TokenError, TokenSigner},
};
use jiff::Timestamp;
use onceward::{
    Problem, Tx, UnauthenticatedRequest,
    web::{
        axum::extract::{ConnectInfo, FromRequest, Request},
        problem::codes,
        routes::RouteSpec,
    },
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};
use tokio::sync::Semaphore;
use uuid::Uuid;

/// The service name under which respondents' changes are written.
const SERVICE: &str = "respondent";

/// The state shared by the routes of authors and respondents.
pub(crate) struct SurveyContext {
    pub settings: Arc<Settings>,
    pub signer: TokenSigner,
    pub cache: SurveyCache,
    pub step_batcher: StepBatcher,
    /// Bounds the concurrent exports of this process.
    pub exports: Arc<Semaphore>,
    rate_limiter: RespondentRateLimiter,
}

/// A respondent's request. Its body matches the route's schema, but its sender is not yet authenticated.
pub(super) struct RespondentRequest {
    http: UnauthenticatedRequest,
    peer: IpAddr,
    body: Value,
}

impl SurveyContext {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self {
            signer: TokenSigner::new(&settings.token_secret),
            cache: SurveyCache::new(&settings),
            step_batcher: StepBatcher::new(&settings),
            rate_limiter: RespondentRateLimiter::new(&settings),
            exports: Arc::new(Semaphore::new(CONCURRENT_EXPORTS_MAX)),
            settings,
        }
    }

    /// Returns the claim of the request's bearer token. Fails if the token is invalid or the sender exceeds the rate
    /// limit.
    pub(super) async fn verify_bearer(&self, request: &RespondentRequest) -> Result<TokenClaim, SurveyError> {
        let header = request.header("authorization").unwrap_or_default();
        let token = header.strip_prefix("Bearer ").ok_or(TokenError::Invalid)?;
        self.verify_token(token, request).await
    }

    /// Returns the claim of `token`, which may come from any part of the request. Fails like `verify_bearer`.
    pub(super) async fn verify_token(
        &self,
        token: &str,
        request: &RespondentRequest,
    ) -> Result<TokenClaim, SurveyError> {
        let claim = self.signer.verify(token, Timestamp::now())?;
        let (TokenClaim::Collector { collector, .. }
        | TokenClaim::Invite { collector, .. }
        | TokenClaim::Session(SessionClaim { collector, .. })) = &claim;
        let address = client_address(request.peer, &request.http.headers, &self.settings.trusted_proxies);
        let allowed = self.rate_limiter.check(*collector, address).await;
        allowed.map_err(|retry_after_s| SurveyError::RateLimited { retry_after_s })?;
        Ok(claim)
    }

    /// Returns the claim of the request's bearer token. Fails unless it is for the session in the path.
    pub(super) async fn verify_session(
        &self,
        request: &RespondentRequest,
        session_id: Uuid,
    ) -> Result<TokenClaim, SurveyError> {
        Ok(self.verify_bearer(request).await?.for_session(session_id)?)
    }

    /// Executes a step of a session whose claim was verified, in one transaction with other steps that arrive at the
    /// same time. Returns the response to the respondent.
    pub(super) async fn execute_step(
        self: &Arc<Self>,
        request: &RespondentRequest,
        claim: &TokenClaim,
        session_id: Uuid,
        step: SessionStep,
    ) -> Result<Value, SurveyError> {
        let scope = request.http.scope(claim.tenant()?, SERVICE);
        step_batcher::execute(self, request.http.db(), request.http.supervisor(), scope, session_id, step).await
    }
}

impl RespondentRequest {
    /// Begins a transaction of the claim's tenant.
    pub(super) async fn begin(&self, claim: &TokenClaim) -> Result<Tx, Problem> {
        let tenant = claim.tenant().map_err(SurveyError::from)?;
        self.http.begin(tenant, SERVICE).await
    }

    /// Parses the body as the handler's type.
    pub(super) fn body<B: DeserializeOwned>(&self) -> Result<B, Problem> {
        B::deserialize(&self.body).map_err(|error| Problem::new(codes::VALIDATION_FAILED).error("", error.to_string()))
    }

    /// Returns the raw body.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.http.body
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.http.header(name)
    }
}

impl<S: Send + Sync> FromRequest<S> for RespondentRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(address)| address.ip());
        let spec = request.extensions().get::<Arc<RouteSpec>>();
        let has_schema = spec.is_some_and(|spec| spec.request.is_some());
        let http = UnauthenticatedRequest::from_request(request, state).await?;
        let body = if has_schema { http.json()? } else { Value::Null };
        Ok(Self { http, peer, body })
    }
}
