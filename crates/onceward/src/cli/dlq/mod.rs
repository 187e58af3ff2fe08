//! `dlq`: dead letters, as an operator deals with them.

mod act;
mod collect;
mod export;
mod history;
mod list;
mod select;
mod show;

pub(super) use act::requeue_dead_of_outbox;
pub(super) use export::open;
pub(super) use select::said;

use super::NOTHING;
use crate::{Config, Platform};
use onceward_db::Db;
use std::process::ExitCode;

/// The arguments do not fit together.
const MISUSED: u8 = 2;

/// What can be done with dead letters.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List dead letters, the latest first
    List(list::Args),
    /// Show all there is about a dead letter. This prints the message's payload, which may hold personal data
    Show(show::Args),
    /// Put dead letters back into their queues, as new messages with all their attempts
    ///
    /// Within an ordering key nothing is overtaken that need not be: letters go back in the order in which they were
    /// published, behind what was published before them and in front of what was published after them, as far as
    /// that still waits. While one of a key waits to be due, the rest of the key waits behind it. A queue's time
    /// limit for messages starts anew.
    ///
    /// Not all become due at once: 50 a second, unless --spread says otherwise, and one that was requeued n times before
    /// waits another 2^n seconds, a minute at most. A message that dies again is a new dead letter.
    ///
    /// Exit codes: 0 done, 1 some of the given ids could not be requeued, 3 there was nothing to requeue.
    Requeue(act::RequeueArgs),
    /// Take dead letters out of the way: they are no longer listed, and requeued by id with --force only
    ///
    /// Exit codes: 0 done, 1 some of the given ids could not be quarantined, 3 there was nothing to quarantine.
    Quarantine(act::QuarantineArgs),
    /// Write dead letters as JSON Lines, the whole of one a line. This includes payloads
    Export(export::Args),
    /// Bring home what an external bus has put into its dead-letter queues by itself
    ///
    /// What expired or was handed out too often on the bus becomes a dead letter here, and leaves the bus. Copies of letters
    /// that are here already leave it, too. Exit codes: 0 done, 3 there was nothing to collect.
    Collect(collect::Args),
    /// Show what was done to dead letters, by whom and why, the latest first
    History(history::Args),
}

pub(super) async fn run(platform: &Platform, config: &Config, command: Command) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    match command {
        Command::List(args) => list::run(&db, args).await,
        Command::Show(args) => show::run(&db, args).await,
        Command::Requeue(args) => act::requeue(&db, args).await,
        Command::Quarantine(args) => act::quarantine(&db, args).await,
        Command::Export(args) => export::run(&db, args).await,
        Command::Collect(args) => collect::run(platform, config, &db, args).await,
        Command::History(args) => history::run(&db, args).await,
    }
}

/// Ends with a message and an exit code of its own.
fn end(code: u8, message: impl std::fmt::Display) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(code)
}
