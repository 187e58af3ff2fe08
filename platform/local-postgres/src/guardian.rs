//! A small process beside the server that stops it when its owner is gone, however the owner ended.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::LocalPostgresError;
use crate::account::ServerAccount;

/// Waits for a line on standard input. The pipe closes when our process ends, even by SIGKILL or an abort; then the
/// script asks the server to shut down, first fast and after a minute immediately. It sends a signal only while the
/// cluster's own `postmaster.pid` names the process that we started, so a later owner's server is left alone.
const SCRIPT: &str = "trap '' HUP INT TERM
read -r line && [ \"$line\" = leave ] && exit 0
signal=INT waited=0
while kill -0 \"$1\" && [ $waited -lt 90 ]; do
  first=
  read -r first < \"$2/postmaster.pid\"
  [ \"$first\" != \"$1\" ] || kill -s $signal \"$1\"
  [ $waited -lt 60 ] || signal=QUIT
  sleep 1
  waited=$((waited + 1))
done";

/// Dropping it ends the guardian process and leaves the server running.
#[derive(Debug)]
pub(crate) struct Guardian(Child);

impl Guardian {
    /// Starts to watch the server `pid` of the cluster in `pg`, as the account that the server runs as.
    pub(crate) fn start(account: &ServerAccount, pg: &Path, pid: u32) -> Result<Guardian, LocalPostgresError> {
        let shell = Path::new("sh");
        let mut command = account.command(shell);
        command.args(["-c", SCRIPT, "onceward-guardian", &pid.to_string()]).arg(pg);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A process group of its own: a signal to ours, such as the terminal's Ctrl-C, must not end it.
        command.process_group(0);
        command.spawn().map(Guardian).map_err(LocalPostgresError::io("run", shell))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // An error means that the guardian has already ended, which is all that is wanted.
        let _ = self.0.stdin.take().map(|mut stdin| stdin.write_all(b"leave\n"));
        let _ = self.0.wait();
    }
}
