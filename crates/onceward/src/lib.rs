//! Onceward: services whose effects happen once.
//!
//! A [`Service`] is a value that declares all it owns: migrations, contracts, topology, routes,
//! consumers, schedules, tasks. [`Platform`] puts services together and checks that they fit; [`runtime`]
//! runs them in one or more roles; [`cli`] is the command line around it.
//!
//! A service of your own is a binary whose `main` is `onceward::cli::main(vec![my_service()])`.

pub mod broker;
pub mod bus_counts;
pub mod cli;
pub mod config;
pub mod doctor;
pub mod embedded;
pub mod outbox_report;
pub mod outbox_status;
mod platform;
pub mod runtime;
mod service;
pub mod slo;
mod store;
pub mod story;
mod task;
pub mod telemetry;
pub mod topology_state;

pub use config::{Config, Section};
pub use onceward_audit as audit;
pub use onceward_db::{self as db, Db, DbConfig, DbError, Migration, Migrations, RequiredTable, Row, Scope, Tx};
pub use onceward_envelope::{
    self as envelope, Actor, CorrelationId, Envelope, EventType, IdempotencyKey, SchemaRegistry, TenantId,
};
pub use onceward_messaging::{
    self as messaging, BatchHandler, Consumer, Event, Failure, Handler, InBatch, LeasedHandler, NewMessage,
    PublishError, Received, inbox, outbox,
};
pub use onceward_topology::{self as topology, Exchange, Queue, RetryBudget, RetryPolicy, Schedule, Topology};
pub use onceward_transport as transport;
pub use onceward_transport_postgres as transport_postgres;
pub use onceward_web::{
    self as web, Access, Caller, Command, Idempotency, Problem, ProblemCode, Raw, Reader, Response, Routes,
    SignedRequest, StatusCode,
};
pub use platform::{AssemblyError, Platform};
pub use service::Service;
pub use task::{TaskContext, TaskError};

/// What a service's code usually names.
pub mod prelude {
    pub use crate::{
        Access, BatchHandler, Command, Consumer, DbError, Event, Exchange, Failure, Handler, InBatch, LeasedHandler,
        Migration, Migrations, NewMessage, Problem, ProblemCode, Queue, Reader, Received, RequiredTable, Response,
        RetryPolicy, Routes, Schedule, Service, StatusCode, TenantId, Topology, Tx, audit, outbox,
    };
    pub use onceward_web::{axum::extract::Path, problem::codes};
    pub use serde_json::json;
}
