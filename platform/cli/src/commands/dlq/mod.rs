//! `dlq`: the commands for dead letters.

mod collect;
mod export;
mod history;
mod list;
mod select;
mod show;
mod triage;

pub(super) use export::open_output;
pub(super) use triage::requeue_outbox_dead_letters;

use super::EXIT_NOTHING_TO_DO;
use onceward::{Config, Platform};
use onceward_db::Db;
use std::process::ExitCode;

/// The exit code for arguments that cannot be combined.
const EXIT_USAGE: u8 = 2;

/// Commands about dead letters.
#[derive(Debug, clap::Subcommand)]
pub enum DlqCommand {
    /// List dead letters, newest first
    List(list::Args),
    /// Show everything about a dead letter. This prints the message's payload, which may contain personal data
    Show(show::Args),
    /// Requeue dead letters as new messages with a full set of attempts
    ///
    /// The order of each key is kept: messages return in the order in which they were published, behind waiting messages that
    /// were published before them and ahead of those published after them. While one message of a key is not yet due, the rest
    /// of its key waits behind it. A queue's time limit for messages starts again.
    ///
    /// Messages become due at a rate of 50 per second unless --spread sets another, and a message that was requeued n times
    /// before waits another 2^n seconds, at most a minute. A message that dies again is a new dead letter.
    ///
    /// Exit status: 0 if requeued, 1 if some of the given ids could not be requeued, 3 if there was nothing to requeue.
    Requeue(triage::RequeueArgs),
    /// Quarantine dead letters: they are no longer listed, and are requeued only by id with --force
    ///
    /// A dead letter that holds its key still holds it, until it is released or requeued.
    ///
    /// Exit status: 0 if quarantined, 1 if some of the given ids could not be quarantined, 3 if there was nothing to quarantine.
    Quarantine(triage::QuarantineArgs),
    /// Release the keys that dead letters hold: the messages behind them are handled without them
    ///
    /// Dead letters of consumers that declare it hold their ordering key: later messages of the key wait until the dead letter
    /// is requeued, and is then handled before them, or released. A released dead letter stays a dead letter and may still be
    /// requeued. With --all, every dead letter that holds its key and matches the filters is released, also quarantined ones.
    ///
    /// Exit status: 0 if released, 1 if some of the given ids could not be released, 3 if there was nothing to release.
    Release(triage::ReleaseArgs),
    /// Export complete dead letters as JSON Lines. This includes payloads
    Export(export::Args),
    /// Collect messages that an external bus moved to its dead-letter queues by itself
    ///
    /// Messages that expired or were delivered too often on the bus become dead letters in the database and are removed from the
    /// bus, as are copies of existing dead letters. Exit status: 0 if collected, 3 if there was nothing to collect.
    Collect(collect::Args),
    /// Show operators' acts on dead letters with their reasons, newest first
    History(history::Args),
}

pub(super) async fn run(platform: &Platform, config: &Config, command: DlqCommand) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    match command {
        DlqCommand::List(args) => list::run(&db, args).await,
        DlqCommand::Show(args) => show::run(&db, args).await,
        DlqCommand::Requeue(args) => triage::requeue(&db, args).await,
        DlqCommand::Quarantine(args) => triage::quarantine(&db, args).await,
        DlqCommand::Release(args) => triage::release(&db, args).await,
        DlqCommand::Export(args) => export::run(&db, args).await,
        DlqCommand::Collect(args) => collect::run(platform, config, &db, args).await,
        DlqCommand::History(args) => history::run(&db, args).await,
    }
}

/// Prints a message on standard error and returns `code` as the exit code.
fn exit_with(code: u8, message: impl std::fmt::Display) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(code)
}
