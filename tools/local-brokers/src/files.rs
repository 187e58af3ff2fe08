//! A server's folder: its lock, password and log, and files that only their owner can read.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::LocalBrokerError;

const LOG_MAX_BYTES: u64 = 16 * 1024 * 1024;
const TAIL_LINES: usize = 20;

/// Returns the folder as an absolute path. Creates it for this user only if it is missing.
pub(crate) fn private_folder(path: &Path) -> Result<PathBuf, LocalBrokerError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(LocalBrokerError::io("create", path))?;
    fs::canonicalize(path).map_err(LocalBrokerError::io("resolve", path))
}

/// Creates a new folder in the system's temp folder; never reuses an existing one.
pub(crate) fn new_temporary_folder() -> Result<PathBuf, LocalBrokerError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("onceward-broker-{}-{number}", process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            // A dead process with our pid may have left it; the number of attempts is limited.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < u32::from(u16::MAX) => {}
            Err(error) => return Err(LocalBrokerError::io("create", &folder)(error)),
        }
    }
}

/// Locks the folder for as long as the file stays open. Fails with [`LocalBrokerError::InUse`] if another process holds the lock.
pub(crate) fn lock(folder: &Path) -> Result<File, LocalBrokerError> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    let file = options.open(&path).map_err(LocalBrokerError::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LocalBrokerError::InUse { folder: folder.to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(LocalBrokerError::io("lock", &path)(error)),
    }
}

/// Returns the folder's password: 24 random bytes in hexadecimal, which need no escaping in URLs and files.
pub(crate) fn password(folder: &Path) -> Result<String, LocalBrokerError> {
    let path = folder.join("password");
    match fs::read_to_string(&path) {
        Ok(password) if !password.is_empty() => return Ok(password),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(LocalBrokerError::io("read", &path)(error)),
        _ => {}
    }
    let source = Path::new("/dev/urandom");
    let mut bytes = [0_u8; 24];
    let mut file = File::open(source).map_err(LocalBrokerError::io("open", source))?;
    file.read_exact(&mut bytes).map_err(LocalBrokerError::io("read", source))?;
    let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    write_private(&path, &password)?;
    Ok(password)
}

/// Writes a file that only this user can read. Renames it into place, so that readers never see a partial file.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), LocalBrokerError> {
    let unfinished = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&unfinished).map_err(LocalBrokerError::io("create", &unfinished))?;
    file.write_all(text.as_bytes()).map_err(LocalBrokerError::io("write", &unfinished))?;
    fs::rename(&unfinished, path).map_err(LocalBrokerError::io("rename", &unfinished))
}

/// The log of one start.
pub(crate) struct Log {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    start: u64,
}

impl Log {
    /// Opens it for appending; truncates it first if it has grown too large.
    pub(crate) fn open(path: PathBuf) -> Result<Log, LocalBrokerError> {
        let mut options = OpenOptions::new();
        let file =
            options.create(true).append(true).mode(0o600).open(&path).map_err(LocalBrokerError::io("open", &path))?;
        let mut start = file.metadata().map_err(LocalBrokerError::io("read", &path))?.len();
        if start > LOG_MAX_BYTES {
            file.set_len(0).map_err(LocalBrokerError::io("empty", &path))?;
            start = 0;
        }
        Ok(Log { path, file, start })
    }

    /// Returns the last lines since it was opened.
    pub(crate) fn tail(&self) -> String {
        let mut text = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.start))?;
            file.take(LOG_MAX_BYTES).read_to_end(&mut text)
        });
        if read.is_err() {
            return String::new();
        }
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_and_one_password() {
        let folder = new_temporary_folder().unwrap();
        let held = lock(&folder).unwrap();
        assert!(matches!(lock(&folder), Err(LocalBrokerError::InUse { .. })));
        drop(held);
        lock(&folder).unwrap();
        let first = password(&folder).unwrap();
        assert_eq!(first.len(), 48);
        assert_eq!(password(&folder).unwrap(), first);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_tail_covers_only_this_start() {
        let folder = new_temporary_folder().unwrap();
        let path = folder.join("log");
        fs::write(&path, "an earlier start\n").unwrap();
        let mut log = Log::open(path).unwrap();
        let lines: String = (1..=30).map(|number| format!("line {number}\n")).collect();
        log.file.write_all(lines.as_bytes()).unwrap();
        let tail = log.tail();
        assert!(tail.starts_with("line 11\n") && tail.ends_with("line 30"), "{tail}");
        fs::remove_dir_all(folder).unwrap();
    }
}
