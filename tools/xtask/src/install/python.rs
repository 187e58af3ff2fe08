//! The Python packages that tests use, in an environment of their own: `target/services/python`.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::XtaskError;
use crate::workspace::{Workspace, status_within};

/// An SMTP server and what it depends on. Other versions are other servers, so all are fixed.
const PACKAGES: &[&str] = &["aiosmtpd==1.4.6", "atpublic==5.1", "attrs==25.3.0"];
const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Creates the environment, unless it has these packages already. Python must be installed.
pub(crate) fn ensure_python_packages(workspace: &Workspace) -> Result<(), XtaskError> {
    let services = workspace.target().join("services");
    let folder = services.join("python");
    fs::create_dir_all(&services).map_err(XtaskError::of("create target/services"))?;
    let lock = File::options().create(true).truncate(false).write(true).open(services.join("python.lock"));
    let lock = lock.map_err(XtaskError::of("open target/services/python.lock"))?;
    lock.lock().map_err(XtaskError::of("lock target/services/python.lock"))?;
    // Written last, so that an interrupted installation is repeated.
    let marker = folder.join("packages.txt");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    eprintln!("getting Python packages: {}", PACKAGES.join(" "));
    remove(&folder)?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let mut pip = Command::new(folder.join("bin/python"));
    run(pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]).args(PACKAGES))?;
    fs::write(&marker, wanted).map_err(XtaskError::of("note the installed Python packages"))
}

fn run(command: &mut Command) -> Result<(), XtaskError> {
    // Our stdout may be JSON for another program.
    command.stdin(Stdio::null()).stdout(io::stderr());
    if status_within(command, TIMEOUT)?.success() {
        return Ok(());
    }
    Err(XtaskError::Failed("the Python packages for tests could not be installed; the output is above".to_owned()))
}

fn remove(folder: &Path) -> Result<(), XtaskError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(XtaskError::of("remove an unfinished Python environment")(error))
        }
        _ => Ok(()),
    }
}
