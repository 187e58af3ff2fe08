//! The HTTP edge: from a request to a transaction of the right tenant, and from any failure to a problem document.
//!
//! Reading order: [`routes`] is what a service declares, [`app`] makes a router of it, [`auth`] turns a token into a
//! [`Caller`], [`command`], [`reader`] and [`signed`] hand a handler its transaction, [`idempotency`] makes a repeated command
//! harmless, [`problem`] is every way to say no, [`observe`], [`health`] and [`metrics`] show what happens,
//! [`openapi`] describes it, [`serve`] listens.
//!
//! ```
//! use onceward_web::{Access, Command, Problem, Response, Routes, StatusCode};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct PlaceOrder {
//!     sku: String,
//! }
//!
//! #[derive(Serialize)]
//! struct Placed {
//!     sku: String,
//! }
//!
//! pub fn routes() -> Routes {
//!     Routes::new()
//!         .post("/api/orders", Access::role("orders:write"), place_order)
//!         .summary("Place an order")
//!         .request("order.place.v1")
//!         .responds(201, "order.v1")
//! }
//!
//! async fn place_order(command: Command<PlaceOrder>) -> Result<Response, Problem> {
//!     let (order, command) = command.into_parts();
//!     // Effects go through `command.tx`; they commit with the response, or not at all.
//!     command.respond(StatusCode::CREATED, &Placed { sku: order.sku }).await
//! }
//! # routes();
//! ```
//!
//! Invariant: a command's stored response commits with its effects. There is no moment in which one exists without
//! the other.
//!
//! Invariant: no log line holds a body, a query string or a token.

pub mod app;
pub mod auth;
pub mod caller;
pub mod command;
pub mod config;
pub mod health;
pub mod idempotency;
mod limits;
pub mod metrics;
pub mod observe;
pub mod openapi;
pub mod problem;
pub mod reader;
pub mod routes;
pub mod serve;
pub mod signed;
pub mod state;

pub use app::{AppError, build_router};
pub use auth::{AuthConfig, AuthConfigError, AuthMode, Authenticator, Claims, JwksSource, issue_hs256};
pub use axum::{self, http::StatusCode, response::Response};
pub use caller::Caller;
pub use command::{Command, Raw};
pub use config::WebConfig;
pub use health::Readiness;
pub use metrics::{MetricsHandle, install_recorder};
pub use observe::RequestIds;
pub use problem::{FieldError, Problem, ProblemCode};
pub use reader::Reader;
pub use routes::{Access, Idempotency, Routes};
pub use serve::serve;
pub use signed::SignedRequest;
pub use state::AppState;

use onceward_db::{Migration, Migrations, RequiredTable};

/// The schema this crate owns: stored responses of commands.
pub const MIGRATIONS: Migrations = Migrations {
    schema: "onceward_web",
    steps: &[Migration { name: "0001_idempotency", sql: include_str!("../migrations/0001_idempotency.sql") }],
};

/// The columns this crate reads and writes, for the start-up check.
pub const REQUIRED: &[RequiredTable] = &[RequiredTable {
    table: "onceward_web.idempotency_key",
    columns: &[
        "tenant_id",
        "scope_digest",
        "request_fingerprint",
        "status",
        "content_type",
        "location",
        "body",
        "expires_at",
    ],
}];
