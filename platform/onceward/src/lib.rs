//! Onceward: queue-first services on PostgreSQL whose effects happen once.
//!
//! A [`Service`] is a value that declares everything it owns: migrations, JSON Schemas, topology, routes, consumers,
//! schedules and tasks. [`Platform`] assembles services and checks that they fit together. `onceward_cli::main` turns
//! them into a program: `up` and `serve` run them, `migrate` creates their tables, `doctor` finds problems.
//!
//! A complete service: a command over HTTP publishes an event in its transaction, and a consumer handles it.
//!
//! ```
//! use onceward::prelude::*;
//! use serde::{Deserialize, Serialize};
//! use uuid::Uuid;
//!
//! /// Returns the service with everything it owns. A program is `onceward_cli::main(vec![service()])`.
//! pub fn service() -> Service {
//!     Service::new("orders")
//!         .schemas(&[PLACE_ORDER, ORDER_ACCEPTED, ORDER_PLACED])
//!         .topology(
//!             Topology::new()
//!                 .exchange(Exchange::topic("orders.events"))
//!                 .exchange(Exchange::fanout("orders.dlq"))
//!                 .queue(Queue::work("orders.reserve.v1").dead_letter("orders.dlq"))
//!                 .queue(Queue::dead_letter_store("orders.dlq.v1"))
//!                 .bind("orders.events", "tenant.*.order.placed", "orders.reserve.v1")
//!                 .bind("orders.dlq", "", "orders.dlq.v1"),
//!         )
//!         .publishes::<OrderPlaced>()
//!         .routes(routes)
//!         .consumer(Consumer::transactional("reserve-stock", "orders.reserve.v1").on(ReserveStock))
//! }
//!
//! const PLACE_ORDER: &str = r#"{
//!     "$id": "order.place.v1", "type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}
//! }"#;
//! const ORDER_ACCEPTED: &str = r#"{"$id": "order.accepted.v1", "type": "object", "required": ["orderId"]}"#;
//! const ORDER_PLACED: &str = r#"{"$id": "order.placed.v1", "type": "object", "required": ["orderId", "sku"]}"#;
//!
//! /// An order was placed.
//! #[derive(Serialize, Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct OrderPlaced {
//!     order_id: Uuid,
//!     sku: String,
//! }
//!
//! impl Event for OrderPlaced {
//!     const TYPE: &'static str = "order.placed.v1";
//!     const EXCHANGE: &'static str = "orders.events";
//!
//!     fn routing_key(&self, tenant: &TenantId) -> String {
//!         format!("tenant.{tenant}.order.placed")
//!     }
//!
//!     /// Orders of one article are handled in the order in which they were placed.
//!     fn ordering_key(&self) -> Option<String> {
//!         Some(self.sku.clone())
//!     }
//! }
//!
//! fn routes() -> Routes {
//!     Routes::new()
//!         .post("/api/orders", Access::role("orders:write"), place_order)
//!         .summary("Place an order")
//!         .request("order.place.v1")
//!         .responds(202, "order.accepted.v1")
//! }
//!
//! #[derive(Deserialize)]
//! struct PlaceOrder {
//!     sku: String,
//! }
//!
//! /// The event and the stored response are committed in the transaction of the command, or not at all.
//! async fn place_order(command: Command<PlaceOrder>) -> Result<Response, Problem> {
//!     let (PlaceOrder { sku }, mut command) = command.into_parts();
//!     let order = OrderPlaced { order_id: Uuid::now_v7(), sku };
//!     outbox::publish(&mut command.tx, &order).await?;
//!     command.accepted(&format!("/api/orders/{}", order.order_id), &json!({ "orderId": order.order_id })).await
//! }
//!
//! struct ReserveStock;
//!
//! impl Handler for ReserveStock {
//!     type Event = OrderPlaced;
//!
//!     /// Writes through `tx` are committed together with the acknowledgement of the message.
//!     async fn handle(&self, tx: &mut Tx, received: &Received<'_, OrderPlaced>) -> Result<(), Failure> {
//!         let OrderPlaced { order_id, sku } = &received.event;
//!         // A real service updates its tables here; this one records the reservation in the audit chain.
//!         let entry = audit::Entry::new("stock_reserved").object("order", order_id).new_value(json!({ "sku": sku }));
//!         audit::record(tx, entry).map_err(Failure::permanent)?;
//!         Ok(())
//!     }
//! }
//!
//! # fn main() {
//! let platform = onceward::Platform::assemble(vec![service()]).expect("the service is complete");
//! assert_eq!(platform.roles(), ["orders:write"]);
//! # }
//! ```
//!
//! Where to look next: [`prelude`] lists what a service usually needs; [`config`] has the settings of the platform and of
//! services; [`slo`] and [`story`] are what a service adds to alerts and traces. [`runtime`] and [`connect`] are for
//! programs and tests that run a platform themselves, [`admin`] for operators' programs.

