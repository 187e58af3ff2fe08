//! The program under test, as real processes.

use crate::{PATIENCE, eventually};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command as StdCommand, ExitStatus, Stdio},
};
use tokio::process::{Child, Command};

const LOG_TAIL_LINES: usize = 20;

/// A program of the platform, and additional environment variables for its processes.
#[derive(Clone, Debug)]
pub struct Executable {
    path: PathBuf,
    variables: Vec<(String, String)>,
}

impl Executable {
    /// Uses the program at `path`, as `env!("CARGO_BIN_EXE_…")` names it.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), variables: Vec::new() }
    }

    /// Adds an environment variable.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts a process that inherits only PATH from this process's environment. Standard error is written to `log`.
    pub fn start(&self, args: &[&str], variables: &[(&str, &str)], log: &Path) -> ServerProcess {
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
        ServerProcess { child, log: log.to_owned() }
    }

    /// Runs a process that must exit successfully.
    pub async fn run(&self, args: &[&str], variables: &[(&str, &str)], log: &Path) {
        let mut process = self.start(args, variables, log);
        let ended = tokio::time::timeout(PATIENCE, process.child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("{args:?}: not within {PATIENCE:?}"));
        assert!(status.expect("a child can be waited for").success(), "{args:?}: {}", process.log_tail());
    }
}

/// One process; dropping it kills the process.
pub struct ServerProcess {
    child: Child,
    log: PathBuf,
}

impl ServerProcess {
    /// Panics if the process has exited; the end of its log is then printed.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().expect("the state of a child can be read") {
            panic!("the process exited unexpectedly: {status}");
        }
    }

    /// Waits until its API at `url` is ready. Panics if the process has exited.
    pub async fn wait_until_ready(&mut self, url: &str) {
        tokio::select! {
            () = wait_until_ready(url) => {}
            status = self.child.wait() => panic!("the process exited before it was ready: {status:?}"),
        }
    }

    /// Sends SIGKILL and waits for the process to end.
    pub async fn kill(&mut self) {
        self.assert_running();
        self.child.kill().await.expect("a child can be killed");
    }

    /// Sends SIGTERM and returns the exit status.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.assert_running();
        let pid = self.child.id().expect("the process is running").to_string();
        let sent = StdCommand::new("kill").args(["-TERM", &pid]).status().expect("`kill` can be run");
        assert!(sent.success());
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.expect("the process exits after SIGTERM").expect("a child can be waited for")
    }

    fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the last lines of {}:\n{}", self.log.display(), self.log_tail());
        }
    }
}

/// Waits until the API at `url` is ready.
pub async fn wait_until_ready(url: &str) {
    onceward::install_crypto_provider();
    let http = reqwest::Client::builder().timeout(PATIENCE).build().expect("a client can be built");
    let poll = || async {
        http.get(format!("{url}/health/ready")).send().await.ok().filter(|response| response.status() == 200)
    };
    eventually("the API is ready", poll).await;
}
