//! What differs between kinds of servers: finding the programs, configuration, command line, and readiness.

use std::fmt::Debug;
use std::path::PathBuf;
use std::process::Command;

use crate::LocalBrokerError;
use crate::ports::Ports;

/// The programs of one kind of server.
pub trait LocalBroker: ServerSpec + Clone + Debug + Send + Sync {
    /// The server's name for people.
    const NAME: &'static str;

    /// Finds the programs on this machine. Fails with what to install.
    fn find() -> Result<Self, LocalBrokerError>;
}

/// The part of [`LocalBroker`] that only this crate calls.
pub trait ServerSpec: Sized {
    /// The number of loopback ports that the server needs. Clients use the first.
    const PORTS: usize;

    /// Writes the configuration, and initialises the data before the first start.
    fn prepare(&self, instance: &ServerInstance) -> Result<(), LocalBrokerError>;

    /// A program that must run beside the server, and the port on which it accepts connections once ready.
    fn companion(&self, _instance: &ServerInstance) -> Option<(Command, u16)> {
        None
    }

    /// The command of the server, in the foreground and without a shell in between, so that the child's pid is the server's.
    fn command(&self, instance: &ServerInstance) -> Command;

    /// Whether the server is ready for clients.
    fn is_ready(instance: &ServerInstance) -> bool;

    /// The URL for clients.
    fn url(instance: &ServerInstance) -> String;
}

/// The folder, ports and password of one server. No `Debug`: it holds the password.
pub struct ServerInstance {
    /// Its folder, absolute.
    pub folder: PathBuf,
    /// Its ports on 127.0.0.1.
    pub ports: Ports,
    /// Its clients' password.
    pub password: String,
}

impl ServerInstance {
    /// The port that clients use.
    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// A path in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The path of its log.
    pub fn log(&self) -> PathBuf {
        self.path("log")
    }
}
