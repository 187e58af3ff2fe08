//! The `onceward` program: the only place that names every service.

mod services;

use clap::{Parser, Subcommand};
use onceward::cli;
use services::SECTIONS;
use std::process::ExitCode;

/// Messages are many small pieces of memory that one task makes and another frees.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "onceward", version, about = "Services whose effects happen once")]
struct Cli {
    #[command(flatten)]
    common: cli::Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Platform(cli::Command),
    /// Measure this machine's figures as ratios to a limit taken in the same run
    Bench(onceward_bench::Args),
    /// Bring a legacy lending database over, while its old program goes on
    #[command(subcommand)]
    Adopt(onceward_adoption::cli::Command),
    /// Look at the ledger
    #[command(subcommand)]
    Ledger(onceward_lending::cli::Command),
}

fn main() -> ExitCode {
    let Cli { common, command } = Cli::parse();
    match command {
        Command::Platform(command) => {
            cli::run(cli::Services::configured(SECTIONS, services::services), common, command)
        }
        Command::Bench(args) => onceward_bench::main(args),
        Command::Adopt(command) => onceward_adoption::cli::main(&common, SECTIONS, &command),
        Command::Ledger(command) => onceward_lending::cli::main(&common, SECTIONS, &command),
    }
}
