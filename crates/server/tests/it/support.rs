//! Running the program, reading what it prints, and asking what it serves.

use onceward::{Config, Platform, Service};
pub use onceward_testkit::Scratch;
use onceward_testkit::{PATIENCE, TestDb, eventually};
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
/// The last line that `up` prints before it only serves.
const UP_IS_UP: &str = "Ctrl-C stops everything";

/// The program with nothing of this process's environment but its PATH.
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
    in_time("the command ends", program(args, variables).output()).await.expect("the program can be run")
}

/// Runs a command that must work; gives what it printed.
pub async fn print(args: &[&str], variables: &[(&str, &str)]) -> String {
    let output = run(args, variables).await;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the program prints UTF-8")
}

/// What a command prints with `--json`: one value a line.
pub async fn print_json(args: &[&str], variables: &[(&str, &str)]) -> Vec<Value> {
    let printed = print(args, variables).await;
    printed.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

/// A process that runs on; it dies with this value.
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

    pub fn pid(&self) -> String {
        self.child.id().expect("the process has not ended").to_string()
    }

    /// Sends a signal by its name and waits for the end.
    pub async fn end_by(&mut self, signal: &str) -> ExitStatus {
        send(signal, &self.pid());
        in_time("the process ends", self.child.wait()).await.expect("our own child can be waited for")
    }
}

/// Sends a signal by its name.
pub fn send(signal: &str, pid: &str) {
    let sent = StdCommand::new("kill").args([&format!("-{signal}"), pid]).status().expect("kill can be run");
    assert!(sent.success(), "kill -{signal} {pid}");
}

/// `onceward up`, and what it printed about itself.
pub struct Up {
    pub process: Process,
    pub url: String,
    pub tenant: String,
    pub token: String,
    pub curl: String,
    pub printed: String,
}

impl Up {
    /// Starts it on a free port and reads until it is up.
    pub async fn start(scratch: &Scratch, variables: &[(&str, &str)]) -> Self {
        let data = scratch.join("data");
        let args = ["up", "--data", data.to_str().expect("a plain path"), "--listen", "127.0.0.1:0"];
        let log = scratch.join("up.log");
        let mut process = Process::start(&args, variables, &log);
        let mut lines = process.lines.take().expect("nobody else reads it");
        let mut printed = String::new();
        in_time("up is up", async {
            while !printed.contains(UP_IS_UP) {
                let line = lines.next_line().await.expect("its output can be read");
                let told = || panic!("up ended:\n{}", fs::read_to_string(&log).unwrap_or_default());
                printed.push_str(&line.unwrap_or_else(told));
                printed.push('\n');
            }
        })
        .await;
        let word = |label: &str| word_after(&printed, label);
        let (_, curl) = printed.split_once("try:\n").expect("a command to try");
        let curl = curl.split("\n\n").next().unwrap_or_default().trim().to_owned();
        Self { url: word("API"), tenant: word("tenant"), token: word("token"), curl, printed, process }
    }

    /// Where its private PostgreSQL keeps its files.
    pub fn pg_dir(&self) -> PathBuf {
        Path::new(&word_after(&self.printed, "data")).join("pg")
    }

    /// Its private PostgreSQL's main process.
    pub fn postmaster(&self) -> String {
        let file = fs::read_to_string(self.pg_dir().join("postmaster.pid")).expect("the server runs");
        file.lines().next().expect("the first line is the pid").to_owned()
    }

    /// A reading request with the printed token.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        get(&format!("{}{path}", self.url), Some(&self.token)).await
    }

    /// Places an order and waits until it is reserved; gives its path.
    pub async fn place_order(&self, key: &str) -> String {
        let request = http().post(format!("{}/api/orders", self.url)).bearer_auth(&self.token);
        let order = serde_json::json!({"sku": "teapot", "quantity": 1});
        let response = request.header("idempotency-key", key).json(&order).send().await.expect("the API answers");
        assert_eq!(response.status(), 202);
        let path = response.headers()["location"].to_str().expect("a path").to_owned();
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

/// The word after a label at the beginning of a line.
fn word_after(printed: &str, label: &str) -> String {
    let mut lines = printed.lines().map(str::split_whitespace);
    let word = lines.find_map(|mut words| (words.next() == Some(label)).then(|| words.next()).flatten());
    word.unwrap_or_else(|| panic!("no {label} in:\n{printed}")).to_owned()
}

pub fn http() -> reqwest::Client {
    onceward::cli::install_crypto();
    reqwest::Client::builder().timeout(PATIENCE).build().expect("a client can be built")
}

/// Status and JSON body of a `GET`.
pub async fn get(url: &str, token: Option<&str>) -> (u16, Value) {
    try_get(url, token).await.expect("the API answers")
}

/// The same while nobody may be listening.
pub async fn try_get(url: &str, token: Option<&str>) -> Option<(u16, Value)> {
    let mut request = http().get(url);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    Some((status, serde_json::from_slice(&response.bytes().await.ok()?).unwrap_or(Value::Null)))
}

/// The program's services, as the defaults make them.
pub fn services() -> Vec<Service> {
    let config = Config::load_with(None, crate::services::SECTIONS, |_| None).expect("the defaults are valid");
    crate::services::services(&config).expect("the defaults are valid")
}

/// A database with everything the program's services need.
pub async fn migrated_database() -> TestDb {
    let platform = Platform::assemble(services()).expect("the services fit");
    TestDb::for_platform(&platform).await
}

/// A bound on every wait.
pub async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}
