//! Private servers under `target/services`, one file a server.
//!
//! To add one: a file here with a type that implements [`Service`], and its line in [`ALL`].

mod broker;
mod fleet;
mod kafka;
mod lease;
mod postgres;
mod rabbitmq;
mod redis;
mod state;

use std::path::Path;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::install::Need;
use crate::workspace::Workspace;
use fleet::Fleet;

pub(crate) use lease::Lease;

/// Every server that tests can ask for.
const ALL: &[&dyn Service] = &[&postgres::Postgres, &rabbitmq::RabbitMq, &redis::Redis, &kafka::Kafka];

/// A private server: how to get it, start it, find it again and stop it.
trait Service: Sync {
    /// Its name, which is also its folder.
    fn name(&self) -> &'static str;
    /// The variable by which tests learn its URL, and by which a user points them at another server.
    fn variable(&self) -> &'static str;
    /// What packages must bring first.
    fn needs(&self, folder: &Path) -> Vec<&'static Need>;
    /// Gets what packages do not bring.
    fn fetch(&self, _folder: &Path) -> Result<(), Failure> {
        Ok(())
    }
    /// Starts it in this folder so that it outlives us. It is known not to run there.
    fn start(&self, folder: &Path) -> Result<Running, Failure>;
    /// The one that runs in this folder, if any. Must not install or start anything.
    fn find(&self, folder: &Path) -> Result<Option<Running>, Failure>;
    /// Stops the one that runs in this folder, and what it has left there.
    fn stop(&self, folder: &Path) -> Result<(), Failure>;
    /// Something else that tests want to know of it.
    fn further_variable(&self, _folder: &Path) -> Option<(&'static str, String)> {
        None
    }
    /// What tests make do with where it cannot be had. Without one, that is an error.
    fn substitute(&self) -> Option<Substitute> {
        None
    }
}

/// Instead of a server.
struct Substitute {
    /// Set for the tests, to this value.
    variable: &'static str,
    value: &'static str,
    /// Said at the very end, so that nobody overlooks it.
    note: &'static str,
}

/// A server that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Running {
    pid: u32,
    url: String,
}

/// What is known of one service.
#[derive(Debug)]
struct Status {
    name: &'static str,
    variable: &'static str,
    running: Option<Running>,
}

/// `cargo xtask services up|down|status [--json]`
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, Failure> {
    let (flags, words): (Vec<&String>, Vec<&String>) = args.iter().partition(|arg| arg.starts_with('-'));
    if let Some(flag) = flags.iter().find(|flag| **flag != "--json") {
        return Err(Failure::Usage(format!("`services` has no option `{flag}`")));
    }
    let [action] = words[..] else {
        return Err(Failure::Usage("`services` wants one of `up`, `down` and `status`".to_owned()));
    };
    let fleet = Fleet::of(workspace)?;
    let mut notes = Vec::new();
    let all = match action.as_str() {
        "up" => {
            let up = fleet.up(|_| true, false)?;
            fleet.keep()?;
            notes = up.notes();
            up.all
        }
        "down" => fleet.down()?,
        "status" => fleet.status()?,
        other => {
            return Err(Failure::Usage(format!("`services` cannot `{other}`: it knows up, down and status")));
        }
    };
    let shown = if flags.is_empty() { state::to_text(&all) } else { state::to_json(&all) };
    print!("{shown}");
    notes.iter().for_each(|note| eprintln!("{note}"));
    Ok(ExitCode::SUCCESS)
}

/// Installs everything that the servers need and starts none. Returns what is to be said about those that cannot be had.
pub(crate) fn install(workspace: &Workspace) -> Result<Vec<String>, Failure> {
    Fleet::of(workspace)?.install()
}
