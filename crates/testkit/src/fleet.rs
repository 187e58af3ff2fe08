//! A platform as several processes, each of which may be killed.

use crate::{Bus, Executable, PrivateDatabase, Program, SECRET};
use rand::RngExt;
use std::{collections::BTreeMap, net::TcpListener, path::PathBuf};

const PORT_ATTEMPTS: usize = 100;

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

/// One API and two workers, and on an external bus two relays. They go by their numbers.
pub struct Fleet {
    programs: BTreeMap<usize, Program>,
    executable: Executable,
    database_url: String,
    bus: Bus,
    listen: String,
    logs: PathBuf,
}

impl Fleet {
    /// The API.
    pub const API: usize = 0;
    /// Those who handle messages.
    pub const WORKERS: [usize; 2] = [1, 2];
    /// Those who carry messages to an external bus.
    pub const RELAYS: [usize; 2] = [3, 4];

    /// Starts them all and waits until the API takes traffic.
    pub async fn start(executable: &Executable, database: &PrivateDatabase, bus: &Bus) -> Self {
        let mut fleet = Self::nobody(executable, database, bus);
        let size = if bus.is_external() { ROLES.len() } else { WITHOUT_RELAYS };
        (0..size).for_each(|number| fleet.begin(number));
        fleet.ready(Self::API).await;
        fleet
    }

    /// Starts none of them.
    pub fn nobody(executable: &Executable, database: &PrivateDatabase, bus: &Bus) -> Self {
        Self {
            programs: BTreeMap::new(),
            executable: executable.clone(),
            database_url: database.url().to_owned(),
            bus: bus.clone(),
            listen: format!("127.0.0.1:{}", free_port()),
            logs: database.scratch().path().to_owned(),
        }
    }

    /// How many processes there are.
    pub fn size(&self) -> usize {
        self.programs.len()
    }

    /// Where the API is.
    pub fn url(&self) -> String {
        format!("http://{}", self.listen)
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
        let url = self.url();
        self.program(number).ready(&url).await;
    }

    fn program(&mut self, number: usize) -> &mut Program {
        self.programs.get_mut(&number).expect("it was begun")
    }

    /// Kills one process in whatever it is doing.
    pub async fn kill(&mut self, number: usize) {
        self.program(number).kill().await;
        self.programs.remove(&number);
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
        let mut variables = bus.variables().to_vec();
        variables.extend([
            ("DATABASE_URL", self.database_url.as_str()),
            ("ONCEWARD_AUTH_SECRET", SECRET),
            ("ONCEWARD_HTTP_LISTEN", &self.listen),
            ("RUST_LOG", "warn"),
        ]);
        let log = self.logs.join(format!("process-{number}.log"));
        self.executable.start(ROLES[number], &variables, &log)
    }
}

/// A free port outside the range that outgoing connections use, so that it is still free when a killed API comes back.
pub fn free_port() -> u16 {
    let mut rng = rand::rng();
    (0..PORT_ATTEMPTS)
        .map(|_| rng.random_range(20_000..32_000))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("one of many ports is free")
}
