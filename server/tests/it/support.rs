//! Runs the program, reads its output, and sends requests to it.

use onceward::{Config, Platform, Service};
pub use onceward_testkit::Scratch;
use onceward_testkit::{HttpResponse, PATIENCE, TestDb, eventually};
use serde_json::Value;
use std::{
    fs,
    future::Future,
    path::{Path, PathBuf},
    process::{Command as StdCommand, ExitStatus, Output, Stdio},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdout, Command},
};

pub const SECRET: &str = "a secret for processes that is long enough";
/// The last line that `up` prints once it serves.
const STARTED_LINE: &str = "Ctrl-C stops everything";

/// Creates a command that runs the program with nothing of this process's environment except PATH.
fn program(args: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onceward"));
    command
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(variables.iter().copied())
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a command to its end.
pub async fn run(args: &[&str], variables: &[(&str, &str)]) -> Output {
    with_timeout("the command ends", program(args, variables).output()).await.expect("the program can be run")
}

/// Runs a command that must succeed; returns its standard output.
pub async fn stdout_of(args: &[&str], variables: &[(&str, &str)]) -> String {
    let output = run(args, variables).await;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the program prints UTF-8")
}

/// Returns the output of a command with `--json`: one value per line.
pub async fn json_lines_of(args: &[&str], variables: &[(&str, &str)]) -> Vec<Value> {
    let stdout = stdout_of(args, variables).await;
    stdout.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

/// A process that keeps running; it is killed when this value is dropped.
pub struct Process {
    child: Child,
    lines: Option<tokio::io::Lines<BufReader<ChildStdout>>>,
}

impl Process {
    pub fn start(args: &[&str], variables: &[(&str, &str)], log: &Path) -> Self {
        let log = fs::File::options().create(true).append(true).open(log).expect("the log can be written");
        let mut child =
            program(args, variables).stdout(Stdio::piped()).stderr(log).spawn().expect("the program can be run");
        let lines = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        Self { child, lines }
    }

    /// Returns the next line that it prints.
    pub async fn next_line(&mut self) -> String {
        let lines = self.lines.as_mut().expect("the output is read only here");
        lines.next_line().await.expect("its output can be read").expect("the process still runs")
    }

    pub fn pid(&self) -> String {
        self.child.id().expect("the process has not ended").to_string()
    }

    /// Sends a signal by its name and waits until the process has ended.
    pub async fn stop_with(&mut self, signal: &str) -> ExitStatus {
        send_signal(signal, &self.pid());
        with_timeout("the process ends", self.child.wait()).await.expect("the child can be waited for")
    }
}

/// Sends a signal by its name.
pub fn send_signal(signal: &str, pid: &str) {
    let sent = StdCommand::new("kill").args([&format!("-{signal}"), pid]).status().expect("kill can be run");
    assert!(sent.success(), "kill -{signal} {pid}");
}

/// `onceward up`, with its output.
pub struct UpServer {
    pub process: Process,
    pub url: String,
    pub tenant: String,
    pub token: String,
    pub curl: String,
    /// The output until the server was up.
    pub stdout: String,
}

impl UpServer {
    /// Starts it on a free port and reads its output until it is up.
    pub async fn start(scratch: &Scratch, variables: &[(&str, &str)]) -> Self {
        let data = scratch.join("data");
        let args = ["up", "--data", data.to_str().expect("a plain path"), "--listen", "127.0.0.1:0"];
        let log = scratch.join("up.log");
        let mut process = Process::start(&args, variables, &log);
        let mut lines = process.lines.take().expect("the output is read only here");
        let mut stdout = String::new();
        with_timeout("the server is up", async {
            while !stdout.contains(STARTED_LINE) {
                let line = lines.next_line().await.expect("its output can be read");
                let ended = || panic!("up ended:\n{}", fs::read_to_string(&log).unwrap_or_default());
                stdout.push_str(&line.unwrap_or_else(ended));
                stdout.push('\n');
            }
        })
        .await;
        let word = |label: &str| word_after(&stdout, label);
        let token = word("export").trim_start_matches("TOKEN=").to_owned();
        let (_, curl) = stdout.split_once("try:\n").expect("a command to try");
        let curl = curl.split("\n\n").next().unwrap_or_default().trim().to_owned();
        Self { url: word("API"), tenant: word("tenant"), token, curl, stdout, process }
    }

    /// Returns the folder in which its private PostgreSQL keeps its files.
    pub fn pg_dir(&self) -> PathBuf {
        Path::new(&word_after(&self.stdout, "data")).join("pg")
    }

    /// Returns the pid of its private PostgreSQL's main process.
    pub fn postmaster(&self) -> String {
        let file = fs::read_to_string(self.pg_dir().join("postmaster.pid")).expect("the server runs");
        file.lines().next().expect("the first line is the pid").to_owned()
    }

    /// Connects to its database as the owner.
    pub async fn owner(&self) -> tokio_postgres::Client {
        let config = onceward::DbConfig::new(word_after(&self.stdout, "database"));
        onceward::db::migrate::owner(&config).await.expect("the database can be reached")
    }

    /// Sends a `GET` with the printed token; returns the status and the JSON body.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        get(&format!("{}{path}", self.url), Some(&self.token)).await
    }

    /// Places an order and waits until it is reserved; returns its path.
    pub async fn place_order(&self, key: &str) -> String {
        let request = http().post(format!("{}/api/orders", self.url)).bearer_auth(&self.token);
        let order = serde_json::json!({"sku": "teapot", "quantity": 1});
        let response = HttpResponse::to(request.header("idempotency-key", key).json(&order)).await;
        let path = response.header("location").expect("a path").to_owned();
        response.with_status(202);
        self.wait_until_reserved(&path).await;
        path
    }

    pub async fn wait_until_reserved(&self, path: &str) {
        eventually("the order is reserved", || async {
            (self.get(path).await.1["status"] == "reserved").then_some(())
        })
        .await;
    }
}

/// Returns the word after a label at the beginning of a line.
fn word_after(text: &str, label: &str) -> String {
    let mut lines = text.lines().map(str::split_whitespace);
    let word = lines.find_map(|mut words| (words.next() == Some(label)).then(|| words.next()).flatten());
    word.unwrap_or_else(|| panic!("no {label} in:\n{text}")).to_owned()
}

pub fn http() -> reqwest::Client {
    onceward::install_crypto_provider();
    reqwest::Client::builder().timeout(PATIENCE).build().expect("a client can be built")
}

/// Returns the status and JSON body of a `GET`.
pub async fn get(url: &str, token: Option<&str>) -> (u16, Value) {
    try_get(url, token).await.expect("the API responds")
}

/// Like [`get`], but returns `None` if nothing is listening.
pub async fn try_get(url: &str, token: Option<&str>) -> Option<(u16, Value)> {
    let mut request = http().get(url);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let response = HttpResponse::try_to(request).await.ok()?;
    Some((response.status, response.body))
}

/// Returns the program's services with the default settings.
pub fn services() -> Vec<Service> {
    services_with(&[])
}

/// Returns the program's services with these variables.
pub fn services_with(variables: &[(&str, &str)]) -> Vec<Service> {
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let config = Config::load_with(None, crate::services::SECTIONS, variable).expect("the settings are valid");
    crate::services::services(&config).expect("the settings are valid")
}

/// Creates a database with everything the program's services need.
pub async fn migrated_database() -> TestDb {
    let platform = Platform::assemble(services()).expect("the services are valid");
    TestDb::for_platform(&platform).await
}

/// Fails if `work` does not finish in time; every wait uses it.
pub async fn with_timeout<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}
