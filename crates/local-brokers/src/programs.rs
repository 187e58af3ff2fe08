//! Looking for programs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::broker::Place;

/// The first folder of `first`, then of PATH, that holds this program.
pub(crate) fn find(name: &str, first: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = first.iter().map(PathBuf::from).chain(env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// A command that runs in the server's folder, without variables that begin like those that would configure another one.
pub(crate) fn command(program: &Path, place: &Place, foreign_prefixes: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(&place.folder).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if foreign_prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}
