//! The example as real processes on a private PostgreSQL.

use super::{api::Api, bus::Bus};
use onceward::{
    DbConfig, Platform,
    db::migrate,
    web::{Claims, issue_hs256},
};
use onceward_example_orders::service;
use onceward_local_postgres::{Cluster, ClusterOptions, Programs, Shutdown};
use onceward_testkit::eventually;
use rand::RngExt;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command as StdCommand, ExitStatus, Stdio},
};
use tokio::{
    process::{Child, Command},
    sync::{Mutex, MutexGuard},
};
use tokio_postgres::Client;
use uuid::Uuid;

const SECRET: &str = "a secret for processes that is long enough";
const LOG_TAIL_LINES: usize = 20;
const PORT_ATTEMPTS: usize = 100;

/// A folder below the temp folder that goes away with the test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("ow-orders-{}", Uuid::now_v7().simple()));
        fs::create_dir_all(&folder).expect("the temp folder is writable");
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Drills with processes of their own take turns: two at once would mostly measure each other.
static TURN: Mutex<()> = Mutex::const_new(());

/// A migrated database in a durable cluster that only this test uses, so that it may be stopped.
pub struct PrivateDatabase {
    cluster: Option<Cluster>,
    url: String,
    /// After the cluster, so that it goes last.
    pub scratch: Scratch,
    _turn: MutexGuard<'static, ()>,
}

impl PrivateDatabase {
    pub async fn start(bus: &Bus) -> Self {
        let turn = TURN.lock().await;
        let scratch = Scratch::new();
        let data = scratch.path().join("data");
        let cluster = blocking(move || {
            let programs =
                Programs::find().expect("tests need PostgreSQL's programs; `cargo xtask test` installs them");
            Cluster::start(&programs, &data, ClusterOptions::default()).expect("a private PostgreSQL can be started")
        });
        let cluster = cluster.await;
        let url = cluster.url("postgres");
        let platform = Platform::assemble(vec![service()]).expect("the service fits");
        platform.migrate(&DbConfig::new(&url), bus.kind).await.expect("the migrations apply");
        Self { cluster: Some(cluster), url, scratch, _turn: turn }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// A connection as the owner, whom row-level security does not bind.
    pub async fn owner(&self) -> Client {
        migrate::owner(&DbConfig::new(&self.url)).await.expect("the database can be reached")
    }

    /// Ends the server at once, as a crash would.
    pub async fn crash(&mut self) {
        self.with_cluster(|cluster| cluster.stop(Shutdown::Immediate)).await;
    }

    pub async fn restart(&mut self) {
        self.with_cluster(Cluster::restart).await;
    }

    async fn with_cluster<E: std::fmt::Debug + Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Cluster) -> Result<(), E> + Send + 'static,
    ) {
        let mut cluster = self.cluster.take().expect("the cluster comes back from every use");
        let used = blocking(move || {
            work(&mut cluster).expect("the cluster does as it is told");
            cluster
        });
        self.cluster = Some(used.await);
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("blocking work ends well")
}

