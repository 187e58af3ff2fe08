//! Ends a command when this process is killed. std cannot catch signals, so a small process outside watches a pipe.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::error::XtaskError;

/// Reads its standard input, which closes when this process ends for any reason. Then it terminates the group. The line
/// `leave` makes it exit instead.
const SCRIPT: &str = "read -r word && [ \"$word\" = leave ] && exit 0
kill -s TERM -- \"-$1\"";

/// Runs a command with our own output and returns its exit status. If this process is killed, or interrupted with
/// Ctrl-C, the command and its children are terminated.
pub(crate) fn status_guarded(command: &mut Command) -> Result<ExitStatus, XtaskError> {
    let name = command.get_program().to_string_lossy().into_owned();
    // A group of its own, so that one signal reaches the children too. Such a group cannot read from the terminal.
    command.process_group(0).stdin(Stdio::null());
    let mut child = command.spawn().map_err(XtaskError::of(format_args!("run {name}")))?;
    let guard = GroupGuard::watch(child.id());
    let status = child.wait().map_err(XtaskError::of(format_args!("wait for {name}")));
    guard.map(GroupGuard::release)?;
    status
}

/// The watching process. It terminates the group when its standard input closes.
struct GroupGuard(Child);

impl GroupGuard {
    fn watch(group: u32) -> Result<GroupGuard, XtaskError> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "xtask-guard", &group.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Outside our own group, because the terminal's Ctrl-C must not end it.
        command.process_group(0).spawn().map(GroupGuard).map_err(XtaskError::of("run sh"))
    }

    /// Stops watching.
    fn release(mut self) {
        // An error means that the guard has already ended.
        let _ = self.0.stdin.take().map(|mut stdin| stdin.write_all(b"leave\n"));
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_guarded_command_reports_its_exit_status() {
        assert!(status_guarded(&mut Command::new("true")).unwrap().success());
        assert_eq!(status_guarded(Command::new("sh").args(["-c", "exit 7"])).unwrap().code(), Some(7));
    }

    #[test]
    fn a_group_ends_with_the_process_that_watches_it() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let mut guard = GroupGuard::watch(child.id()).unwrap();
        // The pipe closes in the same way when its owner is killed.
        drop(guard.0.stdin.take());
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        guard.0.wait().unwrap();
    }
}
