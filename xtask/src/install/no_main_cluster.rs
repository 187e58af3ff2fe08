//! Keeps Debian's `postgresql` from making a cluster on 5432.

use std::fs;
use std::path::Path;

use super::admin::Admin;
use crate::failure::Failure;

const CREATECLUSTER_CONF: &str = "/etc/postgresql-common/createcluster.conf";
const CREATECLUSTER_DIR: &str = "/etc/postgresql-common/createcluster.d";
const NO_MAIN_CLUSTER: &str = "/etc/postgresql-common/createcluster.d/onceward-no-main-cluster.conf";

/// The package makes and starts a cluster unless its configuration says otherwise. While this stands a drop-in file says
/// so; it goes again afterwards, because what the machine does with later packages is not our affair.
pub(super) struct NoMainCluster<'a> {
    admin: &'a Admin,
    folder_was_there: bool,
}

impl NoMainCluster<'_> {
    pub(super) fn set(admin: &Admin) -> Result<NoMainCluster<'_>, Failure> {
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

    pub(super) fn lift(self) -> Result<(), Failure> {
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
