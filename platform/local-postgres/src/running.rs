//! Finds the database of a private server that another process runs.

use crate::{cluster_paths::existing_fallback, pidfile::PidFile, url};
use std::{fs, path::Path};

/// Returns the URL of `database` on the server that runs on the data folder `data`; `None` if none answers.
///
/// Creates nothing and starts nothing.
pub fn running_url(data: &Path, database: &str) -> Option<String> {
    let wanted = fs::canonicalize(data).ok()?;
    // Root's clusters may be kept elsewhere: see `ClusterPaths::resolve`.
    let existing = existing_fallback(&wanted);
    [Some(wanted), existing].into_iter().flatten().find_map(|base| {
        let file = PidFile::read(&base.join("pg")).filter(PidFile::is_listening)?;
        Some(url::socket(file.socket_dir.as_deref()?, file.port?, database))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_server_has_no_url() {
        assert_eq!(running_url(Path::new("/no/such/folder"), "onceward"), None);
        assert_eq!(running_url(&std::env::temp_dir(), "onceward"), None);
    }
}
