//! The account that the server runs as. PostgreSQL refuses to run as root, so root uses an unprivileged account.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::LocalPostgresError;

/// The account that PostgreSQL's programs run as and that owns their folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerAccount {
    uid: u32,
    gid: u32,
    /// Whether this is not our own account, which only root can arrange.
    borrowed: bool,
}

impl ServerAccount {
    /// Returns our own account or, when we are root, the owner of the existing cluster, then `postgres`, then `nobody`.
    /// Fails if none of them exists.
    pub(crate) fn for_cluster(pg_dir: &Path) -> Result<ServerAccount, LocalPostgresError> {
        let uid = id("-u")?;
        if uid != 0 {
            return Ok(ServerAccount { uid, gid: id("-g")?, borrowed: false });
        }
        if let Ok(metadata) = fs::metadata(pg_dir)
            && metadata.uid() != 0
        {
            return Ok(ServerAccount { uid: metadata.uid(), gid: metadata.gid(), borrowed: true });
        }
        let passwd =
            fs::read_to_string("/etc/passwd").map_err(LocalPostgresError::io("read", Path::new("/etc/passwd")))?;
        let found = ["postgres", "nobody"].iter().find_map(|name| lookup(&passwd, name));
        found.map(|(uid, gid)| ServerAccount { uid, gid, borrowed: true }).ok_or(LocalPostgresError::NoAccount)
    }

    /// Whether this is not our own account.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.borrowed
    }

    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns a command that runs as this account, with English messages and without the caller's PG* variables.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").current_dir("/").stdin(Stdio::null());
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        if self.borrowed {
            // Root's supplementary groups are dropped too: std clears them when root sets a uid.
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// Changes the owner of `path` to this account; a no-op when it is our own.
    pub(crate) fn own(&self, path: &Path) -> Result<(), LocalPostgresError> {
        if self.borrowed {
            chown(path, Some(self.uid), Some(self.gid)).map_err(LocalPostgresError::io("change the owner of", path))?;
        }
        Ok(())
    }

    /// Whether this account can enter a folder. Tests it by trying, so that ACLs and mounts count.
    pub(crate) fn can_enter(&self, folder: &Path, any_program: &Path) -> bool {
        !self.borrowed
            || self
                .command(any_program)
                .arg("--version")
                .current_dir(folder)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
    }
}

/// Returns one of our own effective ids. std has no call for it, but POSIX has a program.
fn id(flag: &str) -> Result<u32, LocalPostgresError> {
    let output = Command::new("id").arg(flag).output().map_err(LocalPostgresError::io("run", Path::new("id")))?;
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .map_err(|_| LocalPostgresError::ProgramFailed { program: format!("id {flag}"), output: format!("{output:?}") })
}

fn lookup(passwd: &str, name: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        // An account that is root under another name would not help.
        (uid != 0).then_some((uid, gid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
                          postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash\n\
                          nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        assert_eq!(lookup(PASSWD, "postgres"), Some((101, 104)));
        assert_eq!(lookup(PASSWD, "post"), None);
    }

    #[test]
    fn an_account_with_roots_id_is_not_accepted() {
        assert_eq!(lookup(PASSWD, "root"), None);
    }
}
