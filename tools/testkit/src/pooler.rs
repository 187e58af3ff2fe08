//! A PgBouncer that only one test uses.

use crate::{Scratch, free_port};
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Stdio},
};
use tokio_postgres::config::Host;

/// Debian installs it in a folder that only root's PATH contains.
const PROGRAMS: [&str; 2] = ["/usr/sbin/pgbouncer", "pgbouncer"];
/// The user `nobody`, for when we are root and the server is reached over TCP.
const NOBODY: u32 = 65534;

/// The default number of server sessions.
const POOL_SIZE: usize = 5;

/// PgBouncer in transaction mode in front of a server; dropping it stops the process.
pub struct Pooler {
    port: u16,
    database: String,
    child: Child,
    _scratch: Scratch,
}

impl Pooler {
    /// Starts one in front of the database at `url`, on the given port of 127.0.0.1. Does not wait until it responds.
    pub fn start_at(url: &str, port: u16) -> Self {
        Self::start_with(url, port, POOL_SIZE)
    }

    /// Starts one with `pool_size` server sessions on a free port.
    pub fn with_pool_size(url: &str, pool_size: usize) -> Self {
        Self::start_with(url, free_port(), pool_size)
    }

    fn start_with(url: &str, port: u16, pool_size: usize) -> Self {
        let scratch = Scratch::new();
        let (server, database, owner) = server(url);
        let file = scratch.join("pgbouncer.ini");
        let settings = format!(
            "[databases]\n* = {server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\nadmin_users = onceward\npool_mode = transaction\ndefault_pool_size = {pool_size}\n"
        );
        fs::write(&file, settings).expect("the temp folder is writable");
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
        let program = PROGRAMS.into_iter().find(|name| Path::new(name).exists()).unwrap_or(PROGRAMS[1]);
        let mut command = Command::new(program);
        command.arg("-q").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
            // It refuses to run as root.
            command.uid(owner.0).gid(owner.1);
        }
        let child = command.spawn().expect("tests need PgBouncer; `cargo xtask test` installs it");
        Self { port, database, child, _scratch: scratch }
    }

    /// Starts one on a free port.
    pub fn start(url: &str) -> Self {
        Self::start_at(url, free_port())
    }

    /// Returns the URL of the database through it.
    pub fn url(&self) -> String {
        self.url_of(&self.database)
    }

    /// Returns the URL of its console, which accepts commands such as `RECONNECT`.
    pub fn console_url(&self) -> String {
        self.url_of("pgbouncer")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://onceward@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns PgBouncer's server string for a URL, the database, and the account that may access its socket.
fn server(url: &str) -> (String, String, (u32, u32)) {
    let config: tokio_postgres::Config = url.parse().expect("a PostgreSQL URL");
    let (host, owner) = match config.get_hosts().first() {
        Some(Host::Unix(folder)) => {
            let metadata = fs::metadata(folder).expect("the socket's folder");
            (folder.display().to_string(), (metadata.uid(), metadata.gid()))
        }
        Some(Host::Tcp(host)) => (host.clone(), (NOBODY, NOBODY)),
        None => panic!("{url} names no host"),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let mut server = format!("host={host} port={port} user={}", config.get_user().unwrap_or("onceward"));
    if let Some(password) = config.get_password() {
        server.push_str(&format!(" password={}", String::from_utf8_lossy(password)));
    }
    (server, config.get_dbname().unwrap_or("postgres").to_owned(), owner)
}
