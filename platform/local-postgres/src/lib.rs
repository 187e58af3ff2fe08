//! A private PostgreSQL on this machine: finds the server programs, creates a cluster in a folder and runs it.
//!
//! `onceward up`, `onceward bench`, the tests and `cargo xtask services` are built on it. It uses only std, so that it
//! compiles in a moment, and every call blocks: from async code, wrap it in `spawn_blocking`.
//!
//! ```no_run
//! use onceward_local_postgres::{Cluster, ClusterOptions, Programs, ShutdownMode};
//!
//! # fn main() -> Result<(), onceward_local_postgres::LocalPostgresError> {
//! let programs = Programs::find()?;
//! let mut cluster = Cluster::start(&programs, ".onceward".as_ref(), ClusterOptions::default())?;
//! println!("{}", cluster.url("postgres"));
//! cluster.stop(ShutdownMode::Fast)?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! <data>/lock        held for as long as a Cluster lives: one owner at a time
//! <data>/pg/         the cluster; created as pg.new and renamed, so it is whole or absent
//! <data>/pg.log      the log of the server
//! <data>/password    for the loopback port; the socket needs none
//! <data>/socket/     0700, owned by the server's user (a short folder in the temp dir if this path is too long)
//! ```
//!
//! Invariants: the server never runs as root; it does not outlive the process that owns it, unless it was detached;
//! only the owner can reach the socket; signals go only to our own child or, through `pg_ctl`, to a server that answers
//! on this cluster's own socket.

mod account;
mod cluster;
mod cluster_paths;
mod detached;
mod error;
mod folders;
mod guardian;
mod init;
mod pidfile;
mod previous_run;
mod programs;
mod running;
mod server;
mod settings;
mod url;

pub use cluster::{Cluster, ShutdownMode};
pub use detached::DetachedCluster;
pub use error::LocalPostgresError;
pub use programs::Programs;
pub use running::running_url;
pub use settings::ClusterOptions;

/// The superuser of every cluster that this crate creates.
pub const SUPERUSER: &str = "onceward";
