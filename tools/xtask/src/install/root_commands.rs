//! The privilege to install Debian packages.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::XtaskError;
use crate::workspace::status_within;

const UPDATE_ATTEMPTS: u32 = 3;
/// The time limit of one apt-get call on a slow connection. It is long, because aborting leaves packages half
/// installed.
const APT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The means to run commands as root: we are root, or sudo works without a password.
pub(super) struct RootCommands {
    prefix: &'static [&'static str],
}

impl RootCommands {
    pub(super) fn find() -> Option<RootCommands> {
        if !Path::new("/usr/bin/apt-get").exists() {
            return None;
        }
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0");
        if is_root {
            return Some(RootCommands { prefix: &[] });
        }
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "true"]).stdin(Stdio::null()).stderr(Stdio::null());
        sudo.status().is_ok_and(|status| status.success()).then_some(RootCommands { prefix: &["sudo", "-n"] })
    }

    pub(super) fn run(&self, words: &[&str]) -> Result<(), XtaskError> {
        if status_within(&mut self.command(words), APT_TIMEOUT)?.success() {
            return Ok(());
        }
        Err(XtaskError::Failed(format!("`{}` failed; its output is above", words.join(" "))))
    }

    pub(super) fn install(&self, packages: &[&str]) -> Result<(), XtaskError> {
        let mut attempt = 1;
        while let Err(failure) = self.apt_get(&["-o", "Acquire::Retries=3", "update"]) {
            if attempt == UPDATE_ATTEMPTS {
                return Err(failure);
            }
            attempt += 1;
        }
        self.apt_get(&[&["-o", "Acquire::Retries=3", "install", "-y", "--no-install-recommends"], packages].concat())
    }

    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), XtaskError> {
        let mut command = self.command(&["tee", path]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map_err(XtaskError::of("run tee"))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(text.as_bytes()).map_err(XtaskError::of(format_args!("write {path}")))?;
        }
        let ended = child.wait().map_err(XtaskError::of("wait for tee"))?;
        if ended.success() { Ok(()) } else { Err(XtaskError::Failed(format!("could not write {path}"))) }
    }

    fn apt_get(&self, words: &[&str]) -> Result<(), XtaskError> {
        // Uses `env`, because sudo drops variables. The machine's own daily update may hold the lock.
        let apt_get = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"];
        self.run(&[&apt_get, words].concat())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut all = self.prefix.iter().chain(words);
        let mut command = Command::new(all.next().copied().unwrap_or("true"));
        // Our stdout may be JSON for another program.
        command.args(all).stdin(Stdio::null()).stdout(io::stderr());
        command
    }
}
