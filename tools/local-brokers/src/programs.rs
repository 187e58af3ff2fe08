//! Finding and running programs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::broker::ServerInstance;

/// Returns the path of a program, searched in `first`, then in PATH.
pub(crate) fn find(name: &str, first: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = first.iter().map(PathBuf::from).chain(env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// A command that runs in the server's folder, without environment variables that start with one of the prefixes.
pub(crate) fn command(program: &Path, instance: &ServerInstance, foreign_prefixes: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(&instance.folder).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if foreign_prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}
