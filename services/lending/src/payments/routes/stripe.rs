//! `POST /payments/intake/stripe?tenant=…`: Stripe's webhook.
//!
//! The route is public. Until the signature is verified, only the named tenant's secrets are read; an unknown tenant,
//! a missing secret and a wrong secret are indistinguishable from outside.

use super::intake::respond_to;
use crate::Settings;
use crate::payments::{
    commands::receive_payment::receive_payment,
    problems::{SIGNATURE_INVALID, invalid_payload},
    provider::{
        STRIPE, signature,
        stripe::{self, StripeEvent},
    },
    store,
};
use jiff::Timestamp;
use onceward::{
    UnauthenticatedRequest,
    prelude::*,
    web::axum::extract::{Query, State},
};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct TenantQuery {
    tenant: Option<String>,
}

pub(super) async fn receive(
    State(settings): State<Arc<Settings>>,
    Query(query): Query<TenantQuery>,
    request: UnauthenticatedRequest,
) -> Result<Response, Problem> {
    let rejected = || Problem::new(SIGNATURE_INVALID).detail("The tenant or the signature could not be verified.");
    let now = Timestamp::now();
    let tenant = query.tenant.and_then(|tenant| TenantId::new(tenant).ok()).ok_or_else(rejected)?;
    let mut tx = request.begin(tenant, "stripe-webhook").await?;
    let secrets = store::secrets(&tx, STRIPE).await?;
    let header = request.header("stripe-signature").unwrap_or_default();
    if !signature::is_valid(header, &request.body, &secrets, now) {
        return Err(rejected());
    }
    let reported = match stripe::read(&request.json()?).map_err(invalid_payload)? {
        StripeEvent::Other => return Ok(super::respond(StatusCode::OK, &json!({"status": "ignored"}))),
        StripeEvent::Payment(reported) => *reported,
    };
    let outcome = receive_payment(&mut tx, reported, now).await?;
    tx.commit().await?;
    respond_to(outcome, &settings)
}