pub mod admin;
mod assembly;
pub mod config;
pub mod connect;
mod platform;
pub mod runtime;
pub mod secrets;
mod service;
pub mod slo;
mod spelling;
mod store;
pub mod story;
mod task;
pub mod telemetry;
mod tls;

pub use config::{Config, Section};
pub use onceward_audit as audit;
pub use onceward_db::{self as db, Db, DbConfig, DbError, Migration, Migrations, RequiredTable, Row, Scope, Tx};
pub use onceward_envelope::{
    self as envelope, Actor, CorrelationId, Envelope, EventType, IdempotencyKey, SchemaRegistry, TenantId,
};
pub use onceward_message_log::BusError;
/// The handlers of a queue, and how they run.
///
/// ```
/// use onceward::prelude::*;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct OrderPlaced {
///     sku: String,
/// }
///
/// impl Event for OrderPlaced {
///     const TYPE: &'static str = "order.placed.v1";
///     const EXCHANGE: &'static str = "orders.events";
///
///     fn routing_key(&self, tenant: &TenantId) -> String {
///         format!("tenant.{tenant}.order.placed")
///     }
/// }
///
/// struct ReserveStock;
///
/// impl Handler for ReserveStock {
///     type Event = OrderPlaced;
///
///     /// What is written through `tx` is committed with the acknowledgement of the message, or not at all.
///     async fn handle(&self, tx: &mut Tx, received: &Received<'_, OrderPlaced>) -> Result<(), Failure> {
///         if received.event.sku.is_empty() {
///             return Err(Failure::permanent("an order needs an article")); // becomes a dead letter
///         }
///         tx.execute("UPDATE stock.article SET reserved = reserved + 1 WHERE sku = $1", &[&received.event.sku]).await?;
///         Ok(())
///     }
/// }
///
/// let consumer: onceward::Consumer =
///     Consumer::transactional("reserve-stock", "orders.reserve.v1").prefetch(200).on(ReserveStock).into();
/// assert_eq!(consumer.queue(), "orders.reserve.v1");
/// ```
///
/// A handler that calls the outside world is a [`LeasedHandler`] of [`Consumer::leased`].
#[doc(inline)]
pub use onceward_messaging::Consumer;
/// The type of a message: its contract, its address and its order.
///
/// ```
/// use onceward::prelude::*;
/// use serde::{Deserialize, Serialize};
///
/// /// An order was placed.
/// #[derive(Serialize, Deserialize)]
/// struct OrderPlaced {
///     order_id: String,
///     customer_id: String,
/// }
///
/// impl Event for OrderPlaced {
///     const TYPE: &'static str = "order.placed.v1";
///     const EXCHANGE: &'static str = "orders.events";
///
///     fn routing_key(&self, tenant: &TenantId) -> String {
///         format!("tenant.{tenant}.order.placed")
///     }
///
///     /// The orders of one customer are handled in the order of their commits.
///     fn ordering_key(&self) -> Option<String> {
///         Some(self.customer_id.clone())
///     }
///
///     /// Publishing the same order again has no effect.
///     fn idempotency_key(&self) -> Option<String> {
///         Some(format!("order.placed:{}", self.order_id))
///     }
/// }
///
/// /// It is sent if `tx` commits, and only then.
/// async fn publish(tx: &mut Tx, order: &OrderPlaced) -> Result<(), onceward::PublishError> {
///     outbox::publish(tx, order).await?;
///     Ok(())
/// }
///
/// let order = OrderPlaced { order_id: "o-1".into(), customer_id: "c-1".into() };
/// let acme = TenantId::new("acme").expect("a valid tenant");
/// assert_eq!(order.topic(&acme).to_string(), "orders.events:tenant.acme.order.placed");
/// ```
#[doc(inline)]
pub use onceward_messaging::Event;
pub use onceward_messaging::{
    AnyHandler, BatchHandler, Failure, Handler, InBatch, LeasedHandler, NewMessage, PublishError, Received,
    consumer::LeaseContext, inbox, measure::PublishCounter, outbox,
};
pub use onceward_outbound::{self as outbound, CallError, Destination, Outbound};
pub use onceward_resilience::{
    AdaptiveLimit, BreakerSettings, BulkheadSettings, LimitRule, RetryBudget, autoscale::PoolSettings,
};
pub use onceward_supervisor::Supervisor;
pub use onceward_topology::{self as topology, Exchange, Queue, RetryPolicy, Schedule, Topology};
pub use onceward_web::{
    self as web, Access, Caller, Command, Idempotency, Problem, ProblemCode, RawBody, Reader, Response, Routes,
    StatusCode, UnauthenticatedRequest,
};
pub use platform::{AssemblyError, Platform};
pub use service::Service;
pub use spelling::closest_match;
pub use task::{TaskContext, TaskError};
pub use tls::install_crypto_provider;

