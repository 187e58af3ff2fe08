//! A private PostgreSQL on this machine: finds the server programs, creates a cluster in a folder and runs it.
//!
//! It is what `onceward up`, `onceward bench`, the tests and `cargo xtask services` stand on. Only std is used, so that
//! it compiles in a moment, and every call blocks: from async code, wrap it in `spawn_blocking`.
//!
//! ```no_run
//! use onceward_local_postgres::{Cluster, ClusterOptions, Programs, Shutdown};
//!
//! # fn main() -> Result<(), onceward_local_postgres::Error> {
//! let programs = Programs::find()?;
//! let mut cluster = Cluster::start(&programs, ".onceward".as_ref(), ClusterOptions::default())?;
//! println!("{}", cluster.url("postgres"));
//! cluster.stop(Shutdown::Fast)?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! <data>/lock        held for as long as a Cluster lives: one owner at a time
//! <data>/pg/         the cluster; created as pg.new and renamed, so it is whole or absent
//! <data>/pg.log      what the server says
//! <data>/password    for the loopback port; the socket needs none
//! <data>/socket/     0700, owned by the server's user (a short folder in the temp dir if this path is too long)
//! ```
//!
//! Invariants: the server never runs as root; nobody but the owner can reach the socket; signals go only to our own
//! child or, through `pg_ctl`, to a server that answers on this cluster's own socket.

mod account;
mod cluster;
mod detached;
mod error;
mod folders;
mod home;
mod init;
mod leftover;
mod pidfile;
mod programs;
mod server;
mod settings;
mod url;

pub use cluster::{Cluster, Shutdown};
pub use detached::Detached;
pub use error::Error;
pub use programs::Programs;
pub use settings::ClusterOptions;

/// The superuser that every cluster made here is created with.
pub const SUPERUSER: &str = "onceward";
