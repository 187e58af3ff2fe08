//! `audit`: the trail of what was done, and whether it is whole.

mod export;
mod heads;
mod list;
mod verify;

use super::NOTHING;
use crate::Config;
use onceward_audit as audit;
use onceward_db::{Db, DbError};
use onceward_envelope::TenantId;
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

/// What can be done with the audit trail.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Walk the chains from their beginning and name the first broken link of each
    ///
    /// A chain that was rewritten as a whole, with its head, is whole by itself: give --heads a file that was exported
    /// before and kept elsewhere. Entries written while this runs are left for the next time.
    ///
    /// Exit codes: 0 whole, 1 broken, 3 there was nothing to verify.
    Verify(verify::Args),
    /// Show where the chains end, to be kept elsewhere: with --json, `audit verify --heads` reads it
    ///
    /// Exit codes: 0 done, 3 there are no chains.
    Heads(heads::Args),
    /// Write a tenant's chain as JSON Lines, which `audit verify --file` reads. This includes all values
    ///
    /// Exit codes: 0 done, 3 there was nothing to export.
    Export(export::Args),
    /// List entries, the latest first. With --json this includes all values
    ///
    /// Exit codes: 0 done, 3 there were none.
    List(list::Args),
}

pub(super) async fn run(config: &Config, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Verify(args) if args.is_offline() => verify::offline(&args),
        Command::Verify(args) => verify::run(&connect(config)?, &args).await,
        Command::Heads(args) => heads::run(&connect(config)?, &args).await,
        Command::Export(args) => export::run(&connect(config)?, &args).await,
        Command::List(args) => list::run(&connect(config)?, &args).await,
    }
}

fn connect(config: &Config) -> anyhow::Result<Db> {
    Ok(Db::connect(super::database(config)?)?)
}

/// The tenants whose chains are meant: the given one, or all that have one.
async fn chosen(db: &Db, tenant: Option<&TenantId>) -> Result<Vec<TenantId>, DbError> {
    if !audit::is_there(db).await? {
        return Ok(Vec::new());
    }
    let chains = audit::chains(db).await?;
    Ok(chains.into_iter().filter(|chain| tenant.is_none_or(|tenant| tenant == chain)).collect())
}

/// Ends with a message and the exit code for having had nothing to do.
fn nothing(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(NOTHING)
}

/// A line on standard error, at most every two seconds.
struct Progress(Instant);

impl Progress {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn at(&mut self, what: impl FnOnce() -> String) {
        if self.0.elapsed() >= Duration::from_secs(2) {
            self.0 = Instant::now();
            eprintln!("{}", what());
        }
    }
}
