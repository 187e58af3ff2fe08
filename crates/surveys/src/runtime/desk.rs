//! What every request of a respondent passes first: its token, its rate, its body.

use super::{
    commands::Step,
    turnstile::{self, Turnstile},
};
use crate::{
    Settings, SurveyError,
    cache::Cache,
    limits::{Limiter, client_address},
    token::{Claim, SessionClaim, Signer, TokenError},
};
use jiff::Timestamp;
use onceward::{
    Problem, SignedRequest, Tx,
    envelope::{SchemaError, SchemaRegistry},
    web::{
        AppState,
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
    time::Instant,
};
use uuid::Uuid;

/// In whose name respondents write.
const SERVICE: &str = "respondent";

/// All that the steps share.
pub(crate) struct Desk {
    pub settings: Arc<Settings>,
    pub signer: Signer,
    pub cache: Cache,
    pub turnstile: Turnstile,
    limiter: Limiter,
}

/// A request whose body fits the route's schema, and whose sender is not known yet.
pub(super) struct Visit {
    request: SignedRequest,
    peer: IpAddr,
    body: Value,
}

impl Desk {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self {
            signer: Signer::new(&settings.token_secret),
            cache: Cache::new(&settings),
            turnstile: Turnstile::new(&settings),
            limiter: Limiter::new(&settings),
            settings,
        }
    }

    /// The claim that a request's token makes.
    pub(super) fn claim(&self, visit: &Visit) -> Result<Claim, SurveyError> {
        let header = visit.request.header("authorization").unwrap_or_default();
        let token = header.strip_prefix("Bearer ").ok_or(TokenError::Invalid)?;
        self.claim_by(token, visit)
    }

    /// The claim that `token` makes, wherever the request carries it.
    pub(super) fn claim_by(&self, token: &str, visit: &Visit) -> Result<Claim, SurveyError> {
        let claim = self.signer.read(token, Timestamp::now())?;
        let (Claim::Collector { collector, .. }
        | Claim::Invite { collector, .. }
        | Claim::Session(SessionClaim { collector, .. })) = &claim;
        let address = client_address(visit.peer, &visit.request.headers, &self.settings.trusted_proxies);
        let passed = self.limiter.take(*collector, address, Instant::now());
        passed.map_err(|retry_after_s| SurveyError::TooMany { retry_after_s })?;
        Ok(claim)
    }

    /// The claim of a request's token, if it is for the session in the path.
    pub(super) fn session(&self, visit: &Visit, session_id: Uuid) -> Result<Claim, SurveyError> {
        Ok(self.claim(visit)?.for_session(session_id)?)
    }

    /// Takes a step of a session whose claim was checked, together with others that come at the same time.
    pub(super) async fn pass(
        self: &Arc<Self>,
        visit: &Visit,
        claim: &Claim,
        session_id: Uuid,
        step: Step,
    ) -> Result<Value, SurveyError> {
        let scope = visit.request.scope(claim.tenant()?, SERVICE);
        turnstile::pass(self, visit.request.db(), scope, session_id, step).await
    }
}

impl Visit {
    /// A transaction of the claim's tenant.
    pub(super) async fn begin(&self, claim: &Claim) -> Result<Tx, Problem> {
        let tenant = claim.tenant().map_err(SurveyError::from)?;
        self.request.begin(tenant, SERVICE).await
    }

    /// The body as the handler's type.
    pub(super) fn body<B: DeserializeOwned>(&self) -> Result<B, Problem> {
        B::deserialize(&self.body).map_err(|error| Problem::new(codes::VALIDATION_FAILED).error("", error.to_string()))
    }

    /// The body as it came.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.request.body
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.request.header(name)
    }
}

impl FromRequest<AppState> for Visit {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(address)| address.ip());
        let schema = request.extensions().get::<Arc<RouteSpec>>().and_then(|spec| spec.request.clone());
        let request = SignedRequest::from_request(request, state).await?;
        let body = match schema {
            Some(schema) => checked(&request.body, &schema, &state.schemas)?,
            None => Value::Null,
        };
        Ok(Self { request, peer, body })
    }
}

fn checked(body: &[u8], schema: &str, schemas: &SchemaRegistry) -> Result<Value, Problem> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Problem::new(codes::INVALID_JSON).detail(format!("Reading stopped: {error}.")))?;
    match schemas.validate(schema, &value) {
        Ok(()) => Ok(value),
        Err(SchemaError::Violations { violations, .. }) => Err(Problem::new(codes::VALIDATION_FAILED)
            .detail("The body breaks this route's schema; `errors` says where.")
            .errors(violations)),
        Err(unknown) => Err(Problem::internal(unknown)),
    }
}
