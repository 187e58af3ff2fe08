//! The account that runs a command.

use onceward_audit::host;
use std::{env, fs, os::unix::fs::MetadataExt};

/// Returns the account's name for `--as`: USER or LOGNAME; if neither is set, the name of the process's user.
pub(super) fn name() -> String {
    let set = ["USER", "LOGNAME"].iter().find_map(|name| env::var(name).ok()).filter(|name| !name.trim().is_empty());
    set.unwrap_or_else(|| format!("{}@{}", user(), host()))
}

/// Returns the name of the process's user from `/etc/passwd`; a container's user may have only a number.
fn user() -> String {
    let Ok(uid) = fs::metadata("/proc/self").map(|process| process.uid()) else {
        return "unknown-user".to_owned();
    };
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    account_name(&accounts, uid).unwrap_or_else(|| format!("uid-{uid}"))
}

fn account_name(accounts: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    let mut lines = accounts.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_user_id() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n";
        assert_eq!(account_name(accounts, 1000).as_deref(), Some("app"));
        assert_eq!(account_name(accounts, 10), None);
        assert_eq!(account_name("", 0), None);
    }
}
