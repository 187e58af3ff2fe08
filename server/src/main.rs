//! The `onceward` program: the only place that names every service.

mod services;

use clap::{Parser, Subcommand};
use services::SECTIONS;
use std::process::ExitCode;

/// Messages are many small allocations that one task creates and another frees.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "onceward", version, about = "Services whose effects happen once")]
struct Cli {
    #[command(flatten)]
    common: onceward_cli::CommonArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Platform(onceward_cli::CliCommand),
    /// Measure this machine, as ratios to a limit that is measured in the same run
    Bench(onceward_bench::BenchArgs),
    /// Migrate a legacy lending database while its old program continues to run
    #[command(subcommand)]
    Adopt(onceward_adoption::cli::Command),
    /// Inspect the ledger
    #[command(subcommand)]
    Ledger(onceward_lending::cli::LedgerCommand),
    /// Explain a mail, and check what proves it
    #[command(subcommand)]
    Crm(onceward_crm::cli::Command),
    /// Receive webhooks on this machine, and list the event types to subscribe to
    #[command(subcommand)]
    Webhooks(onceward_webhooks::cli::Command),
}

fn main() -> ExitCode {
    let Cli { common, command } = Cli::parse();
    match command {
        Command::Platform(command) => {
            onceward_cli::run(onceward_cli::Services::configured(SECTIONS, services::services), common, command)
        }
        Command::Bench(args) => onceward_bench::main(args),
        Command::Adopt(command) => onceward_adoption::cli::main(&common, SECTIONS, &command),
        Command::Ledger(command) => onceward_lending::cli::main(&common, SECTIONS, &command),
        Command::Crm(command) => onceward_crm::cli::main(&common, SECTIONS, &command),
        Command::Webhooks(command) => onceward_webhooks::cli::main(&services::webhook_sources(), command),
    }
}
