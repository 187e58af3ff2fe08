//! The HTTP routes: parse, command, response.

mod conflicts;
mod intake;
mod operate;
mod payment;
mod stripe;
mod unapplied;

use super::problems;
use crate::Settings;
use onceward::{
    Access, Idempotency, Response, Routes, StatusCode,
    web::axum::{Json, response::IntoResponse},
};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

/// The role of operators.
pub(crate) const OPERATE: &str = "payments:operate";

pub(crate) fn routes() -> Routes<Arc<Settings>> {
    let routes = intake_routes(Routes::new().problems(problems::PROBLEMS));
    unapplied_routes(operator_routes(conflict_routes(payment_routes(routes))))
}

fn intake_routes(routes: Routes<Arc<Settings>>) -> Routes<Arc<Settings>> {
    routes
        .post("/payments/intake/{provider}", intake(), intake::receive)
        .summary(
            "Receive payments from a gateway: a CSV file of ACH entries or JSON from `bank`, or JSON from `mock`, if the \
             settings enable it",
        )
        .responds(201, "payment.taken.v1")
        .responds(200, "payment.intake.v1")
        .idempotency(Idempotency::Off)
        .post("/payments/intake/stripe", Access::public(), stripe::receive)
        .summary("Receive a webhook of Stripe for the tenant `?tenant=`, authenticated by its signature")
        .responds(201, "payment.taken.v1")
        .responds(200, "payment.webhook.v1")
        .idempotency(Idempotency::Off)
}

fn payment_routes(routes: Routes<Arc<Settings>>) -> Routes<Arc<Settings>> {
    routes
        .post("/api/payments", Access::role("payments:make"), payment::make)
        .summary("Make a payment, asynchronously")
        .request("payment.make.v1")
        .responds(202, "payment.accepted.v1")
        .get("/api/payments/{id}", read(), payment::show)
        .summary("Show a payment with everything that happened to it")
        .responds(200, "payment.v1")
}

fn conflict_routes(routes: Routes<Arc<Settings>>) -> Routes<Arc<Settings>> {
    routes
        .get("/api/payments/conflicts", read(), conflicts::list)
        .summary(
            "List conflicting duplicate transactions. `?all=true` includes resolved ones; page with `?limit=` and `?after=`",
        )
        .responds(200, "payment.conflicts.v1")
        .post("/api/payments/conflicts/{id}/resolve", operate(), conflicts::resolve)
        .summary("Resolve a conflict")
        .request("payment.conflict.resolve.v1")
        .responds(200, "payment.conflict.v1")
}

fn operator_routes(routes: Routes<Arc<Settings>>) -> Routes<Arc<Settings>> {
    routes
        .post("/api/payments/{id}/return", operate(), operate::return_payment)
        .summary("Reverse a payment that the bank returned, asynchronously")
        .request("payment.return.v1")
        .responds(202, "payment.accepted.v1")
        .post("/api/payments/{id}/post", operate(), operate::post)
        .summary("Post a payment, or post it and everything after it again, asynchronously")
        .responds(202, "payment.accepted.v1")
        .post("/api/payments/allocate", operate(), operate::allocate)
        .summary("Apply a loan's suspense to what is due, asynchronously")
        .request("payment.suspense.v1")
        .responds(202, "payment.allocation.accepted.v1")
        .put("/api/payments/providers/{provider}", operate(), operate::set_provider_secret)
        .summary("Set the secret with which a provider signs its webhooks. The previous one stays valid")
        .request("payment.provider.v1")
        .responds(200, "payment.provider.set.v1")
}

/// The routes that settle the money of failed payments.
fn unapplied_routes(routes: Routes<Arc<Settings>>) -> Routes<Arc<Settings>> {
    routes
        .get("/api/payments/unapplied", read(), unapplied::list)
        .summary(
            "List failed payments whose money is held as unapplied cash. `?all=true` includes settled ones; page with \
             `?limit=` and `?after=`",
        )
        .responds(200, "payment.unapplied.v1")
        .post("/api/payments/{id}/revalidate", operate(), unapplied::revalidate)
        .summary("Validate a failed payment again, and post it if it is valid now, asynchronously")
        .request("payment.revalidate.v1")
        .responds(202, "payment.accepted.v1")
        .post("/api/payments/{id}/move", operate(), unapplied::move_to)
        .summary("Move the money of a failed payment to another loan, asynchronously")
        .request("payment.move.v1")
        .responds(202, "payment.accepted.v1")
        .post("/api/payments/{id}/refund", operate(), unapplied::refund)
        .summary("Refund the money of a failed payment to its payer, asynchronously")
        .request("payment.refund.v1")
        .responds(202, "payment.accepted.v1")
}

/// The requested page of a listing.
#[derive(Deserialize)]
struct PaymentListQuery {
    /// Whether to include settled ones.
    #[serde(default)]
    all: bool,
    after: Option<Uuid>,
    limit: Option<u16>,
}

impl PaymentListQuery {
    const PAGE: u16 = 50;
    const PAGE_MAX: u16 = 500;

    fn limit(&self) -> usize {
        usize::from(self.limit.unwrap_or(Self::PAGE).clamp(1, Self::PAGE_MAX))
    }

    /// Returns the number of rows to query: one more than the page size shows whether there is another page.
    fn rows(&self) -> i64 {
        self.limit() as i64 + 1
    }

    /// Returns the rows of the page, and the start of the next page.
    fn page<T>(&self, mut rows: Vec<T>, id: impl Fn(&T) -> Uuid) -> (Vec<T>, Option<Uuid>) {
        let has_more = rows.len() > self.limit();
        rows.truncate(self.limit());
        let next = rows.last().filter(|_| has_more).map(id);
        (rows, next)
    }
}

fn respond(status: StatusCode, body: &Value) -> Response {
    (status, Json(body)).into_response()
}

fn read() -> Access {
    Access::role("payments:read")
}

/// Access to submit payments: for the account of a gateway or of a file transfer.
fn intake() -> Access {
    Access::role("payments:intake")
}

/// Access to change existing payments and the gateway accounts: for operators.
fn operate() -> Access {
    Access::role(OPERATE)
}
