//! The database layer: a connection pool, transactions that carry a tenant, and migrations.
//!
//! Reading order: [`config`] holds the connection settings, [`pool`] holds the connections, [`tx`] is the only way to
//! write, [`rollbacks`] waits for rollbacks of dropped transactions, [`migrate`] and [`requirements`] check the schema,
//! [`listen`] wakes waiting tasks, [`lock_class`] lists advisory locks, [`error`] distinguishes a lost database from a
//! wrong query, [`writes`] and [`session`] check what a process relies on while it runs.
//!
//! Invariant: application connections run under a role that is subject to row-level security. A query that forgets its
//! tenant filter sees the rows of the transaction's tenant, or none.

pub mod config;
mod connection;
pub mod error;
pub mod listen;
pub mod lock_class;
pub mod migrate;
mod pipeline;
pub mod pool;
pub mod requirements;
pub mod rollbacks;
mod scope;
pub mod session;
mod tls;
pub mod tx;
pub mod writes;

pub use config::DbConfig;
pub use connection::{CommitBuffer, CommitStage, Connection};
pub use error::{DbError, StatementError};
pub use migrate::{Migration, Migrations};
pub use pool::{Db, PoolStatus};
pub use requirements::RequiredTable;
pub use scope::Scope;
pub use tokio_postgres::{Client, Row, SimpleQueryMessage, types::ToSql};
pub use tx::{Savepoint, Tx};

/// The role that every application connection assumes. It owns nothing and bypasses nothing.
pub const APP_ROLE: &str = "onceward_app";
