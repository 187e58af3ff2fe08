//! `topology print|declare|check`.

use super::duration;
use crate::{
    Config, Platform,
    topology_state::{self, TopologyState},
};
use std::{process::ExitCode, time::Duration};

/// What can be done with the topology.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print every exchange, queue and binding
    Print {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make what is missing in PostgreSQL and on the external bus
    ///
    /// Deletes no exchange, queue or message. What is there, differs and cannot be changed is named, and ends it with 1
    /// before PostgreSQL is touched; a side that does not answer ends it with 2.
    Declare(Reach),
    /// Tell where PostgreSQL and the external bus differ from what this program declares
    ///
    /// Changes nothing. Ends with 0 when nothing differs, with 1 when something does, with 2 when a side does not answer.
    Check(Reach),
}

/// How both sides are spoken to.
#[derive(Debug, clap::Args)]
pub struct Reach {
    /// How long each side may take to answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(platform: &Platform, config: &Config, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Print { json } => {
            print(platform, json);
            Ok(ExitCode::SUCCESS)
        }
        Command::Declare(reach) => {
            super::database(config)?;
            let state = topology_state::declare(platform, config, reach.timeout).await?;
            Ok(tell(&state, &reach, "there was nothing to make"))
        }
        Command::Check(reach) => {
            super::database(config)?;
            let state = topology_state::check(platform, config, reach.timeout).await?;
            Ok(tell(&state, &reach, "everything is as declared"))
        }
    }
}

fn print(platform: &Platform, json: bool) {
    let topology = platform.topology();
    if json {
        print!("{}", topology.snapshot());
        return;
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
}

fn tell(state: &TopologyState, reach: &Reach, nothing: &str) -> ExitCode {
    if reach.json {
        println!(
            "{}",
            serde_json::json!({"equal": state.is_equal(), "made": state.made, "differences": state.differences,
                               "unreachable": state.unreachable})
        );
    } else {
        in_words(state, nothing);
    }
    match state {
        TopologyState { unreachable: Some(_), .. } => ExitCode::from(2),
        state if state.is_equal() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn in_words(state: &TopologyState, nothing: &str) {
    for made in &state.made {
        println!("{}: made {}", made.on, made.what);
    }
    for differs in &state.differences {
        println!("{}: {} differs", differs.on, differs.what);
        println!("    declared  {}", differs.declared);
        println!("    found     {}", differs.found);
        println!("    advice    {}", differs.advice);
    }
    if let Some(unreachable) = &state.unreachable {
        eprintln!("error: {unreachable}");
    } else if state.made.is_empty() && state.differences.is_empty() {
        println!("{nothing}");
    }
}
