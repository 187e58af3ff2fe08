//! Private servers under `target/services`, one file a server.
//!
//! To add one: a file here with a type that implements [`Service`], and its line in [`ALL`].

mod lease;
mod postgres;
mod state;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::failure::Failure;
use crate::workspace::Workspace;

pub(crate) use lease::Lease;

/// Every server that tests can ask for.
const ALL: &[&dyn Service] = &[&postgres::Postgres];

/// A private server: how to get it, start it, find it again and stop it.
trait Service {
    /// Its name, which is also its folder.
    fn name(&self) -> &'static str;
    /// The variable by which tests learn its URL, and by which a user points them at another server.
    fn variable(&self) -> &'static str;
    /// Installs its programs if they are missing.
    fn install(&self) -> Result<(), Failure>;
    /// Starts it in this folder so that it outlives us. It is known not to run there.
    fn start(&self, folder: &Path) -> Result<Running, Failure>;
    /// The one that runs in this folder, if any. Must not install or start anything.
    fn find(&self, folder: &Path) -> Result<Option<Running>, Failure>;
    /// Stops the one that runs in this folder.
    fn stop(&self, folder: &Path) -> Result<(), Failure>;
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

/// The services of one workspace.
struct Services {
    folder: PathBuf,
}

impl Services {
    fn of(workspace: &Workspace) -> Services {
        Services { folder: workspace.target().join("services") }
    }

    /// Starts what does not run yet, and says so on stderr: stdout may be JSON. Returns the status of all and whether any was started.
    fn up(&self) -> Result<(Vec<Status>, bool), Failure> {
        let _lock = self.lock()?;
        let mut started = false;
        for service in ALL {
            let folder = self.folder.join(service.name());
            if service.find(&folder)?.is_some() {
                continue;
            }
            service.install()?;
            let began = Instant::now();
            let running = service.start(&folder)?;
            eprintln!("{} started in {:.1} s (pid {})", service.name(), began.elapsed().as_secs_f64(), running.pid);
            started = true;
        }
        Ok((self.write_state()?, started))
    }

    /// Stops what runs.
    fn down(&self) -> Result<Vec<Status>, Failure> {
        let _lock = self.lock()?;
        for service in ALL {
            let folder = self.folder.join(service.name());
            if service.find(&folder)?.is_some() {
                service.stop(&folder)?;
                eprintln!("{} stopped", service.name());
            }
        }
        self.write_state()
    }

    /// Asks the servers themselves, not the state file: it may have been written before a reboot.
    fn status(&self) -> Result<Vec<Status>, Failure> {
        let of = |service: &&dyn Service| {
            let running = service.find(&self.folder.join(service.name()))?;
            Ok(Status { name: service.name(), variable: service.variable(), running })
        };
        ALL.iter().map(of).collect()
    }

    /// A file beside the servers' folders, created if it is missing.
    fn file(&self, name: &str) -> Result<File, Failure> {
        fs::create_dir_all(&self.folder).map_err(Failure::of("create target/services"))?;
        let path = self.folder.join(name);
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        options.open(&path).map_err(Failure::of(format_args!("open {}", path.display())))
    }

    /// One `up` or `down` at a time: two would start the same server twice.
    fn lock(&self) -> Result<File, Failure> {
        let file = self.file("lock")?;
        file.lock().map_err(Failure::of("lock target/services"))?;
        Ok(file)
    }

    fn write_state(&self) -> Result<Vec<Status>, Failure> {
        let all = self.status()?;
        fs::write(self.folder.join("state.json"), state::to_json(&all)).map_err(Failure::of("write state.json"))?;
        Ok(all)
    }
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
    let services = Services::of(workspace);
    let all = match action.as_str() {
        "up" => {
            let (all, _) = services.up()?;
            lease::keep(&services)?;
            all
        }
        "down" => services.down()?,
        "status" => services.status()?,
        other => {
            return Err(Failure::Usage(format!("`services` cannot `{other}`: it knows up, down and status")));
        }
    };
    if flags.is_empty() {
        print!("{}", state::to_text(&all))
    } else {
        print!("{}", state::to_json(&all))
    }
    Ok(ExitCode::SUCCESS)
}
