//! A throw-away data folder and a helper to query the server.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use onceward_local_postgres::{Cluster, ClusterOptions, Programs};

/// A folder below the temp folder that is removed with the test.
pub struct TempFolder(PathBuf);

impl TempFolder {
    pub fn new() -> TempFolder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ow-lp-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("the temp folder is writable");
        TempFolder(folder)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn programs() -> Programs {
    Programs::find().expect("PostgreSQL's programs are installed (cargo xtask services up installs them)")
}

/// Fast settings, because these clusters hold nothing worth keeping.
pub fn options() -> ClusterOptions {
    let settings = [("fsync", "off"), ("shared_buffers", "16MB"), ("max_connections", "10")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    ClusterOptions { settings, port: None }
}

pub fn start(data: &Path) -> Cluster {
    Cluster::start(&programs(), data, options()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns one statement's result as text.
pub fn query(url: &str, sql: &str) -> String {
    let output = Command::new(programs().program("psql"))
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "-v", "ON_ERROR_STOP=1", "-c", sql, url])
        .output()
        .expect("psql runs");
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
