//! `audit`: lists, exports and verifies the audit trail.

mod export;
mod heads;
mod list;
mod verify;

use super::EXIT_NOTHING_TO_DO;
use onceward::Config;
use onceward_audit as audit;
use onceward_db::{Db, DbError};
use onceward_envelope::TenantId;
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

/// Commands about the audit trail.
#[derive(Debug, clap::Subcommand)]
pub enum AuditCommand {
    /// Verify the chains from their first entries on, and report the first broken link of each
    ///
    /// A chain that was rewritten completely, including its head, is consistent in itself: to detect that, pass --heads a file
    /// that was exported earlier and stored elsewhere. Entries that are written meanwhile are not verified.
    ///
    /// Exit status: 0 if all chains are intact or nothing has been recorded yet, 1 if one is broken, 3 if there is no audit
    /// trail, or none for the given tenant or file.
    Verify(verify::Args),
    /// Show the ends of the chains. Store the output of --json elsewhere: `audit verify --heads` reads it
    ///
    /// Exit status: 0 if there are chains, 3 if there are none.
    Heads(heads::Args),
    /// Export a tenant's chain as JSON Lines, which `audit verify --file` reads. This includes all values
    ///
    /// Exit status: 0 if exported, 3 if there was nothing to export.
    Export(export::Args),
    /// List entries, newest first. With --json this includes all values
    ///
    /// Exit status: 0 if there are entries, 3 if there are none.
    List(list::Args),
}

pub(super) async fn run(config: &Config, command: AuditCommand) -> anyhow::Result<ExitCode> {
    match command {
        AuditCommand::Verify(args) if args.is_offline() => verify::offline(&args),
        AuditCommand::Verify(args) => verify::run(&connect(config)?, &args).await,
        AuditCommand::Heads(args) => heads::run(&connect(config)?, &args).await,
        AuditCommand::Export(args) => export::run(&connect(config)?, &args).await,
        AuditCommand::List(args) => list::run(&connect(config)?, &args).await,
    }
}

fn connect(config: &Config) -> anyhow::Result<Db> {
    Ok(Db::connect(super::database(config)?)?)
}

/// Returns the tenants that have a chain: the given one, or all.
async fn selected_tenants(db: &Db, tenant: Option<&TenantId>) -> Result<Vec<TenantId>, DbError> {
    if !audit::exists(db).await? {
        return Ok(Vec::new());
    }
    let chains = audit::chains(db).await?;
    Ok(chains.into_iter().filter(|chain| tenant.is_none_or(|tenant| tenant == chain)).collect())
}

/// Prints a message on standard error and returns the exit code of a command that found nothing to act on.
fn exit_with_nothing(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(EXIT_NOTHING_TO_DO)
}

/// Prints the progress on standard error, at most every two seconds.
struct ProgressLine(Instant);

impl ProgressLine {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn update(&mut self, what: impl FnOnce() -> String) {
        if self.0.elapsed() >= Duration::from_secs(2) {
            self.0 = Instant::now();
            eprintln!("{}", what());
        }
    }
}