/// One process of the example; it dies with this value.
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Runs the example with nothing of this process's environment but its PATH. Standard error goes to `log`.
    pub fn start(args: &[&str], variables: &[(&str, &str)], log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).expect("the log can be written");
        let child = Command::new(env!("CARGO_BIN_EXE_onceward-example-orders"))
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .expect("the example can be run");
        Self { child, log: log.to_owned() }
    }

    /// Panics if the process ended by itself; the end of its log is printed then.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().expect("our own child can be asked") {
            panic!("a process ended by itself: {status}");
        }
    }

    /// Waits until the API takes traffic, but not for a process that has ended.
    pub async fn ready(&mut self, api: &Api) {
        tokio::select! {
            () = wait_until_ready(api) => {}
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
        self.child.wait().await.expect("our own child can be waited for")
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

/// What the processes of a fleet do; the first one is the API.
const ROLES: [&[&str]; 5] = [
    &["serve", "--role", "api"],
    &["serve", "--role", "worker"],
    &["serve", "--role", "worker", "--role", "scheduler"],
    &["serve", "--role", "relay"],
    &["serve", "--role", "relay"],
];
/// So many of them do something on PostgreSQL.
const WITHOUT_RELAYS: usize = 3;

/// One API and two workers, and on an external bus two relays.
pub struct Fleet {
    programs: BTreeMap<usize, Program>,
    database_url: String,
    bus: Bus,
    listen: String,
    logs: PathBuf,
}

impl Fleet {
    /// Starts them all and waits until the API takes traffic.
    pub async fn start(database: &PrivateDatabase, bus: &Bus) -> Self {
        let mut fleet = Self::nobody(database, bus);
        let size = if bus.is_external() { ROLES.len() } else { WITHOUT_RELAYS };
        (0..size).for_each(|number| fleet.begin(number));
        fleet.ready(0).await;
        fleet
    }

    /// Starts none of them.
    pub fn nobody(database: &PrivateDatabase, bus: &Bus) -> Self {
        Self {
            programs: BTreeMap::new(),
            database_url: database.url().to_owned(),
            bus: bus.clone(),
            listen: format!("127.0.0.1:{}", free_port()),
            logs: database.scratch.path().to_owned(),
        }
    }

    /// How many processes there are.
    pub fn size(&self) -> usize {
        self.programs.len()
    }

    /// Starts one process.
    pub fn begin(&mut self, number: usize) {
        let bus = self.bus.clone();
        self.begin_on(number, &bus);
    }

    /// Starts one process that reaches the bus in another way.
    pub fn begin_on(&mut self, number: usize, bus: &Bus) {
        self.programs.insert(number, self.launch(number, bus));
    }

    /// Waits until a process that serves the API takes traffic.
    pub async fn ready(&mut self, number: usize) {
        let api = self.api();
        self.program(number).ready(&api).await;
    }

    fn program(&mut self, number: usize) -> &mut Program {
        self.programs.get_mut(&number).expect("it was begun")
    }

    /// Kills one process in whatever it is doing.
    pub async fn kill(&mut self, number: usize) {
        self.program(number).kill().await;
        self.programs.remove(&number);
    }

    pub fn api(&self) -> Api {
        Api::new(&format!("http://{}", self.listen))
    }

    /// Kills one process in whatever it is doing and starts another in its place at once.
    pub async fn kill_and_replace(&mut self, number: usize) {
        self.kill(number).await;
        self.begin(number);
    }

    /// Every process is told to stop and must end well.
    pub async fn stop(mut self) {
        for program in self.programs.values_mut() {
            let status = program.terminate().await;
            assert!(status.success(), "a process ended with {status}");
        }
    }

    fn launch(&self, number: usize, bus: &Bus) -> Program {
        let variables = [
            ("DATABASE_URL", self.database_url.as_str()),
            ("ONCEWARD_AUTH_SECRET", SECRET),
            ("ONCEWARD_HTTP_LISTEN", &self.listen),
            ("BROKER_URL", bus.url.as_deref().unwrap_or_default()),
            ("ONCEWARD_BUS_NAMESPACE", &bus.namespace),
            ("ONCEWARD_BUS_HEARTBEAT_MS", "3000"),
            ("RUST_LOG", "warn"),
        ];
        Program::start(ROLES[number], &variables, &self.logs.join(format!("process-{number}.log")))
    }
}

/// Waits until the API takes traffic.
pub async fn wait_until_ready(api: &Api) {
    eventually("the API is ready", || async {
        api.get("/health/ready").await.ok().filter(|answer| answer.status == 200)
    })
    .await;
}

/// A token that processes started with [`process_secret`] accept.
pub fn token(tenant: &str) -> String {
    let roles = ["orders:read", "orders:write"].map(str::to_owned).to_vec();
    let claims = Claims {
        sub: "tester".into(),
        tenant: tenant.to_owned(),
        roles,
        exp: u64::from(u32::MAX),
        ..Claims::default()
    };
    issue_hs256(SECRET.as_bytes(), &claims)
}

/// The secret behind [`token`].
pub fn process_secret() -> &'static str {
    SECRET
}

/// A free port outside the range that outgoing connections use, so that it is still free when a killed API comes back.
pub fn free_port() -> u16 {
    let mut rng = rand::rng();
    (0..PORT_ATTEMPTS)
        .map(|_| rng.random_range(20_000..32_000))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("one of many ports is free")
}
