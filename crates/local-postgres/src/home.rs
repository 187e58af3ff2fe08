//! Where a cluster lives: the wanted folder where that works, a predictable other one where it cannot.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::folders::{hash, owned_folder};
use crate::{Error, Programs};

/// sun_path holds 108 bytes on Linux and 104 on macOS, with the closing zero.
const SOCKET_PATH_MAX: usize = 103;
/// The longest name PostgreSQL gives a socket in its folder.
const SOCKET_NAME_MAX: usize = "/.s.PGSQL.65535".len();

/// The folders of one cluster and the account that owns them.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    pub(crate) base: PathBuf,
    pub(crate) account: Account,
}

impl Home {
    /// Finds the home that belongs to a wanted data folder and creates what is missing of it.
    ///
    /// Root may keep the data where the server's account cannot go (below /root, say). Then it is
    /// `/var/tmp/onceward-<hash of the wanted path>`: the same at every start, so nothing has to remember it.
    pub(crate) fn settle(programs: &Programs, wanted: &Path) -> Result<Home, Error> {
        create_data_folder(wanted)?;
        let wanted = fs::canonicalize(wanted).map_err(Error::io("resolve", wanted))?;
        let account = Account::for_cluster(&wanted.join("pg"))?;
        if account.can_enter(&wanted, &programs.program("postgres")) {
            return Ok(Home { base: wanted, account });
        }
        let base = Path::new("/var/tmp").join(format!("onceward-{}", hash(&wanted)));
        create_data_folder(&base)?;
        let metadata = fs::symlink_metadata(&base).map_err(Error::io("read", &base))?;
        // A borrowed account means that we are root: in a shared place, only root's own folder will do.
        if !metadata.is_dir() || metadata.uid() != 0 {
            return Err(Error::ForeignFolder { path: base });
        }
        let account = Account::for_cluster(&base.join("pg"))?;
        Ok(Home { base, account })
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

    /// The socket's folder, created: next to the cluster, or a short one in the system's temp folder.
    pub(crate) fn socket_dir(&self, programs: &Programs) -> Result<PathBuf, Error> {
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

/// Whether a socket in this folder has a path that the kernel and the configuration file both take as it is.
fn fits(folder: &Path) -> bool {
    let bytes = folder.as_os_str().as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+@~".contains(byte);
    bytes.len() + SOCKET_NAME_MAX <= SOCKET_PATH_MAX && bytes.iter().all(plain)
}

/// The data folder can be entered by others, because the server may run as another account; what it holds cannot.
fn create_data_folder(path: &Path) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    }
    match fs::DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io("create", path)(error)),
    }
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
