//! Finds PostgreSQL's server programs, which most distributions do not put on PATH.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::LocalPostgresError;

const NEEDED: [&str; 3] = ["initdb", "postgres", "pg_ctl"];
const OLDEST_MAJOR: u32 = 15;

/// A folder with `initdb`, `postgres` and `pg_ctl` of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// The folder.
    pub bin_dir: PathBuf,
    /// Major and minor version.
    pub version: (u32, u32),
}

impl Programs {
    /// Searches `ONCEWARD_PG_BIN`, then PATH, then the folders of Debian, Homebrew and Fedora/PGDG, highest version
    /// first.
    ///
    /// `ONCEWARD_PG_BIN` is binding: if it is set and unusable, the call fails.
    pub fn find() -> Result<Programs, LocalPostgresError> {
        if let Some(folder) = named_by_environment() {
            return Programs::inspect(&folder)
                .map_err(|why| LocalPostgresError::ProgramsUnusable { bin_dir: folder, why });
        }
        let mut rejected = Vec::new();
        for folder in path_folders() {
            match Programs::inspect(&folder) {
                Ok(programs) => return Ok(programs),
                Err(why) => rejected.push(format!("{}: {why}", folder.display())),
            }
        }
        let (known, rejected_known) = known_programs();
        rejected.extend(rejected_known);
        known.into_iter().next().ok_or(LocalPostgresError::ProgramsMissing { rejected })
    }

    /// Returns the full path of one of the programs, such as `psql`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// Returns these or other installed programs of that major version: a cluster outlives a distribution's upgrade.
    pub(crate) fn of_major(&self, major: u32) -> Option<Programs> {
        if self.version.0 == major {
            return Some(self.clone());
        }
        if named_by_environment().is_some() {
            return None;
        }
        known_programs().0.into_iter().find(|programs| programs.version.0 == major)
    }

    fn inspect(bin_dir: &Path) -> Result<Programs, String> {
        if let Some(missing) = NEEDED.iter().find(|name| !bin_dir.join(name).is_file()) {
            return Err(format!("`{missing}` is missing"));
        }
        let output = Command::new(bin_dir.join("postgres"))
            .arg("--version")
            .output()
            .map_err(|error| format!("`postgres --version` cannot be run: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = parse_version(&text).ok_or_else(|| format!("`postgres --version` says {:?}", text.trim_end()))?;
        if version.0 < OLDEST_MAJOR {
            return Err(format!("version {}.{} is older than {OLDEST_MAJOR}", version.0, version.1));
        }
        Ok(Programs { bin_dir: bin_dir.to_path_buf(), version })
    }
}

fn named_by_environment() -> Option<PathBuf> {
    env::var_os("ONCEWARD_PG_BIN").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns the folders of PATH that contain an `initdb`; if that is a link, also the folder of its target.
fn path_folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = Vec::new();
    for folder in env::split_paths(&path).filter(|folder| folder.is_absolute()) {
        let initdb = folder.join("initdb");
        if !initdb.is_file() {
            continue;
        }
        if let Some(real) = fs::canonicalize(&initdb).ok().and_then(|file| file.parent().map(Path::to_path_buf)) {
            folders.push(real);
        }
        folders.push(folder);
    }
    folders
}

/// Returns the usable programs in the usual folders, highest version first, and the reasons against the others.
fn known_programs() -> (Vec<Programs>, Vec<String>) {
    let mut found = Vec::new();
    let mut rejected = Vec::new();
    for folder in known_folders() {
        match Programs::inspect(&folder) {
            Ok(programs) => found.push(programs),
            Err(why) => rejected.push(format!("{}: {why}", folder.display())),
        }
    }
    found.sort_by_key(|programs| std::cmp::Reverse(programs.version));
    (found, rejected)
}

fn known_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for (parent, prefix) in [
        ("/usr/lib/postgresql", ""),
        ("/opt/homebrew/opt", "postgresql"),
        ("/usr/local/opt", "postgresql"),
        ("/usr", "pgsql-"),
    ] {
        let Ok(entries) = fs::read_dir(parent) else {
            continue;
        };
        for entry in entries.flatten() {
            let bin = entry.path().join("bin");
            // A client-only package leaves a bin folder without a server; that is not worth reporting.
            if entry.file_name().to_string_lossy().starts_with(prefix) && bin.join("postgres").is_file() {
                folders.push(bin);
            }
        }
    }
    folders
}

/// Parses `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` → (15, 18); `18beta1` → (18, 0).
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let version = text.split_once("(PostgreSQL)")?.1.split_whitespace().next()?;
    let number = |part: &str| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    };
    let mut parts = version.split('.');
    let major = number(parts.next()?)?;
    Some((major, parts.next().and_then(number).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_releases_betas_and_distributions_are_read() {
        assert_eq!(parse_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some((15, 18)));
        assert_eq!(parse_version("postgres (PostgreSQL) 18beta1\n"), Some((18, 0)));
        assert_eq!(parse_version("postgres (PostgreSQL) 17.0\n"), Some((17, 0)));
        assert_eq!(parse_version("something else 9.1"), None);
    }

    #[test]
    fn a_folder_without_the_programs_is_rejected_by_name() {
        let why = Programs::inspect(Path::new("/nonexistent")).unwrap_err();
        assert_eq!(why, "`initdb` is missing");
    }
}
