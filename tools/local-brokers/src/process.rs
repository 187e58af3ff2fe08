//! Identity and signals of single processes. std handles only child processes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::LocalBrokerError;

pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Distinguishes a process from a later one with the same pid: its start time and the boot id of the machine.
/// Returns `None` when it has ended, even if it has not been reaped yet.
pub(crate) fn identity(pid: u32) -> Option<String> {
    if !Path::new("/proc/self/stat").exists() {
        return identity_by_ps(pid);
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{}/{}", boot.trim(), start_time(&stat)?))
}

/// Parses the start time from `/proc/<pid>/stat`, unless the process is dead. The name may contain any characters.
fn start_time(stat: &str) -> Option<&str> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    // The state is the third field, the start time the 22nd.
    fields.nth(18).filter(|_| !matches!(state, "Z" | "X"))
}

fn identity_by_ps(pid: u32) -> Option<String> {
    let output =
        Command::new("ps").args(["-o", "stat=,lstart=", "-p", &pid.to_string()]).env("LC_ALL", "C").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let (state, start_time) = text.split_once(' ')?;
    (!state.starts_with('Z')).then(|| start_time.trim().to_owned())
}

/// Waits until the process with this identity is gone. Returns `false` if it still exists after the timeout.
pub(crate) fn wait_until_gone(pid: u32, known: &str, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    while identity(pid).as_deref() == Some(known) {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: u32, name: &str) -> Result<(), LocalBrokerError> {
    send(name, &pid.to_string())
}

/// Kills a whole process group. Does nothing if it is empty.
pub(crate) fn kill_group(group: u32) -> Result<(), LocalBrokerError> {
    send("KILL", &format!("-{group}"))
}

/// Uses the shell's built-in `kill`, because the program may not be installed. Ignores a missing target.
fn send(name: &str, target: &str) -> Result<(), LocalBrokerError> {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$1\" -- \"$2\"", "sh", name, target]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop).map_err(LocalBrokerError::io("run", Path::new("sh")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn a_running_process_has_an_identity_and_its_group_can_be_killed() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let known = identity(child.id()).expect("the process is running");
        assert_eq!(identity(child.id()), Some(known.clone()));
        kill_group(child.id()).unwrap();
        // Not reaped yet, so it is a zombie: dead, but its pid is still in use.
        assert!(wait_until_gone(child.id(), &known, Duration::from_secs(60)));
        child.wait().unwrap();
        assert_eq!(identity(child.id()), None);
    }

    #[test]
    fn the_start_time_is_parsed_behind_any_name() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = |name: &str, state: &str| format!("42 ({name}) {state} {}", numbers.join(" "));
        assert_eq!(start_time(&stat("a) Z b", "S")), Some("22"));
        assert_eq!(start_time(&stat("a", "Z")), None);
    }
}
