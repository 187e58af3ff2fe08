//! Private servers under `target/services`, one file per server.
//!
//! To add one, create a file here with a type that implements [`Service`], and add its line to [`ALL`].

mod broker;
mod guard;
mod kafka;
mod postgres;
mod rabbitmq;
mod redis;
mod state;
mod test_servers;

use std::path::Path;
use std::process::ExitCode;

use crate::error::XtaskError;
use crate::install::Requirement;
use crate::workspace::Workspace;
use test_servers::TestServers;

pub(crate) use guard::TestServersGuard;

/// Every server that tests can use.
const ALL: &[&dyn Service] =
    &[&postgres::PostgresService, &rabbitmq::RabbitMqService, &redis::RedisService, &kafka::KafkaService];

/// A private server: how to install, start, find and stop it.
trait Service: Sync {
    /// Returns its name, which is also its folder.
    fn name(&self) -> &'static str;
    /// Returns the variable by which tests learn its URL, and by which a user selects another server.
    fn variable(&self) -> &'static str;
    /// Returns the requirements that packages must provide first.
    fn requirements(&self, folder: &Path) -> Vec<&'static Requirement>;
    /// Downloads what packages do not provide.
    fn fetch(&self, _folder: &Path) -> Result<(), XtaskError> {
        Ok(())
    }
    /// Starts it in this folder so that it outlives this process. The caller has checked that it does not run there.
    fn start(&self, folder: &Path) -> Result<Running, XtaskError>;
    /// Returns the server that runs in this folder, if any. Must not install or start anything.
    fn find(&self, folder: &Path) -> Result<Option<Running>, XtaskError>;
    /// Stops the server that runs in this folder, and any processes that it left there.
    fn stop(&self, folder: &Path) -> Result<(), XtaskError>;
    /// Returns a further variable that tests need.
    fn further_variable(&self, _folder: &Path) -> Option<(&'static str, String)> {
        None
    }
    /// Returns the substitute that some tests use if the server is excluded.
    fn substitute(&self) -> Option<Substitute> {
        None
    }
}

/// Replaces an excluded server.
struct Substitute {
    /// The variable that is set for the tests, to this value.
    variable: &'static str,
    value: &'static str,
    /// Printed at the very end, so that it is not overlooked.
    note: &'static str,
}

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Running {
    pid: u32,
    url: String,
}

/// The status of one service.
#[derive(Debug)]
struct Status {
    name: &'static str,
    variable: &'static str,
    running: Option<Running>,
}

/// `cargo xtask services up|down|status [--json]`
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, XtaskError> {
    let (flags, words): (Vec<&String>, Vec<&String>) = args.iter().partition(|arg| arg.starts_with('-'));
    if let Some(flag) = flags.iter().find(|flag| **flag != "--json") {
        return Err(XtaskError::Usage(format!("`services` has no option `{flag}`")));
    }
    let [action] = words[..] else {
        return Err(XtaskError::Usage("`services` needs one of `up`, `down` and `status`".to_owned()));
    };
    let servers = TestServers::of(workspace)?;
    let mut notes = Vec::new();
    let all = match action.as_str() {
        "up" => {
            let up = servers.up(|_| true, false)?;
            servers.keep()?;
            notes = up.notes();
            up.all
        }
        "down" => servers.down()?,
        "status" => servers.status()?,
        other => {
            return Err(XtaskError::Usage(format!("`services` has no action `{other}`; use `up`, `down` or `status`")));
        }
    };
    let shown = if flags.is_empty() { state::to_text(&all) } else { state::to_json(&all) };
    print!("{shown}");
    notes.iter().for_each(|note| eprintln!("{note}"));
    Ok(ExitCode::SUCCESS)
}

/// Installs everything that the servers need and starts none. Returns notes about the excluded ones.
pub(crate) fn install(workspace: &Workspace) -> Result<Vec<String>, XtaskError> {
    TestServers::of(workspace)?.install()
}
