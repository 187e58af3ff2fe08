//! Where the workspace and its build output are, and how to call cargo in it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::failure::Failure;

/// The folders that commands work in.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the root Cargo.toml.
    pub(crate) root: PathBuf,
    /// Where cargo puts this profile's binaries, ours among them: `target/debug`.
    pub(crate) bin_dir: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built from.
    pub(crate) fn find() -> Result<Workspace, Failure> {
        let manifest_dir =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let exe = env::current_exe().map_err(Failure::of("find this program's own path"))?;
        match (manifest_dir.parent(), exe.parent()) {
            (Some(root), Some(bin_dir)) => Ok(Workspace { root: root.to_path_buf(), bin_dir: bin_dir.to_path_buf() }),
            _ => Err(Failure::Failed("run this as `cargo xtask` inside the workspace".to_owned())),
        }
    }

    /// The build folder, wherever CARGO_TARGET_DIR or a configuration file has put it.
    pub(crate) fn target(&self) -> &Path {
        self.bin_dir.parent().unwrap_or(&self.root)
    }

    /// A cargo command in the root.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        command
    }
}

/// Runs a command with our own output and returns how it ended.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.status().map_err(Failure::of(format_args!("run {name}")))
}
