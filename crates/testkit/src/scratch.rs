//! A folder of a test's own.

use std::{
    fs,
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// A folder below the temp folder that goes away with this value.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty one. Its name is short, because sockets may lie in it.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("ow-test-{}", Uuid::now_v7().simple()));
        fs::create_dir_all(&folder).expect("the temp folder is writable");
        Self(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of something in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
