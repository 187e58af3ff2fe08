//! A platform that runs as several processes, each of which may be killed.

use crate::{Bus, Executable, PrivateDatabase, SECRET, ServerProcess};
use rand::RngExt;
use std::{collections::BTreeMap, net::TcpListener, path::PathBuf};

const PORT_ATTEMPTS: usize = 100;

/// The arguments of the fleet's processes; the first one is the API.
const ROLES: [&[&str]; 5] = [
    &["serve", "--role", "api"],
    &["serve", "--role", "worker"],
    &["serve", "--role", "worker", "--role", "scheduler"],
    &["serve", "--role", "relay"],
    &["serve", "--role", "relay"],
];
/// The number of processes that are used with PostgreSQL as the bus.
const WITHOUT_RELAYS: usize = 3;

/// One API and two workers, and with an external bus two relays. Each is identified by its number.
pub struct Fleet {
    processes: BTreeMap<usize, ServerProcess>,
    executable: Executable,
    database_url: String,
    bus: Bus,
    listen: String,
    logs: PathBuf,
}

impl Fleet {
    /// The API.
    pub const API: usize = 0;
    /// The processes that handle messages.
    pub const WORKERS: [usize; 2] = [1, 2];
    /// The processes that publish messages to an external bus.
    pub const RELAYS: [usize; 2] = [3, 4];

    /// Starts all processes and waits until the API is ready.
    pub async fn start(executable: &Executable, database: &PrivateDatabase, bus: &Bus) -> Self {
        let mut fleet = Self::without_processes(executable, database, bus);
        let size = if bus.is_external() { ROLES.len() } else { WITHOUT_RELAYS };
        (0..size).for_each(|number| fleet.start_process(number));
        fleet.wait_until_ready(Self::API).await;
        fleet
    }

    /// Creates a fleet without starting any process.
    pub fn without_processes(executable: &Executable, database: &PrivateDatabase, bus: &Bus) -> Self {
        Self {
            processes: BTreeMap::new(),
            executable: executable.clone(),
            database_url: database.url().to_owned(),
            bus: bus.clone(),
            listen: format!("127.0.0.1:{}", free_port()),
            logs: database.scratch().path().to_owned(),
        }
    }

    /// Returns the number of processes.
    pub fn size(&self) -> usize {
        self.processes.len()
    }

    /// Returns the URL of the API.
    pub fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// Starts one process.
    pub fn start_process(&mut self, number: usize) {
        let bus = self.bus.clone();
        self.start_process_on(number, &bus);
    }

    /// Starts one process that uses another address of the bus.
    pub fn start_process_on(&mut self, number: usize, bus: &Bus) {
        self.processes.insert(number, self.launch(number, bus));
    }

    /// Waits until a process that serves the API is ready.
    pub async fn wait_until_ready(&mut self, number: usize) {
        let url = self.url();
        self.process(number).wait_until_ready(&url).await;
    }

    fn process(&mut self, number: usize) -> &mut ServerProcess {
        self.processes.get_mut(&number).expect("the process was started")
    }

    /// Kills one process at whatever point it is.
    pub async fn kill(&mut self, number: usize) {
        self.process(number).kill().await;
        self.processes.remove(&number);
    }

    /// Kills one process at whatever point it is and starts its replacement immediately.
    pub async fn kill_and_replace(&mut self, number: usize) {
        self.kill(number).await;
        self.start_process(number);
    }

    /// Stops every process. Panics unless each exits successfully.
    pub async fn stop(mut self) {
        for process in self.processes.values_mut() {
            let status = process.terminate().await;
            assert!(status.success(), "a process exited with {status}");
        }
    }

    fn launch(&self, number: usize, bus: &Bus) -> ServerProcess {
        let mut variables = bus.variables().to_vec();
        variables.extend([
            ("DATABASE_URL", self.database_url.as_str()),
            ("ONCEWARD_AUTH_SECRET", SECRET),
            ("ONCEWARD_HTTP_LISTEN", &self.listen),
            // No load balancer has to learn of the shutdown first.
            ("ONCEWARD_SHUTDOWN_DRAIN_MS", "0"),
            ("RUST_LOG", "warn"),
        ]);
        let log = self.logs.join(format!("process-{number}.log"));
        self.executable.start(ROLES[number], &variables, &log)
    }
}

/// Returns a free port outside the range of outgoing connections, so that it is still free when a killed API restarts.
pub fn free_port() -> u16 {
    let mut rng = rand::rng();
    (0..PORT_ATTEMPTS)
        .map(|_| rng.random_range(20_000..32_000))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("one of many ports is free")
}
