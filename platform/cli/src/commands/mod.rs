//! The commands, one file each.

mod account;
mod audit;
mod breaker;
mod cancel;
mod controls;
mod dlq;
mod doctor;
mod duration;
mod operator;
mod outbox;
mod pools;
mod queues;
mod serve;
mod slo;
mod tenant;
mod token;
mod topology;
mod trace;
mod up;

pub(crate) use up::ensure_secret;

use crate::{CommonArgs, EXIT_NOTHING_TO_DO};
use clap::Subcommand;
use onceward::{Config, Platform, telemetry};
use onceward_db::{Db, DbError, session};
use std::process::ExitCode;

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run everything in one process, with a private PostgreSQL unless DATABASE_URL is set
    Up(up::Args),
    /// Run one or more roles against the database in DATABASE_URL
    Serve(serve::Args),
    /// Apply migrations and declare the topology
    Migrate(serve::MigrateArgs),
    /// Print the URL of the database in use, including its password: DATABASE_URL, or the database of a running `onceward up`
    DatabaseUrl,
    /// Print, declare and check the exchanges, queues and bindings
    #[command(subcommand)]
    Topology(topology::TopologyCommand),
    /// Issue tokens signed with the local secret
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Add and list tenants
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// Show the depth and age of each queue; pause, resume and limit queues, and cancel single messages
    Queues(queues::Args),
    /// Show the size and work of each worker pool; change their settings
    Pools(pools::Args),
    /// List, isolate and close the breakers of destinations
    #[command(subcommand)]
    Breaker(breaker::BreakerCommand),
    /// List, inspect, requeue, quarantine and release dead letters
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// Show and retry messages that wait to be published to an external bus
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    /// Verify, export and list the audit trail
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Show everything that a request caused: its messages, their states and their causes
    ///
    /// Exit status: 0 if anything was found, 1 if not. Handling times are not recorded and therefore not shown.
    Trace(trace::Args),
    /// List service-level objectives, and print their alert rules for Prometheus
    #[command(subcommand)]
    Slo(slo::SloCommand),
    /// Check the database, the queues and the bus for problems, and show how to fix them
    ///
    /// Changes nothing. Exit status: 0 if there are no findings, 1 if there are.
    Doctor(doctor::Args),
}

/// Runs one command.
pub(crate) async fn dispatch(
    platform: Platform,
    config: Config,
    common: &CommonArgs,
    command: CliCommand,
) -> anyhow::Result<ExitCode> {
    match command {
        CliCommand::Up(args) => up::run(platform, config, args).await,
        CliCommand::Serve(args) => serve::run(platform, config, args).await,
        CliCommand::Migrate(args) => serve::migrate(platform, config, args).await,
        CliCommand::DatabaseUrl => {
            database(&config)?;
            println!("{}", config.database.url);
            Ok(ExitCode::SUCCESS)
        }
        CliCommand::Topology(command) => topology::run(&platform, &config, command).await,
        CliCommand::Token(command) => token::run(&platform, &config, &common.data, command).await,
        CliCommand::Tenant(command) => tenant::run(&config, command).await,
        CliCommand::Queues(args) => queues::run(&platform, &config, args).await,
        CliCommand::Pools(args) => pools::run(&config, args).await,
        CliCommand::Breaker(command) => breaker::run(&platform, &config, command).await,
        CliCommand::Dlq(command) => dlq::run(&platform, &config, command).await,
        CliCommand::Outbox(command) => outbox::run(&platform, &config, command).await,
        CliCommand::Audit(command) => audit::run(&config, command).await,
        CliCommand::Trace(args) => trace::run(&platform, &config, args).await,
        CliCommand::Slo(command) => Ok(slo::run(&platform, command)),
        CliCommand::Doctor(args) => doctor::run(&platform, &config, args).await,
    }
}

/// Installs logging for commands that keep running; the short ones only print.
fn install_telemetry(config: &Config) -> anyhow::Result<telemetry::TelemetryGuard> {
    telemetry::install(&config.telemetry)
}

/// Returns the settings of the database. Fails if none is configured, with an error that explains how to configure one.
pub fn database(config: &Config) -> anyhow::Result<onceward_db::DbConfig> {
    if config.database.url.is_empty() {
        anyhow::bail!(
            "no database is configured, and no `onceward up` is running in the data folder; set DATABASE_URL, or name the folder of \
             a running `onceward up` with --data or ONCEWARD_DATA (default: .onceward in the working folder)"
        );
    }
    Ok(config.db())
}

/// Fails if a pooler shares our sessions with other clients, before anything is changed through it. Other errors are left
/// to the next step: a new database does not yet have the role with which this check connects.
async fn refuse_pooler(config: &Config) -> anyhow::Result<()> {
    match session::require_own(&Db::connect(config.db())?).await {
        Err(error @ DbError::Config(_)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Migrates the database, for the bus that the settings name.
async fn migrate(platform: &Platform, config: &Config) -> anyhow::Result<Vec<String>> {
    let bus = config.bus_kind().map_err(anyhow::Error::msg)?;
    let operator = operator::account("the database was migrated");
    Ok(platform.migrate_as(&config.db(), bus, Some(&operator)).await?)
}
