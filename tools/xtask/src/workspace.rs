//! The paths of the workspace and its build output, and how to call cargo in it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::XtaskError;

/// The folders that commands work in.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the root Cargo.toml.
    pub(crate) root: PathBuf,
    /// The folder of this profile's binaries, including ours: `target/debug`.
    pub(crate) bin_dir: PathBuf,
}

impl Workspace {
    /// Finds the workspace that this program was built from.
    pub(crate) fn find() -> Result<Workspace, XtaskError> {
        let manifest_dir =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let exe = env::current_exe().map_err(XtaskError::of("find this program's own path"))?;
        match (manifest_dir.ancestors().nth(2), exe.parent()) {
            (Some(root), Some(bin_dir)) => Ok(Workspace { root: root.to_path_buf(), bin_dir: bin_dir.to_path_buf() }),
            _ => Err(XtaskError::Failed("run this as `cargo xtask` inside the workspace".to_owned())),
        }
    }

    /// Returns the build folder, which CARGO_TARGET_DIR or a configuration file may have moved.
    pub(crate) fn target(&self) -> &Path {
        self.bin_dir.parent().unwrap_or(&self.root)
    }

    /// Creates a cargo command that runs in the root.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        command
    }
}

/// Runs a command with our own output and returns its exit status.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus, XtaskError> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.status().map_err(XtaskError::of(format_args!("run {name}")))
}

/// Like [`status`], for commands that may hang on a network: after the timeout the command is stopped, which is an
/// error.
pub(crate) fn status_within(command: &mut Command, timeout: Duration) -> Result<ExitStatus, XtaskError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(XtaskError::of(format_args!("run {name}")))?;
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait().map_err(XtaskError::of(format_args!("wait for {name}")))? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill().and_then(|()| child.wait()).map_err(XtaskError::of(format_args!("end {name}")))?;
            return Err(XtaskError::Failed(format!(
                "`{name}` took longer than {} s and was stopped",
                timeout.as_secs()
            )));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_takes_too_long_is_stopped() {
        assert!(status_within(Command::new("true").arg("x"), Duration::from_secs(60)).unwrap().success());
        let failure = status_within(Command::new("sleep").arg("600"), Duration::ZERO).unwrap_err();
        assert!(matches!(failure, XtaskError::Failed(what) if what.contains("`sleep` took longer than 0 s")));
    }
}
