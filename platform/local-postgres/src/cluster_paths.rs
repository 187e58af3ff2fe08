//! The folders of a cluster: below the requested one if the server's account can enter it, otherwise below a fallback
//! that is the same at every start.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::account::ServerAccount;
use crate::folders::{hash, owned_folder};
use crate::{LocalPostgresError, Programs};

/// sun_path holds 108 bytes on Linux and 104 on macOS, including the terminating zero.
const SOCKET_PATH_MAX: usize = 103;
/// The longest file name that PostgreSQL uses for a socket.
const SOCKET_NAME_MAX: usize = "/.s.PGSQL.65535".len();

/// Where root keeps clusters whose requested folder is closed to the server's account.
const FALLBACK_ROOT: &str = "/var/lib/onceward";
/// Where they were kept in the past; a cluster that is still there is used.
const OLD_FALLBACK_ROOT: &str = "/var/tmp";

/// The folders of one cluster and the account that owns them.
#[derive(Debug, Clone)]
pub(crate) struct ClusterPaths {
    pub(crate) base: PathBuf,
    pub(crate) account: ServerAccount,
    /// The requested folder, if the account cannot enter it and `base` is used instead.
    pub(crate) closed: Option<PathBuf>,
}

impl ClusterPaths {
    /// Finds the paths that belongs to a requested data folder and creates what is missing of it.
    ///
    /// Root may request a folder that the server's account cannot enter (below /root, for example). Then the data is
    /// kept in `/var/lib/onceward/<hash of the requested path>`: the same at every start, so nothing has to remember
    /// it. A cluster created there is used even after the requested folder was opened, because otherwise its data would
    /// seem to be lost.
    pub(crate) fn resolve(programs: &Programs, wanted: &Path) -> Result<ClusterPaths, LocalPostgresError> {
        create_data_folder(wanted)?;
        let wanted = fs::canonicalize(wanted).map_err(LocalPostgresError::io("resolve", wanted))?;
        let account = ServerAccount::for_cluster(&wanted.join("pg"))?;
        let existing = existing_fallback(&wanted).filter(|_| !has_cluster(&wanted) && account.is_borrowed());
        if existing.is_none() && account.can_enter(&wanted, &programs.program("postgres")) {
            return Ok(ClusterPaths { base: wanted, account, closed: None });
        }
        let base = existing.unwrap_or_else(|| fallback(&wanted));
        create_data_folder(Path::new(FALLBACK_ROOT))?;
        create_data_folder(&base)?;
        // A borrowed account means that we are root, and then the folder must belong to root.
        if !is_roots_folder(&base) {
            return Err(LocalPostgresError::ForeignFolder { path: base });
        }
        let account = ServerAccount::for_cluster(&base.join("pg"))?;
        Ok(ClusterPaths { base, account, closed: Some(wanted) })
    }

    pub(crate) fn pg(&self) -> PathBuf {
        self.base.join("pg")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.base.join("lock")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.base.join("pg.log")
    }

    pub(crate) fn password(&self) -> PathBuf {
        self.base.join("password")
    }

    /// Creates and returns the socket's folder: next to the cluster, or a short one in the system's temp folder.
    pub(crate) fn socket_dir(&self, programs: &Programs) -> Result<PathBuf, LocalPostgresError> {
        let beside = self.base.join("socket");
        if fits(&beside) {
            owned_folder(&beside, 0o700, &self.account)?;
            return Ok(beside);
        }
        let name = format!("onceward-{}", hash(&self.base));
        let temp = env::temp_dir();
        let usable = fits(&temp.join(&name)) && self.account.can_enter(&temp, &programs.program("postgres"));
        let folder = if usable { temp.join(name) } else { Path::new("/tmp").join(name) };
        owned_folder(&folder, 0o700, &self.account)?;
        Ok(folder)
    }
}

/// Returns where root keeps the cluster of a folder (its canonical path) that the server's account cannot enter.
fn fallback(wanted: &Path) -> PathBuf {
    Path::new(FALLBACK_ROOT).join(hash(wanted))
}

/// Returns the fallback folder that already holds the cluster of a requested folder (its canonical path), if any.
///
/// Anybody can create a folder with the expected name in /var/tmp, so a folder that does not belong to root is ignored.
pub(crate) fn existing_fallback(wanted: &Path) -> Option<PathBuf> {
    let old_fallback = Path::new(OLD_FALLBACK_ROOT).join(format!("onceward-{}", hash(wanted)));
    [fallback(wanted), old_fallback].into_iter().find(|base| is_roots_folder(base) && has_cluster(base))
}

fn is_roots_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == 0)
}

/// Whether a socket in this folder has a path that the kernel and the configuration file both accept unchanged.
fn fits(folder: &Path) -> bool {
    let bytes = folder.as_os_str().as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+@~".contains(byte);
    bytes.len() + SOCKET_NAME_MAX <= SOCKET_PATH_MAX && bytes.iter().all(plain)
}

/// Creates the data folder. Others can enter it, because the server may run as another account, but not its contents.
fn create_data_folder(path: &Path) -> Result<(), LocalPostgresError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(LocalPostgresError::io("create", parent))?;
    }
    match fs::DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(LocalPostgresError::NotAFolder { path: path.to_path_buf() })
        }
        Err(error) => Err(LocalPostgresError::io("create", path)(error)),
    }
}

fn has_cluster(base: &Path) -> bool {
    base.join("pg/PG_VERSION").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_folder_must_be_short_and_plain() {
        assert!(fits(Path::new("/srv/app/.onceward/socket")));
        assert!(!fits(Path::new("/with space/socket")));
        assert!(!fits(Path::new(&format!("/{}", "long".repeat(30)))));
    }
}
