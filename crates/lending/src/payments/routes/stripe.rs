//! `POST /payments/intake/stripe?tenant=…`: Stripe's webhook.
//!
//! The route is public. Until the signature is proved, all that happens is that the named tenant's secrets are read; that
//! there is no such tenant, no secret, or another one looks the same from outside.

use super::intake::{answer, without_nul};
use crate::payments::{
    commands::take_in::take_in,
    problems::{SIGNATURE_INVALID, unreadable},
    provider::{
        STRIPE, signature,
        stripe::{self, Told},
    },
    store,
};
use jiff::Timestamp;
use onceward::{SignedRequest, prelude::*, web::axum::extract::Query};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Whose {
    tenant: Option<String>,
}

pub(super) async fn take(Query(whose): Query<Whose>, request: SignedRequest) -> Result<Response, Problem> {
    let unproved = || Problem::new(SIGNATURE_INVALID).detail("Whose it is, or whether it is theirs, is not proved.");
    let now = Timestamp::now();
    let tenant = whose.tenant.and_then(|tenant| TenantId::new(tenant).ok()).ok_or_else(unproved)?;
    let mut tx = request.begin(tenant, "stripe-webhook").await?;
    let secrets = store::secrets(&tx, STRIPE).await?;
    let header = request.header("stripe-signature").unwrap_or_default();
    if !signature::proves(header, &request.body, &secrets, now) {
        return Err(unproved());
    }
    let event = serde_json::from_slice(&request.body)
        .map_err(|error| Problem::new(codes::INVALID_JSON).detail(format!("Reading stopped: {error}.")))?;
    let claim = match stripe::read(&without_nul(event)?).map_err(unreadable)? {
        Told::Nothing => return Ok(super::respond(StatusCode::OK, &json!({"status": "ignored"}))),
        Told::Payment(claim) => *claim,
    };
    let taken = take_in(&mut tx, claim, now).await?;
    tx.commit().await?;
    answer(taken)
}
