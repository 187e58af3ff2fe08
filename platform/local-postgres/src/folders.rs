//! Creates folders with the right mode and owner, and rejects folders that another account prepared.

use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::LocalPostgresError;
use crate::account::ServerAccount;

/// Creates the folder with this mode for the account if it is missing; an existing one gets the mode.
///
/// In a shared place such as /tmp the name can be guessed, so a folder of another owner, or a link, is an error.
pub(crate) fn owned_folder(path: &Path, mode: u32, account: &ServerAccount) -> Result<(), LocalPostgresError> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => account.own(path)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(LocalPostgresError::io("create", path)(error)),
    }
    let metadata = fs::symlink_metadata(path).map_err(LocalPostgresError::io("read", path))?;
    if !metadata.is_dir() || metadata.uid() != account.uid() {
        return Err(LocalPostgresError::ForeignFolder { path: path.to_path_buf() });
    }
    // The umask may have cleared some bits.
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(LocalPostgresError::io("set the mode of", path))
}

/// Returns a short name for a path, the same in every run and release: FNV-1a, because std's hasher guarantees neither.
pub(crate) fn hash(path: &Path) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in path.as_os_str().as_bytes() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a_and_so_never_changes() {
        assert_eq!(hash(Path::new("a")), "af63dc4c8601ec8c");
        assert_ne!(hash(Path::new("/a")), hash(Path::new("/b")));
    }
}
