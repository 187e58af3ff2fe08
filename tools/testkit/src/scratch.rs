//! A temporary folder for one test.

use std::{
    fs,
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// A folder in the temporary directory that is removed when this value is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty folder. Its name is short, because sockets may be created in it.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("ow-test-{}", Uuid::now_v7().simple()));
        fs::create_dir_all(&folder).expect("the temp folder is writable");
        Self(folder)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of an entry in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
