//! The HTTP edge: from a request to a transaction of the right tenant, and from any failure to a problem document.
//!
//! Reading order: [`routes`] is what a service declares, [`app`] builds a router from it, [`auth`] turns a token into a
//! [`Caller`], [`command`], [`reader`] and [`unauthenticated`] provide a handler with its transaction, [`body`] checks
//! request bodies, [`idempotency`] makes a repeated command harmless, [`problem`] defines every error response,
//! [`observe`], [`health`] and [`metrics`] report what happens, [`openapi`] describes the API, `pages` renders it for
//! people, [`serve`] listens.
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
//! Invariant: a command's stored response commits with its effects. At no moment does one exist without the other.
//!
//! Invariant: no log line contains a body, a query string or a token.

pub mod app;
pub mod auth;
pub mod body;
pub mod caller;
pub mod command;
pub mod config;
pub mod health;
pub mod idempotency;
mod limits;
pub mod metrics;
pub mod observe;
pub mod openapi;
mod pages;
pub mod problem;
pub mod reader;
pub mod routes;
pub mod serve;
pub mod state;
pub mod unauthenticated;

pub use app::build_router;
pub use auth::{AuthConfig, AuthConfigError, AuthMode, Authenticator, Claims, JwksSource, issue_hs256};
pub use axum::{self, http::StatusCode, response::Response};
pub use caller::Caller;
pub use command::{Command, RawBody};
pub use config::WebConfig;
pub use health::Readiness;
pub use metrics::{MetricsHandle, install_recorder};
pub use observe::RequestIds;
pub use problem::{FieldError, Problem, ProblemCode};
pub use reader::Reader;
pub use routes::{Access, Idempotency, RouteError, Routes};
pub use serve::serve;
pub use state::AppState;
pub use unauthenticated::UnauthenticatedRequest;

use onceward_db::{Migration, Migrations, RequiredTable};

/// The JSON Schemas that every platform registers.
pub const SCHEMAS: &[&str] = &[include_str!("../schemas/command.accepted.v1.json")];

/// The `$id` of the schema of accepted commands.
pub(crate) const ACCEPTED_SCHEMA: &str = "command.accepted.v1";

/// The database schema that this crate owns: stored responses of commands.
pub const MIGRATIONS: Migrations = Migrations {
    schema: "onceward_web",
    steps: &[Migration { name: "0001_idempotency", sql: include_str!("../migrations/0001_idempotency.sql") }],
};

/// The columns that this crate reads and writes, for the start-up check.
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
