//! Prevents Debian's `postgresql` from creating a cluster on port 5432.

use std::fs;
use std::path::Path;

use super::root_commands::RootCommands;
use crate::error::XtaskError;

const CREATECLUSTER_CONF: &str = "/etc/postgresql-common/createcluster.conf";
const CREATECLUSTER_DIR: &str = "/etc/postgresql-common/createcluster.d";
const NO_MAIN_CLUSTER: &str = "/etc/postgresql-common/createcluster.d/onceward-no-main-cluster.conf";

/// The package creates and starts a cluster unless its configuration forbids it. While this guard is set, a drop-in
/// file forbids it; the file is removed afterwards, because later packages on the machine are not our concern.
pub(super) struct NoMainCluster<'a> {
    root: &'a RootCommands,
    folder_was_there: bool,
}

impl NoMainCluster<'_> {
    pub(super) fn set(root: &RootCommands) -> Result<NoMainCluster<'_>, XtaskError> {
        // A missing file is fine: the package installs one that reads the drop-in folder.
        if fs::read_to_string(CREATECLUSTER_CONF).is_ok_and(|conf| !reads_drop_ins(&conf)) {
            return Err(XtaskError::Failed(format!(
                "{CREATECLUSTER_CONF} does not include {CREATECLUSTER_DIR}, so installing `postgresql` could start a system \
                 server. Install it yourself: apt-get install postgresql"
            )));
        }
        let folder_was_there = Path::new(CREATECLUSTER_DIR).exists();
        root.run(&["mkdir", "-p", CREATECLUSTER_DIR])?;
        root.write(NO_MAIN_CLUSTER, "create_main_cluster = false\n")?;
        Ok(NoMainCluster { root, folder_was_there })
    }

    pub(super) fn lift(self) -> Result<(), XtaskError> {
        self.root.run(&["rm", "-f", NO_MAIN_CLUSTER])?;
        if !self.folder_was_there {
            self.root.run(&["rmdir", "--ignore-fail-on-non-empty", CREATECLUSTER_DIR])?;
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
