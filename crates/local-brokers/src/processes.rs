//! The processes of one run of a server: a process group, and a guardian outside of it that ends the group when we die.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::broker::{Broker, Place};
use crate::files::Log;
use crate::process::{self, POLL};
use crate::record::{Member, Record};
use crate::{Error, probe};

const COMPANION_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for a word on its standard input, which ends when we do, however that happens. Then it kills the group and
/// removes the folder, if one was named.
const GUARDIAN: &str = "read -r word && [ \"$word\" = leave ] && exit 0
kill -s KILL -- \"-$1\"
[ -z \"$2\" ] || { sleep 1; rm -rf -- \"$2\"; }";

/// Dropping it kills what still runs.
pub(crate) struct Processes {
    /// In the order of their start: the first leads the group, the last is the server itself.
    children: Vec<Child>,
    main: Option<Member>,
    guardian: Option<Child>,
}

impl Processes {
    /// Starts the server and what it needs beside it. `doomed` is a folder that shall not outlive us.
    pub(crate) fn spawn<B: Broker>(
        programs: &B,
        place: &Place,
        log: &Log,
        doomed: Option<&Path>,
    ) -> Result<Processes, Error> {
        let mut processes = Processes { children: Vec::new(), main: None, guardian: None };
        if let Some((command, port)) = programs.companion(place) {
            processes.add(command, log)?;
            wait_for_companion(port, log, B::NAME)?;
        }
        processes.add(programs.command(place), log)?;
        processes.guard(doomed)?;
        processes.note(place, B::url(place))?;
        Ok(processes)
    }

    /// The server's own pid.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.main.as_ref().map(|main| main.pid)
    }

    /// Whether the server runs. Its end is not waited for here, so that its number stays taken until the group is ended.
    pub(crate) fn is_running(&self) -> bool {
        self.main.as_ref().is_some_and(Member::lives)
    }

    /// Asks the server to end, and ends the rest after it.
    pub(crate) fn stop(mut self, log_path: &Path) -> Result<(), Error> {
        let Some(main) = self.main.clone().filter(Member::lives) else {
            return self.kill();
        };
        process::signal(main.pid, "TERM")?;
        let in_order = process::gone_within(main.pid, &main.identity, STOP_TIMEOUT);
        self.kill()?;
        if in_order { Ok(()) } else { Err(killed(&main, log_path)) }
    }

    /// SIGKILL to all of them, and their funeral.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        if let Some(leader) = self.children.first() {
            process::kill_group(leader.id())?;
        }
        for mut child in self.children.drain(..) {
            // Should the shell's `kill` have missed it; one that has ended already is fine.
            let _ = child.kill();
            child.wait().map_err(Error::io("wait for", Path::new("a killed server")))?;
        }
        self.main = None;
        self.dismiss();
        Ok(())
    }

    /// From now on they run without us.
    pub(crate) fn release(mut self) {
        self.dismiss();
        self.children.clear();
    }

    fn add(&mut self, mut command: Command, log: &Log) -> Result<(), Error> {
        let output = || -> Result<File, Error> { log.file.try_clone().map_err(Error::io("open", &log.path)) };
        let group = self.children.first().map_or(0, Child::id);
        // Its own group: the terminal's Ctrl-C is for us, and we stop it in order.
        command.stdout(output()?).stderr(output()?).process_group(i32::try_from(group).unwrap_or(0));
        let name = Path::new(command.get_program()).to_path_buf();
        let child = command.spawn().map_err(Error::io("run", &name))?;
        self.main = Member::of(child.id());
        self.children.push(child);
        Ok(())
    }

    fn guard(&mut self, doomed: Option<&Path>) -> Result<(), Error> {
        let Some(leader) = self.children.first() else {
            return Ok(());
        };
        let mut command = Command::new("sh");
        command.args(["-c", GUARDIAN, "sh", &leader.id().to_string()]).arg(doomed.unwrap_or(Path::new("")));
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        self.guardian = Some(command.spawn().map_err(Error::io("run", Path::new("sh")))?);
        Ok(())
    }

    /// Sends the guardian home.
    fn dismiss(&mut self) {
        if let Some(mut guardian) = self.guardian.take() {
            // An error means that somebody ended it, which is all that is wanted.
            let _ = guardian.stdin.take().map(|mut stdin| stdin.write_all(b"leave\n"));
            let _ = guardian.wait();
        }
    }

    /// Leaves a note in the folder, by which a later owner finds them should our guardian fail.
    fn note(&self, place: &Place, url: String) -> Result<(), Error> {
        let (Some(leader), Some(main)) = (self.children.first(), self.main.clone()) else {
            // It has ended already; whoever waits for it sees that and shows its log.
            return Ok(());
        };
        let companion = if leader.id() == main.pid { None } else { Member::of(leader.id()) };
        Record { group: leader.id(), main, companion, url }.write(&place.folder)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // An error has nobody to go to here; what is left is ended by the guardian, or by the folder's next owner.
        let _ = self.kill();
    }
}

/// Ends the processes that a record speaks of, as far as they still are the same ones.
pub(crate) fn end_recorded(record: &Record, log_path: &Path) -> Result<(), Error> {
    let mut in_order = true;
    if record.main.lives() {
        process::signal(record.main.pid, "TERM")?;
        in_order = process::gone_within(record.main.pid, &record.main.identity, STOP_TIMEOUT);
    }
    // While one of its members lives, a group's number cannot have gone to others.
    let companion = record.companion.as_ref().filter(|companion| companion.lives());
    if !in_order || companion.is_some() {
        process::kill_group(record.group)?;
    }
    for member in companion.into_iter().chain((!in_order).then_some(&record.main)) {
        process::gone_within(member.pid, &member.identity, STOP_TIMEOUT);
    }
    if in_order { Ok(()) } else { Err(killed(&record.main, log_path)) }
}

fn killed(main: &Member, log_path: &Path) -> Error {
    Error::Killed { pid: main.pid, waited_s: STOP_TIMEOUT.as_secs(), log_path: log_path.to_path_buf() }
}

fn wait_for_companion(port: u16, log: &Log, name: &'static str) -> Result<(), Error> {
    let deadline = Instant::now() + COMPANION_TIMEOUT;
    while !probe::accepts(port) {
        if Instant::now() > deadline {
            let why = format!("needs a helper that was not ready within {} s", COMPANION_TIMEOUT.as_secs());
            return Err(Error::NotReady { name, why, log_path: log.path.clone(), tail: log.tail() });
        }
        thread::sleep(POLL);
    }
    Ok(())
}
