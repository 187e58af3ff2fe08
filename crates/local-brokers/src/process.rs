//! Single processes: are they there, are they still the same, and signals to them. std knows only its own children.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

pub(crate) const POLL: Duration = Duration::from_millis(20);

/// What tells a process from a later one with the same pid: when it began, and in which life of the machine.
/// `None` when it has ended, even if nobody has asked for its exit code yet.
pub(crate) fn identity(pid: u32) -> Option<String> {
    if !Path::new("/proc/self/stat").exists() {
        return identity_by_ps(pid);
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{}/{}", boot.trim(), began(&stat)?))
}

/// Of `/proc/<pid>/stat`: the time of the process's start, unless it is dead. The name before it may hold anything.
fn began(stat: &str) -> Option<&str> {
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
    let (state, began) = text.split_once(' ')?;
    (!state.starts_with('Z')).then(|| began.trim().to_owned())
}

/// Waits until the process with this identity is gone; false when it still is there at the end.
pub(crate) fn gone_within(pid: u32, known: &str, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while identity(pid).as_deref() == Some(known) {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: u32, name: &str) -> Result<(), Error> {
    send(name, &pid.to_string())
}

/// Kills a whole process group. One that is empty already is fine.
pub(crate) fn kill_group(group: u32) -> Result<(), Error> {
    send("KILL", &format!("-{group}"))
}

/// By the shell's own `kill`: a small machine may lack the program. Whether the target was still there, the caller sees.
fn send(name: &str, target: &str) -> Result<(), Error> {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$1\" -- \"$2\"", "sh", name, target]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop).map_err(Error::io("run", Path::new("sh")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn a_process_is_known_while_it_lives_and_its_group_can_be_killed() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let known = identity(child.id()).expect("it lives");
        assert_eq!(identity(child.id()), Some(known.clone()));
        kill_group(child.id()).unwrap();
        // Not waited for yet, so it is a zombie: dead, though its number is still taken.
        assert!(gone_within(child.id(), &known, Duration::from_secs(60)));
        child.wait().unwrap();
        assert_eq!(identity(child.id()), None);
    }

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = |name: &str, state: &str| format!("42 ({name}) {state} {}", numbers.join(" "));
        assert_eq!(began(&stat("a) Z b", "S")), Some("22"));
        assert_eq!(began(&stat("a", "Z")), None);
    }
}
