//! The command line: `up`, `serve`, `migrate`, `topology`, `token`, `tenant`, `queues`.

mod audit;
mod dlq;
mod doctor;
mod duration;
mod outbox;
mod queues;
mod serve;
mod slo;
mod tenant;
mod token;
mod topology;
mod trace;
mod up;

use crate::{
    Config, Platform, Service,
    config::{ConfigError, Section},
    telemetry,
};
use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

/// The exit code of a command that found nothing to act on.
pub const NOTHING: u8 = 3;

/// Settings that every command takes.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// A TOML file with the settings that differ from the defaults
    #[arg(long, global = true, env = "ONCEWARD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything in one process, with a private PostgreSQL unless DATABASE_URL is set
    Up(up::Args),
    /// Run one or more roles against the database in DATABASE_URL
    Serve(serve::Args),
    /// Apply migrations and declare the topology
    Migrate(serve::MigrateArgs),
    /// Show the declared exchanges, queues and bindings, make them, and tell what differs
    #[command(subcommand)]
    Topology(topology::Command),
    /// Issue tokens for the local key
    #[command(subcommand)]
    Token(token::Command),
    /// Add and list tenants
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// Show how full each queue is
    Queues(queues::Args),
    /// Look at dead letters, requeue and quarantine them
    #[command(subcommand)]
    Dlq(dlq::Command),
    /// Look at what waits for an external bus, and offer it again
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// Verify, export and read the audit trail
    #[command(subcommand)]
    Audit(audit::Command),
    /// Tell the story of a request: its messages, what became of each, and what caused what
    ///
    /// Ends with 0 when something was found, with 1 when nothing was. When a message was handled is not written down
    /// anywhere, so no time is given for it.
    Trace(trace::Args),
    /// Show what is promised, and print alert rules for Prometheus
    #[command(subcommand)]
    Slo(slo::Command),
    /// Look for what is wrong with the database, the queues and the bus, and say what to do
    ///
    /// Changes nothing. Ends with 0 when there are no findings, with 1 when there are.
    Doctor(doctor::Args),
}

#[derive(Debug, Parser)]
#[command(name = "onceward", version, about = "Services whose effects happen once")]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

type Make = dyn FnOnce(&Config) -> Result<Vec<Service>, ConfigError>;

/// What a program consists of: services as they are, or services that are made from their settings.
pub struct Services {
    sections: Vec<Section>,
    make: Box<Make>,
}

impl Services {
    /// Services that `make` makes once the settings, with these sections, are read.
    pub fn configured(
        sections: &[Section],
        make: impl FnOnce(&Config) -> Result<Vec<Service>, ConfigError> + 'static,
    ) -> Self {
        Self { sections: sections.to_vec(), make: Box::new(make) }
    }
}

impl From<Vec<Service>> for Services {
    fn from(services: Vec<Service>) -> Self {
        Self::configured(&[], |_| Ok(services))
    }
}

/// The `main` of a program that consists of `services`.
pub fn main(services: impl Into<Services>) -> ExitCode {
    let cli = Cli::parse();
    run(services, cli.common, cli.command)
}

/// Runs one command. Exit codes: 0 done, 1 failed, 2 the settings or arguments are wrong, 3 there was nothing to act on.
pub fn run(services: impl Into<Services>, common: Common, command: Command) -> ExitCode {
    let (config, platform) = match prepare(services.into(), &common, &command) {
        Ok(prepared) => prepared,
        Err(error) => return fail(2, &error),
    };
    install_crypto();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &error.into()),
    };
    let result = runtime.block_on(dispatch(platform, config, command));
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(error) => fail(1, &error),
    }
}

fn prepare(services: Services, common: &Common, command: &Command) -> anyhow::Result<(Config, Platform)> {
    let mut config = Config::load(common.config.as_deref(), &services.sections)?;
    // Before services are made: some sign with a key that is derived from it.
    if let Command::Up(args) = command {
        up::own_secret(&mut config, args)?;
    }
    let platform = Platform::assemble((services.make)(&config)?)?;
    Ok((config, platform))
}

async fn dispatch(platform: Platform, config: Config, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(args) => up::run(platform, config, args).await,
        Command::Serve(args) => serve::run(platform, config, args).await,
        Command::Migrate(args) => serve::migrate(platform, config, args).await,
        Command::Topology(command) => topology::run(&platform, &config, command).await,
        Command::Token(command) => token::run(&platform, &config, command),
        Command::Tenant(command) => tenant::run(&config, command).await,
        Command::Queues(args) => queues::run(&platform, &config, args).await,
        Command::Dlq(command) => dlq::run(&platform, &config, command).await,
        Command::Outbox(command) => outbox::run(&platform, &config, command).await,
        Command::Audit(command) => audit::run(&config, command).await,
        Command::Trace(args) => trace::run(&platform, &config, args).await,
        Command::Slo(command) => Ok(slo::run(&platform, command)),
        Command::Doctor(args) => doctor::run(&platform, &config, args).await,
    }
}

/// One crypto provider for everything that speaks TLS. A second call changes nothing.
pub fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn fail(code: u8, error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(code)
}

/// Logging for commands that run on; the short ones only print.
fn log(config: &Config) -> anyhow::Result<telemetry::Exporter> {
    telemetry::install(&config.telemetry)
}

/// The database's settings, or an error that says how to give them.
fn database(config: &Config) -> anyhow::Result<onceward_db::DbConfig> {
    if config.database.url.is_empty() {
        anyhow::bail!("no database is named; set DATABASE_URL (a running `onceward up` prints its own)");
    }
    Ok(config.db())
}

/// Brings the database up to date, for the bus that the settings name.
async fn migrate(platform: &Platform, config: &Config) -> anyhow::Result<Vec<String>> {
    let bus = config.bus_kind().map_err(anyhow::Error::msg)?;
    Ok(platform.migrate(&config.db(), bus).await?)
}

/// Told to stop by Ctrl-C or SIGTERM.
async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be handled");
    tokio::select! { _ = tokio::signal::ctrl_c() => {}, _ = terminate.recv() => {} }
}
