//! `onceward webhooks`: a receiver for trying out endpoints, and the list of event types to subscribe to.

mod listen;

use crate::{EventSource, event_types::EventTypes};
use serde_json::json;
use std::process::ExitCode;

/// Try webhooks on this machine
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Receive deliveries on this machine, check their signatures and print them, until Ctrl-C
    ///
    /// By default the server sends nothing to its own machine. Start it with ONCEWARD_WEBHOOKS_ALLOW_HTTP=true and
    /// ONCEWARD_WEBHOOKS_ALLOWED_NETWORKS=127.0.0.1/32, and create an endpoint with the URL that this command prints.
    Listen(listen::ListenArgs),
    /// List the event types that endpoints may subscribe to
    Types {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs one command. `sources` must be those that the service is created with.
pub fn main(sources: &[EventSource], command: Command) -> ExitCode {
    let result = match command {
        Command::Types { json } => {
            print_types(sources, json);
            Ok(())
        }
        Command::Listen(args) => listen::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print_types(sources: &[EventSource], as_json: bool) {
    let event_types = EventTypes::of(sources);
    if as_json {
        println!("{}", json!({ "event_types": event_types.names().collect::<Vec<_>>() }));
    } else {
        event_types.names().for_each(|event_type| println!("{event_type}"));
    }
}