// The engine below the services. No service, example or program uses these paths: what they need has a name above. They
// remain for tests and tools of this workspace, which set up, observe or break the engine with the types of the platform
// that they run:
// - `broker`: `BusKind` chooses the bus in `tools/testkit`, `tools/bench` and the tests of services, examples and the
//   server; `Broker`, `Parcel`, `ReceiveOptions` and `wire` act as another program on the bus in `tools/conformance`, in
//   the benches of the relay and in the tests of dead letters, backlogs and foreign consumers.
// - `message_log`: `stats` and `triage` show what is left in a queue, `MessageLog` and `MIGRATIONS` run a queue without a
//   platform, in the tests of `platform/messaging` and `platform/db` and of services that count their backlog.
// - `messaging`: `schedule`, `collect`, `consumer::run` and the builders of consumers, which the tests of
//   `platform/messaging` and `tools/conformance` drive step by step, and the tests of lending for ticks.
#[doc(hidden)]
pub use onceward_broker as broker;
#[doc(hidden)]
pub use onceward_message_log as message_log;
#[doc(hidden)]
pub use onceward_messaging as messaging;

/// The names that a service's code usually needs.
pub mod prelude {
    pub use crate::{
        Access, BatchHandler, Command, Consumer, DbError, Event, Exchange, Failure, Handler, InBatch, LeasedHandler,
        Migration, Migrations, NewMessage, Problem, ProblemCode, Queue, Reader, Received, RequiredTable, Response,
        RetryPolicy, Routes, Schedule, Service, StatusCode, TenantId, Topology, Tx, audit, outbox,
    };
    pub use onceward_web::{axum::extract::Path, problem::codes};
    pub use serde_json::json;
}

/// Trace contexts of messages and outgoing calls, for services that make HTTP calls of their own.
pub mod spans {
    pub use onceward_messaging::spans::{client_span, context_of, continue_from};
}
