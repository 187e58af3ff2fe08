//! A small disk for one test, so that it may be filled.

use crate::{Scratch, left_out};
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

const STEPS_BYTES: [usize; 3] = [1 << 20, 1 << 12, 1];

/// A file system of fixed size in memory, mounted on the folder `data` of a scratch folder.
pub struct SmallDisk {
    scratch: Scratch,
}

impl SmallDisk {
    /// Mounts one, which requires root and, in a container, the privilege to mount. Returns `None` if
    /// `ONCEWARD_WITHOUT=small-disk` excludes it.
    pub fn mount(size_mb: u32) -> Option<Self> {
        if left_out("small-disk") {
            return None;
        }
        let scratch = Scratch::new();
        let folder = scratch.join("data");
        fs::create_dir(&folder).expect("our own folder");
        let options = format!("size={size_mb}m,mode=755");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&folder).output();
        let mounted = mounted.expect("the program `mount` is there");
        assert!(
            mounted.status.success(),
            "no small disk could be mounted ({}); run the tests as root, or leave this out with ONCEWARD_WITHOUT=small-disk",
            String::from_utf8_lossy(&mounted.stderr).trim()
        );
        Some(Self { scratch })
    }

    /// Returns the folder around it, which is on another disk.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Returns the disk's mount point.
    pub fn path(&self) -> PathBuf {
        self.scratch.join("data")
    }

    /// Fills all remaining space.
    pub fn fill(&self) {
        let mut filler = File::options().create(true).append(true).open(self.filler()).expect("the disk is writable");
        for step in STEPS_BYTES {
            let bytes = vec![0; step];
            while filler.write_all(&bytes).is_ok() {}
        }
    }

    /// Frees the space again.
    pub fn free(&self) {
        fs::remove_file(self.filler()).expect("the disk was filled");
    }

    fn filler(&self) -> PathBuf {
        Path::new(&self.path()).join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazy, because a server that is being killed may still use it.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
