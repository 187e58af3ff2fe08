//! `<folder>/running`: which processes serve this folder, so that a later owner can find or end them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::files::write_private;
use crate::{Error, process};

/// A process, by its number and by what tells it from a later one with that number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) identity: String,
}

impl Member {
    /// `None` when it has ended already.
    pub(crate) fn of(pid: u32) -> Option<Member> {
        process::identity(pid).map(|identity| Member { pid, identity })
    }

    pub(crate) fn lives(&self) -> bool {
        process::identity(self.pid).as_ref() == Some(&self.identity)
    }
}

/// What the file says. No `Debug`: the URL carries the password.
pub(crate) struct Record {
    /// The process group that all of them are in.
    pub(crate) group: u32,
    /// The server itself.
    pub(crate) main: Member,
    /// What runs beside it.
    pub(crate) companion: Option<Member>,
    pub(crate) url: String,
}

impl Record {
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let member = |kind: &str, member: &Member| format!("{kind} {} {}\n", member.pid, member.identity);
        let mut text = format!("group {}\nurl {}\n", self.group, self.url) + &member("main", &self.main);
        text.extend(self.companion.as_ref().map(|companion| member("companion", companion)));
        write_private(&path(folder), &text)
    }

    /// `None` when there is none; one that cannot be understood is as good as none.
    pub(crate) fn read(folder: &Path) -> Result<Option<Record>, Error> {
        match fs::read_to_string(path(folder)) {
            Ok(text) => Ok(Record::parse(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path(folder))(error)),
        }
    }

    pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
        match fs::remove_file(path(folder)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", &path(folder))(error)),
            _ => Ok(()),
        }
    }

    fn parse(text: &str) -> Option<Record> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        let member = |key: &str| {
            let (pid, identity) = value(key)?.split_once(' ')?;
            Some(Member { pid: pid.parse().ok()?, identity: identity.to_owned() })
        };
        Some(Record {
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
    fn what_was_written_is_read_and_nobody_else_can_read_it() {
        let folder = new_temporary_folder().unwrap();
        assert!(Record::read(&folder).unwrap().is_none());
        let main = Member { pid: 7, identity: "boot/Mon Jan 1".to_owned() };
        let companion = Some(Member { pid: 6, identity: "boot/2".to_owned() });
        Record { group: 6, main: main.clone(), companion: companion.clone(), url: "x://y".to_owned() }
            .write(&folder)
            .unwrap();
        assert_eq!(fs::metadata(path(&folder)).unwrap().mode() & 0o777, 0o600);
        let read = Record::read(&folder).unwrap().expect("it was written");
        assert_eq!((read.group, read.main, read.companion, read.url.as_str()), (6, main, companion, "x://y"));
        Record::remove(&folder).unwrap();
        Record::remove(&folder).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
