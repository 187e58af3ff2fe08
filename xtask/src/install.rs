//! Installing Debian packages, without ever starting a system server by the way.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use onceward_local_postgres::Programs;

use crate::failure::Failure;
use crate::workspace::status;

const UPDATE_ATTEMPTS: u32 = 3;
const CREATECLUSTER_CONF: &str = "/etc/postgresql-common/createcluster.conf";
const CREATECLUSTER_DIR: &str = "/etc/postgresql-common/createcluster.d";
const NO_MAIN_CLUSTER: &str = "/etc/postgresql-common/createcluster.d/onceward-no-main-cluster.conf";

/// PostgreSQL's server programs, installed first if the machine has none and can be asked to.
pub(crate) fn postgres() -> Result<Programs, Failure> {
    let missing = match Programs::find() {
        Ok(programs) => return Ok(programs),
        Err(error) => error,
    };
    if std::env::var_os("ONCEWARD_PG_BIN").is_some_and(|folder| !folder.is_empty()) {
        return Err(missing.into());
    }
    let Some(admin) = Admin::find() else {
        return Err(missing.into());
    };
    let guard = NoMainCluster::set(&admin)?;
    let installed = admin.install(&["postgresql"]);
    guard.lift()?;
    installed?;
    Ok(Programs::find()?)
}

/// The right to install packages: we are root, or sudo works without a password.
struct Admin {
    prefix: &'static [&'static str],
}

impl Admin {
    fn find() -> Option<Admin> {
        if !Path::new("/usr/bin/apt-get").exists() {
            return None;
        }
        let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0");
        if root {
            return Some(Admin { prefix: &[] });
        }
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "true"]).stdin(Stdio::null()).stderr(Stdio::null());
        sudo.status().is_ok_and(|status| status.success()).then_some(Admin { prefix: &["sudo", "-n"] })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut all = self.prefix.iter().chain(words);
        let mut command = Command::new(all.next().copied().unwrap_or("true"));
        // Our stdout may be JSON that a program reads.
        command.args(all).stdin(Stdio::null()).stdout(io::stderr());
        command
    }

    fn run(&self, words: &[&str]) -> Result<(), Failure> {
        if status(&mut self.command(words))?.success() {
            return Ok(());
        }
        Err(Failure::Failed(format!("`{}` failed; its output is above", words.join(" "))))
    }

    fn apt_get(&self, words: &[&str]) -> Result<(), Failure> {
        // Through `env`, because sudo drops variables. The lock may be held by the machine's own daily update.
        let apt_get = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"];
        self.run(&[&apt_get, words].concat())
    }

    fn install(&self, packages: &[&str]) -> Result<(), Failure> {
        eprintln!("installing Debian packages: {}", packages.join(" "));
        let mut attempt = 1;
        while let Err(failure) = self.apt_get(&["-o", "Acquire::Retries=3", "update"]) {
            if attempt == UPDATE_ATTEMPTS {
                return Err(failure);
            }
            attempt += 1;
        }
        self.apt_get(&[&["-o", "Acquire::Retries=3", "install", "-y", "--no-install-recommends"], packages].concat())
    }

    fn write(&self, path: &str, text: &str) -> Result<(), Failure> {
        let mut command = self.command(&["tee", path]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map_err(Failure::of("run tee"))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(text.as_bytes()).map_err(Failure::of(format_args!("write {path}")))?;
        }
        let ended = child.wait().map_err(Failure::of("wait for tee"))?;
        if ended.success() { Ok(()) } else { Err(Failure::Failed(format!("could not write {path}"))) }
    }
}

/// Debian's package makes and starts a cluster on 5432 unless its configuration says otherwise. While this stands a
/// drop-in file says so; it goes again afterwards, because what the machine does with later packages is not our affair.
struct NoMainCluster<'a> {
    admin: &'a Admin,
    folder_was_there: bool,
}

impl NoMainCluster<'_> {
    fn set(admin: &Admin) -> Result<NoMainCluster<'_>, Failure> {
        // Absent is fine: the package brings one that reads the drop-in folder.
        if fs::read_to_string(CREATECLUSTER_CONF).is_ok_and(|conf| !reads_drop_ins(&conf)) {
            return Err(Failure::Failed(format!(
                "{CREATECLUSTER_CONF} does not include {CREATECLUSTER_DIR}, so installing `postgresql` could start a system \
                 server. Install it yourself: apt-get install postgresql"
            )));
        }
        let folder_was_there = Path::new(CREATECLUSTER_DIR).exists();
        admin.run(&["mkdir", "-p", CREATECLUSTER_DIR])?;
        admin.write(NO_MAIN_CLUSTER, "create_main_cluster = false\n")?;
        Ok(NoMainCluster { admin, folder_was_there })
    }

    fn lift(self) -> Result<(), Failure> {
        self.admin.run(&["rm", "-f", NO_MAIN_CLUSTER])?;
        if !self.folder_was_there {
            self.admin.run(&["rmdir", "--ignore-fail-on-non-empty", CREATECLUSTER_DIR])?;
        }
        Ok(())
    }
}

fn reads_drop_ins(conf: &str) -> bool {
    conf.lines().any(|line| line.trim_start().starts_with("include_dir") && line.contains("createcluster.d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_active_include_counts() {
        assert!(reads_drop_ins("# a comment\ninclude_dir '/etc/postgresql-common/createcluster.d'\n"));
        assert!(!reads_drop_ins("#include_dir '/etc/postgresql-common/createcluster.d'\n"));
    }
}
