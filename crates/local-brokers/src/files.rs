//! A server's folder: its lock, its password, its log, and files that only their owner can read.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;

const LOG_MAX_BYTES: u64 = 16 * 1024 * 1024;
const TAIL_LINES: usize = 20;

/// The folder, created for us alone if it is missing, as an absolute path.
pub(crate) fn private_folder(path: &Path) -> Result<PathBuf, Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(Error::io("create", path))?;
    fs::canonicalize(path).map_err(Error::io("resolve", path))
}

/// A new folder in the system's temp folder that nobody prepared for us.
pub(crate) fn new_temporary_folder() -> Result<PathBuf, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("onceward-broker-{}-{number}", process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            // A dead process with our pid may have left it; the numbers end long before our patience does.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < u32::from(u16::MAX) => {}
            Err(error) => return Err(Error::io("create", &folder)(error)),
        }
    }
}

/// Makes us the folder's one owner for as long as the file stays open.
pub(crate) fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    let file = options.open(&path).map_err(Error::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { folder: folder.to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
    }
}

/// The folder's password: 24 bytes from the system's generator in hexadecimal, which every URL and file takes as it is.
pub(crate) fn password(folder: &Path) -> Result<String, Error> {
    let path = folder.join("password");
    match fs::read_to_string(&path) {
        Ok(password) if !password.is_empty() => return Ok(password),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::io("read", &path)(error)),
        _ => {}
    }
    let source = Path::new("/dev/urandom");
    let mut bytes = [0_u8; 24];
    let mut file = File::open(source).map_err(Error::io("open", source))?;
    file.read_exact(&mut bytes).map_err(Error::io("read", source))?;
    let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    write_private(&path, &password)?;
    Ok(password)
}

/// Writes a file that only we can read. Renamed into its place, so that nobody reads half of it.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    let unfinished = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&unfinished).map_err(Error::io("create", &unfinished))?;
    file.write_all(text.as_bytes()).map_err(Error::io("write", &unfinished))?;
    fs::rename(&unfinished, path).map_err(Error::io("rename", &unfinished))
}

/// The log of one start.
pub(crate) struct Log {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    start: u64,
}

impl Log {
    /// Opens it for appending; emptied first when it has grown too large.
    pub(crate) fn open(path: PathBuf) -> Result<Log, Error> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(&path).map_err(Error::io("open", &path))?;
        let mut start = file.metadata().map_err(Error::io("read", &path))?.len();
        if start > LOG_MAX_BYTES {
            file.set_len(0).map_err(Error::io("empty", &path))?;
            start = 0;
        }
        Ok(Log { path, file, start })
    }

    /// The last lines since it was opened.
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
        assert!(matches!(lock(&folder), Err(Error::InUse { .. })));
        drop(held);
        lock(&folder).unwrap();
        let first = password(&folder).unwrap();
        assert_eq!(first.len(), 48);
        assert_eq!(password(&folder).unwrap(), first);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_tail_is_of_this_start_only() {
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
