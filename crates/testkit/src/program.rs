//! What is tested, as real processes.

use crate::{PATIENCE, eventually};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command as StdCommand, ExitStatus, Stdio},
};
use tokio::process::{Child, Command};

const LOG_TAIL_LINES: usize = 20;

/// A program of the platform, and what its processes are told besides the usual.
#[derive(Clone, Debug)]
pub struct Executable {
    path: PathBuf,
    variables: Vec<(String, String)>,
}

impl Executable {
    /// The program at `path`, as `env!("CARGO_BIN_EXE_…")` names it.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), variables: Vec::new() }
    }

    /// The same with one more environment variable.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts a process with nothing of this process's environment but its PATH. Standard error goes to `log`.
    pub fn start(&self, args: &[&str], variables: &[(&str, &str)], log: &Path) -> Program {
        let file = File::options().create(true).append(true).open(log).expect("the log can be written");
        let child = Command::new(&self.path)
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(variables.iter().copied())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .expect("the program can be run");
        Program { child, log: log.to_owned() }
    }

    /// Runs a process that must end well.
    pub async fn run(&self, args: &[&str], variables: &[(&str, &str)], log: &Path) {
        let mut program = self.start(args, variables, log);
        let ended = tokio::time::timeout(PATIENCE, program.child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("{args:?}: not within {PATIENCE:?}"));
        assert!(status.expect("our own child can be waited for").success(), "{args:?}: {}", program.log_tail());
    }
}

/// One process; it dies with this value.
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Panics if the process ended by itself; the end of its log is printed then.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().expect("our own child can be asked") {
            panic!("a process ended by itself: {status}");
        }
    }

    /// Waits until its API at `url` takes traffic, but not for a process that has ended.
    pub async fn ready(&mut self, url: &str) {
        tokio::select! {
            () = wait_until_ready(url) => {}
            status = self.child.wait() => panic!("a process ended before it was ready: {status:?}"),
        }
    }

    /// SIGKILL, and nothing is left of it when this returns.
    pub async fn kill(&mut self) {
        self.assert_running();
        self.child.kill().await.expect("our own child can be killed");
    }

    /// SIGTERM, and its exit status.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.assert_running();
        let pid = self.child.id().expect("it was running a moment ago").to_string();
        let sent = StdCommand::new("kill").args(["-TERM", &pid]).status().expect("kill can be run");
        assert!(sent.success());
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.expect("a process ends when it is told to").expect("our own child can be waited for")
    }

    fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the last lines of {}:\n{}", self.log.display(), self.log_tail());
        }
    }
}

/// Waits until the API at `url` takes traffic.
pub async fn wait_until_ready(url: &str) {
    onceward::cli::install_crypto();
    let http = reqwest::Client::builder().timeout(PATIENCE).build().expect("a client can be built");
    let ask = || async { http.get(format!("{url}/health/ready")).send().await.ok().filter(|a| a.status() == 200) };
    eventually("the API is ready", ask).await;
}
