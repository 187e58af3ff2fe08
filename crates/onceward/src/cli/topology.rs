//! `topology print`.

use crate::Platform;
use std::process::ExitCode;

/// What can be done with the topology.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print every exchange, queue and binding
    Print {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(platform: &Platform, command: Command) -> anyhow::Result<ExitCode> {
    let Command::Print { json } = command;
    let topology = platform.topology();
    if json {
        print!("{}", topology.snapshot());
        return Ok(ExitCode::SUCCESS);
    }
    for exchange in &topology.exchanges {
        println!("exchange {:<32} {:?}", exchange.name, exchange.kind);
    }
    for queue in &topology.queues {
        let dead_letter = queue.dead_letter.as_ref().map_or("-", |letter| letter.exchange.as_str());
        println!(
            "queue    {:<32} {:?}, {} shards, dead letters to {dead_letter}",
            queue.name, queue.kind, queue.shards
        );
    }
    for binding in &topology.bindings {
        println!("binding  {:<32} {} <- {}", binding.queue, binding.exchange, binding.pattern);
    }
    Ok(ExitCode::SUCCESS)
}
