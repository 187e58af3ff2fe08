//! Keeps Debian's packages from starting the system services that they bring.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::admin::Admin;
use crate::failure::Failure;

/// Debian's hook: packages ask it, by unit and action, before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const FORBIDDEN: i32 = 101;
const MARK: &str = "# Only while `cargo xtask` of onceward installs packages.";

/// While this stands, installing a package does not start its services. Others are none of our business.
pub(super) struct NoServices<'a> {
    admin: &'a Admin,
    units: Vec<&'a str>,
    policy_is_ours: bool,
}

impl NoServices<'_> {
    /// Of `units`, those count that the machine does not have yet: one that it has may be running, and wanted.
    pub(super) fn set<'a>(admin: &'a Admin, units: &[&'a str]) -> Result<NoServices<'a>, Failure> {
        let units: Vec<&str> = units.iter().filter(|unit| !is_known(unit)).copied().collect();
        // One of ours stands there if an earlier run was cut off.
        let free = fs::read_to_string(POLICY).map_or(!Path::new(POLICY).exists(), |text| text.contains(MARK));
        if free && !units.is_empty() {
            admin.write(POLICY, &policy(&units))?;
            admin.run(&["chmod", "755", POLICY])?;
            return Ok(NoServices { admin, units, policy_is_ours: true });
        }
        // Somebody else's policy is not ours to change; that of a container usually forbids everything.
        match units.iter().find(|unit| !forbids_start(unit)) {
            None => Ok(NoServices { admin, units, policy_is_ours: false }),
            Some(unit) => Err(Failure::Failed(format!(
                "{POLICY} lets {unit} start as soon as it is installed. Install its package yourself with apt-get, and \
                 stop the service if you do not want it"
            ))),
        }
    }

    /// Also disables the services: packages enable theirs for the machine's next start.
    pub(super) fn lift(self) -> Result<(), Failure> {
        if self.policy_is_ours {
            self.admin.run(&["rm", "-f", POLICY])?;
        }
        let installed: Vec<&str> = self.units.iter().filter(|unit| is_known(unit)).copied().collect();
        // Where there is no systemd, nothing starts them.
        if installed.is_empty() || !Path::new("/usr/bin/systemctl").exists() {
            return Ok(());
        }
        self.admin.run(&[&["systemctl", "--quiet", "disable"], &installed[..]].concat())
    }
}

fn is_known(unit: &str) -> bool {
    ["/lib/systemd/system", "/etc/systemd/system"].iter().any(|folder| Path::new(folder).join(unit).exists())
}

/// Packages speak of `redis-server` or of `redis-server.service`, with options before it.
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
