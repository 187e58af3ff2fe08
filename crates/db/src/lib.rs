//! The database layer: a pool, transactions that carry a tenant, migrations.
//!
//! Reading order: [`config`] says where the database is, [`pool`] holds connections to it,
//! [`tx`] is the only way to write, [`undo`] waits for what was not written after all, [`migrate`] and [`requirements`] keep the schema honest,
//! [`listen`] wakes sleepers, [`error`] tells a lost database from a wrong query.
//!
//! Invariant: application connections run under a role that row-level security binds. A query
//! that forgets its tenant filter sees the rows of the transaction's tenant, or none.

pub mod config;
mod connection;
pub mod error;
pub mod listen;
pub mod migrate;
mod pipeline;
pub mod pool;
pub mod requirements;
mod scope;
mod tls;
pub mod tx;
pub mod undo;

pub use config::DbConfig;
pub use connection::{CommitBuffer, Connection, Stage};
pub use error::DbError;
pub use migrate::{Migration, Migrations};
pub use pool::{Db, PoolStatus};
pub use requirements::RequiredTable;
pub use scope::Scope;
pub use tokio_postgres::{Client, Row, SimpleQueryMessage, types::ToSql};
pub use tx::{Savepoint, Tx};

/// The role every application connection assumes; owns nothing and bypasses nothing.
pub const APP_ROLE: &str = "onceward_app";
