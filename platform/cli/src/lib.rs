//! The command line of Onceward: the `main` function of a program of services, and its commands.
//!
//! A program of your own is a `main` function with its services:
//!
//! ```no_run
//! # fn my_service() -> onceward::Service { onceward::Service::new("mine") }
//! fn main() -> std::process::ExitCode {
//!     onceward_cli::main(vec![my_service()])
//! }
//! ```
//!
//! Reading order: this file parses the arguments and assembles the platform; [`commands`] has one file per command;
//! [`doctor`], [`story`] and [`slo`] implement `doctor`, `trace` and `slo`; [`embedded`] and `private_server` run the
//! PostgreSQL of `onceward up`.

pub mod commands;
pub mod doctor;
pub mod embedded;
pub mod outbox_report;
mod private_server;
mod signals;
pub mod slo;
mod store;
pub mod story;
pub mod table;
pub mod topology_report;

pub use commands::{CliCommand, database};

use clap::Parser;
use onceward::{
    Config, Platform, Service,
    config::{ConfigError, Section},
};
use std::{path::PathBuf, process::ExitCode};

/// The exit code of a command that found nothing to act on.
pub const EXIT_NOTHING_TO_DO: u8 = 3;

/// Arguments of every command.
#[derive(Debug, clap::Args)]
pub struct CommonArgs {
    /// A TOML file with the settings that differ from the defaults
    #[arg(long, global = true, env = "ONCEWARD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder of `onceward up`, which holds its private database and the local secret
    #[arg(long, global = true, default_value = ".onceward", env = "ONCEWARD_DATA", value_name = "FOLDER")]
    pub data: PathBuf,
}

impl CommonArgs {
    /// Loads the settings. If they name no database, uses that of the `onceward up` that is running in the data folder.
    pub fn load(&self, sections: &[Section]) -> Result<Config, ConfigError> {
        let mut config = Config::load(self.config.as_deref(), sections)?;
        if config.database.url.is_empty() {
            config.database.url = embedded::running_url(&self.data).unwrap_or_default();
        }
        Ok(config)
    }
}

#[derive(Debug, Parser)]
#[command(name = "onceward", version, about = "Services whose effects happen once")]
struct Cli {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: CliCommand,
}

type ServiceFactory = dyn FnOnce(&Config) -> Result<Vec<Service>, ConfigError>;

/// The services of a program, or how to create them from their settings.
pub struct Services {
    sections: Vec<Section>,
    factory: Box<ServiceFactory>,
}

impl Services {
    /// Returns services that `factory` creates once the settings, with these sections, are loaded.
    pub fn configured(
        sections: &[Section],
        factory: impl FnOnce(&Config) -> Result<Vec<Service>, ConfigError> + 'static,
    ) -> Self {
        Self { sections: sections.to_vec(), factory: Box::new(factory) }
    }
}

impl From<Vec<Service>> for Services {
    fn from(services: Vec<Service>) -> Self {
        Self::configured(&[], |_| Ok(services))
    }
}

/// The `main` function of a program with these `services`.
pub fn main(services: impl Into<Services>) -> ExitCode {
    let cli = Cli::parse();
    run(services, cli.common, cli.command)
}

/// Runs one command. Exit codes: 0 success, 1 failure, 2 invalid settings or arguments, 3 nothing to act on.
pub fn run(services: impl Into<Services>, common: CommonArgs, mut command: CliCommand) -> ExitCode {
    let (config, platform) = match prepare(services.into(), &common, &mut command) {
        Ok(prepared) => prepared,
        Err(error) => return fail(2, &error),
    };
    onceward::install_crypto_provider();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &error.into()),
    };
    let result = runtime.block_on(commands::dispatch(platform, config, &common, command));
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(error) => fail(1, &error),
    }
}

fn prepare(services: Services, common: &CommonArgs, command: &mut CliCommand) -> anyhow::Result<(Config, Platform)> {
    let config = match command {
        CliCommand::Up(args) => {
            // `up` starts its own database, and must not mistake that of another `up` for one that the settings name.
            let mut config = Config::load_demo(common.config.as_deref(), &services.sections)?;
            args.data.clone_from(&common.data);
            // Before the services are created: some sign with a key that is derived from it.
            commands::ensure_secret(&mut config, args)?;
            config
        }
        _ => common.load(&services.sections)?,
    };
    let platform = Platform::assemble((services.factory)(&config)?)?;
    Ok((config, platform))
}

fn fail(code: u8, error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(code)
}
