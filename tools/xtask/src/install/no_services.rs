//! Prevents Debian's packages from starting the system services that they install.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::root_commands::RootCommands;
use crate::error::XtaskError;

/// Debian's hook: packages call it with unit and action before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const FORBIDDEN: i32 = 101;
const MARK: &str = "# Only while `cargo xtask` of onceward installs packages.";

/// While this guard is set, installing a package does not start its services. Other services are not affected.
pub(super) struct NoServices<'a> {
    root: &'a RootCommands,
    units: Vec<&'a str>,
    policy_is_ours: bool,
}

impl NoServices<'_> {
    /// Applies to those of `units` that the machine does not have yet: an existing one may be running, and wanted.
    pub(super) fn set<'a>(root: &'a RootCommands, units: &[&'a str]) -> Result<NoServices<'a>, XtaskError> {
        let units: Vec<&str> = units.iter().filter(|unit| !is_known(unit)).copied().collect();
        // The file is ours if an earlier run was interrupted.
        let free = fs::read_to_string(POLICY).map_or(!Path::new(POLICY).exists(), |text| text.contains(MARK));
        if free && !units.is_empty() {
            root.write(POLICY, &policy(&units))?;
            root.run(&["chmod", "755", POLICY])?;
            return Ok(NoServices { root, units, policy_is_ours: true });
        }
        // We must not change a foreign policy; that of a container usually forbids everything.
        match units.iter().find(|unit| !forbids_start(unit)) {
            None => Ok(NoServices { root, units, policy_is_ours: false }),
            Some(unit) => Err(XtaskError::Failed(format!(
                "{POLICY} lets {unit} start as soon as it is installed. Install its package yourself with apt-get, and \
                 stop the service if you do not want it"
            ))),
        }
    }

    /// Removes the policy and disables the services, because packages enable theirs for the machine's next start.
    pub(super) fn lift(self) -> Result<(), XtaskError> {
        if self.policy_is_ours {
            self.root.run(&["rm", "-f", POLICY])?;
        }
        let installed: Vec<&str> = self.units.iter().filter(|unit| is_known(unit)).copied().collect();
        // Without systemd, nothing starts them.
        if installed.is_empty() || !Path::new("/usr/bin/systemctl").exists() {
            return Ok(());
        }
        self.root.run(&[&["systemctl", "--quiet", "disable"], &installed[..]].concat())
    }
}

fn is_known(unit: &str) -> bool {
    ["/lib/systemd/system", "/etc/systemd/system"].iter().any(|folder| Path::new(folder).join(unit).exists())
}

/// Returns the hook's script. Packages name `redis-server` or `redis-server.service`, with options before it.
fn policy(units: &[&str]) -> String {
    let names = units.iter().flat_map(|unit| [*unit, unit.strip_suffix(".service").unwrap_or(unit)]);
    let pattern = names.collect::<Vec<_>>().join("|");
    format!(
        "#!/bin/sh\n{MARK}\n\
         for word do case \"$word\" in {pattern}) exit {FORBIDDEN};; esac; done\nexit 0\n"
    )
}

fn forbids_start(unit: &str) -> bool {
    let mut policy = Command::new(POLICY);
    policy.args([unit, "start"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    policy.status().is_ok_and(|status| status.code() == Some(FORBIDDEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_forbids_our_units_by_either_name_and_nothing_else() {
        let text = policy(&["redis-server.service", "epmd.socket"]);
        let code =
            |words: &[&str]| Command::new("sh").args(["-c", &text, "policy"]).args(words).status().unwrap().code();
        assert_eq!(code(&["redis-server", "start"]), Some(FORBIDDEN));
        assert_eq!(code(&["--quiet", "redis-server.service", "restart"]), Some(FORBIDDEN));
        assert_eq!(code(&["epmd.socket", "start"]), Some(FORBIDDEN));
        assert_eq!(code(&["ssh", "restart"]), Some(0));
    }
}
