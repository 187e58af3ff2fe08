//! Benches.

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs.
pub fn main(_args: Args) -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
