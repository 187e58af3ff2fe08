//! `<folder>/running`: the processes that serve this folder, so that a later owner can find or stop them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::files::write_private;
use crate::{LocalBrokerError, process};

/// A process: its pid, and the identity that distinguishes it from a later process with the same pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    pub(crate) identity: String,
}

impl ProcessId {
    /// Returns `None` if it has ended already.
    pub(crate) fn of(pid: u32) -> Option<ProcessId> {
        process::identity(pid).map(|identity| ProcessId { pid, identity })
    }

    pub(crate) fn is_running(&self) -> bool {
        process::identity(self.pid).as_ref() == Some(&self.identity)
    }
}

/// The content of the file. No `Debug`: the URL contains the password.
pub(crate) struct ProcessRecord {
    /// The process group of all of them.
    pub(crate) group: u32,
    /// The server itself.
    pub(crate) main: ProcessId,
    /// The helper process beside it.
    pub(crate) companion: Option<ProcessId>,
    pub(crate) url: String,
}

impl ProcessRecord {
    pub(crate) fn write(&self, folder: &Path) -> Result<(), LocalBrokerError> {
        let member = |kind: &str, member: &ProcessId| format!("{kind} {} {}\n", member.pid, member.identity);
        let mut text = format!("group {}\nurl {}\n", self.group, self.url) + &member("main", &self.main);
        text.extend(self.companion.as_ref().map(|companion| member("companion", companion)));
        write_private(&path(folder), &text)
    }

    /// Returns `None` if there is none, or if it cannot be parsed.
    pub(crate) fn read(folder: &Path) -> Result<Option<ProcessRecord>, LocalBrokerError> {
        match fs::read_to_string(path(folder)) {
            Ok(text) => Ok(ProcessRecord::parse(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LocalBrokerError::io("read", &path(folder))(error)),
        }
    }

    pub(crate) fn remove(folder: &Path) -> Result<(), LocalBrokerError> {
        match fs::remove_file(path(folder)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(LocalBrokerError::io("remove", &path(folder))(error))
            }
            _ => Ok(()),
        }
    }

    fn parse(text: &str) -> Option<ProcessRecord> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        let member = |key: &str| {
            let (pid, identity) = value(key)?.split_once(' ')?;
            Some(ProcessId { pid: pid.parse().ok()?, identity: identity.to_owned() })
        };
        Some(ProcessRecord {
            group: value("group")?.parse().ok()?,
            main: member("main")?,
            companion: member("companion"),
            url: value("url")?.to_owned(),
        })
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("running")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::new_temporary_folder;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_record_round_trips_and_only_its_owner_can_read_it() {
        let folder = new_temporary_folder().unwrap();
        assert!(ProcessRecord::read(&folder).unwrap().is_none());
        let main = ProcessId { pid: 7, identity: "boot/Mon Jan 1".to_owned() };
        let companion = Some(ProcessId { pid: 6, identity: "boot/2".to_owned() });
        ProcessRecord { group: 6, main: main.clone(), companion: companion.clone(), url: "x://y".to_owned() }
            .write(&folder)
            .unwrap();
        assert_eq!(fs::metadata(path(&folder)).unwrap().mode() & 0o777, 0o600);
        let read = ProcessRecord::read(&folder).unwrap().expect("the record exists");
        assert_eq!((read.group, read.main, read.companion, read.url.as_str()), (6, main, companion, "x://y"));
        ProcessRecord::remove(&folder).unwrap();
        ProcessRecord::remove(&folder).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
