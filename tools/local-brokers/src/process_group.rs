//! The processes of one run of a server: a process group, and a watchdog outside of it that kills the group when we die.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::broker::{LocalBroker, ServerInstance};
use crate::files::Log;
use crate::process::{self, POLL};
use crate::record::{ProcessId, ProcessRecord};
use crate::{LocalBrokerError, probe};

const COMPANION_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads its standard input, which closes when this process ends for any reason. Then it kills the group and removes the
/// folder, if one is given. The line `leave` makes it exit instead.
const WATCHDOG: &str = "read -r word && [ \"$word\" = leave ] && exit 0
kill -s KILL -- \"-$1\"
[ -z \"$2\" ] || { sleep 1; rm -rf -- \"$2\"; }";

/// Dropping it kills the processes that are still running.
pub(crate) struct ProcessGroup {
    /// In start order: the first leads the group, the last is the server itself.
    children: Vec<Child>,
    main: Option<ProcessId>,
    watchdog: Option<Child>,
}

impl ProcessGroup {
    /// Starts the server and its companion. `folder_to_remove` is removed when this process dies.
    pub(crate) fn spawn<B: LocalBroker>(
        programs: &B,
        instance: &ServerInstance,
        log: &Log,
        folder_to_remove: Option<&Path>,
    ) -> Result<ProcessGroup, LocalBrokerError> {
        let mut processes = ProcessGroup { children: Vec::new(), main: None, watchdog: None };
        if let Some((command, port)) = programs.companion(instance) {
            processes.add(command, log)?;
            wait_for_companion(port, log, B::NAME)?;
        }
        processes.add(programs.command(instance), log)?;
        processes.start_watchdog(folder_to_remove)?;
        processes.write_record(instance, B::url(instance))?;
        Ok(processes)
    }

    /// The server's own pid.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.main.as_ref().map(|main| main.pid)
    }

    /// Whether the server is running. Does not reap it, so that its pid is not reused until the group is killed.
    pub(crate) fn is_running(&self) -> bool {
        self.main.as_ref().is_some_and(ProcessId::is_running)
    }

    /// Stops the server cleanly, then kills the rest of the group.
    pub(crate) fn stop(mut self, log_path: &Path) -> Result<(), LocalBrokerError> {
        let Some(main) = self.main.clone().filter(ProcessId::is_running) else {
            return self.kill();
        };
        process::signal(main.pid, "TERM")?;
        let is_clean = process::wait_until_gone(main.pid, &main.identity, STOP_TIMEOUT);
        self.kill()?;
        if is_clean { Ok(()) } else { Err(killed(&main, log_path)) }
    }

    /// Kills and reaps all processes.
    pub(crate) fn kill(&mut self) -> Result<(), LocalBrokerError> {
        if let Some(leader) = self.children.first() {
            process::kill_group(leader.id())?;
        }
        for mut child in self.children.drain(..) {
            // In case the shell's `kill` missed it; an error means that it has ended already.
            let _ = child.kill();
            child.wait().map_err(LocalBrokerError::io("wait for", Path::new("a killed server")))?;
        }
        self.main = None;
        self.stop_watchdog();
        Ok(())
    }

    /// Leaves the processes running without an owner.
    pub(crate) fn release(mut self) {
        self.stop_watchdog();
        self.children.clear();
    }

    fn add(&mut self, mut command: Command, log: &Log) -> Result<(), LocalBrokerError> {
        let output = || -> Result<File, LocalBrokerError> {
            log.file.try_clone().map_err(LocalBrokerError::io("open", &log.path))
        };
        let group = self.children.first().map_or(0, Child::id);
        // A separate group, so that Ctrl-C in the terminal reaches only this process, which stops the server cleanly.
        command.stdout(output()?).stderr(output()?).process_group(i32::try_from(group).unwrap_or(0));
        let name = Path::new(command.get_program()).to_path_buf();
        let child = command.spawn().map_err(LocalBrokerError::io("run", &name))?;
        self.main = ProcessId::of(child.id());
        self.children.push(child);
        Ok(())
    }

    fn start_watchdog(&mut self, folder_to_remove: Option<&Path>) -> Result<(), LocalBrokerError> {
        let Some(leader) = self.children.first() else {
            return Ok(());
        };
        let mut command = Command::new("sh");
        command.args(["-c", WATCHDOG, "sh", &leader.id().to_string()]).arg(folder_to_remove.unwrap_or(Path::new("")));
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        self.watchdog = Some(command.spawn().map_err(LocalBrokerError::io("run", Path::new("sh")))?);
        Ok(())
    }

    /// Stops the watchdog.
    fn stop_watchdog(&mut self) {
        if let Some(mut watchdog) = self.watchdog.take() {
            // An error means that it has ended already.
            let _ = watchdog.stdin.take().map(|mut stdin| stdin.write_all(b"leave\n"));
            let _ = watchdog.wait();
        }
    }

    /// Records the processes in the folder, so that a later owner finds them should the watchdog fail.
    fn write_record(&self, instance: &ServerInstance, url: String) -> Result<(), LocalBrokerError> {
        let (Some(leader), Some(main)) = (self.children.first(), self.main.clone()) else {
            // It has ended already; the caller that waits for it reports that with its log.
            return Ok(());
        };
        let companion = if leader.id() == main.pid { None } else { ProcessId::of(leader.id()) };
        ProcessRecord { group: leader.id(), main, companion, url }.write(&instance.folder)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Errors cannot be returned here; the watchdog or the folder's next owner ends what is left.
        let _ = self.kill();
    }
}

/// Stops the recorded processes, unless their pids belong to other processes by now.
pub(crate) fn stop_recorded(record: &ProcessRecord, log_path: &Path) -> Result<(), LocalBrokerError> {
    let mut is_clean = true;
    if record.main.is_running() {
        process::signal(record.main.pid, "TERM")?;
        is_clean = process::wait_until_gone(record.main.pid, &record.main.identity, STOP_TIMEOUT);
    }
    // While one of its processes is alive, the id of a group cannot be reused.
    let companion = record.companion.as_ref().filter(|companion| companion.is_running());
    if !is_clean || companion.is_some() {
        process::kill_group(record.group)?;
    }
    for process_id in companion.into_iter().chain((!is_clean).then_some(&record.main)) {
        process::wait_until_gone(process_id.pid, &process_id.identity, STOP_TIMEOUT);
    }
    if is_clean { Ok(()) } else { Err(killed(&record.main, log_path)) }
}

fn killed(main: &ProcessId, log_path: &Path) -> LocalBrokerError {
    LocalBrokerError::Killed { pid: main.pid, waited_s: STOP_TIMEOUT.as_secs(), log_path: log_path.to_path_buf() }
}

fn wait_for_companion(port: u16, log: &Log, name: &'static str) -> Result<(), LocalBrokerError> {
    let deadline = Instant::now() + COMPANION_TIMEOUT;
    while !probe::accepts(port) {
        if Instant::now() > deadline {
            let why = format!("needs a helper process that was not ready within {} s", COMPANION_TIMEOUT.as_secs());
            return Err(LocalBrokerError::NotReady { name, why, log_path: log.path.clone(), tail: log.tail() });
        }
        thread::sleep(POLL);
    }
    Ok(())
}
