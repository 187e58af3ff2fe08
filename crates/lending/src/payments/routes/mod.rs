//! The HTTP surface: parse, command, response.

mod conflicts;
mod intake;
mod make;
mod operate;
mod providers;
mod show;
mod stripe;

use super::problems;
use onceward::{
    Access, Idempotency, Response, Routes, StatusCode,
    web::axum::{Json, response::IntoResponse},
};
use serde_json::Value;

pub(crate) fn routes(routes: Routes) -> Routes {
    operating(looking(taking(routes.problems(problems::PROBLEMS))))
}

fn taking(routes: Routes) -> Routes {
    routes
        .post("/payments/intake/{provider}", write(), intake::take)
        .summary(
            "Take in a payment as its gateway tells of it: JSON from `mock`, a file of ACH entries (CSV) from `bank`",
        )
        .responds_empty(201)
        .responds_empty(200)
        .idempotency(Idempotency::Off)
        .post("/payments/intake/stripe", Access::public(), stripe::take)
        .summary("Take in Stripe's webhook, of the tenant ?tenant=; its signature is its proof")
        .responds_empty(201)
        .responds_empty(200)
        .idempotency(Idempotency::Off)
        .post("/api/payments", write(), make::make)
        .summary("Make a payment, by a message")
        .request("payment.make.v1")
        .responds_empty(202)
}

fn looking(routes: Routes) -> Routes {
    routes
        .get("/api/payments/{id}", read(), show::show)
        .summary("Show a payment with its whole path")
        .responds_empty(200)
        .get("/api/payments/conflicts", read(), conflicts::list)
        .summary("List transactions that came again and said something else; ?all=true with those resolved; by ?limit= and ?after=")
        .responds_empty(200)
}

fn operating(routes: Routes) -> Routes {
    routes
        .post("/api/payments/conflicts/{id}/resolve", write(), conflicts::resolve)
        .summary("Close a conflict")
        .request("payment.conflict.resolve.v1")
        .responds_empty(200)
        .post("/api/payments/{id}/return", write(), operate::give_back)
        .summary("Take a payment back that the bank returned, by a message")
        .request("payment.return.v1")
        .responds_empty(202)
        .post("/api/payments/{id}/post", write(), operate::post)
        .summary("Post a payment, or post it and what came after it again, by a message")
        .responds_empty(202)
        .post("/api/payments/allocate", write(), operate::allocate)
        .summary("Apply what a loan holds in suspense to what is due, by a message")
        .request("payment.suspense.v1")
        .responds_empty(202)
        .put("/api/payments/providers/{provider}", Access::role("payments:admin"), providers::set)
        .summary("Set the secret that a provider signs its webhooks with; the one before stays good")
        .request("payment.provider.v1")
        .responds_empty(200)
}

fn respond(status: StatusCode, body: &Value) -> Response {
    (status, Json(body)).into_response()
}

fn read() -> Access {
    Access::role("payments:read")
}

fn write() -> Access {
    Access::role("payments:write")
}
