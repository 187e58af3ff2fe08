//! What is particular to one kind of server: where its programs are, how it is set up, called and asked.

use std::fmt::Debug;
use std::path::PathBuf;
use std::process::Command;

use crate::Error;
use crate::ports::Ports;

/// The programs of one kind of server.
pub trait Broker: Recipe + Clone + Debug + Send + Sync {
    /// The server's name as people write it.
    const NAME: &'static str;

    /// Looks for the programs on this machine. The error says what to install.
    fn find() -> Result<Self, Error>;
}

/// The part of [`Broker`] that only this crate calls.
pub trait Recipe: Sized {
    /// How many loopback ports the server needs. Clients use the first.
    const PORTS: usize;

    /// Writes the configuration, and what the first start needs.
    fn prepare(&self, place: &Place) -> Result<(), Error>;

    /// A program that must run beside the server, and the port that shows that it does.
    fn companion(&self, _place: &Place) -> Option<(Command, u16)> {
        None
    }

    /// The server itself, in the foreground, without a shell in between: its pid is the server's.
    fn command(&self, place: &Place) -> Command;

    /// Whether it serves clients by now.
    fn answers(place: &Place) -> bool;

    /// How clients reach it.
    fn url(place: &Place) -> String;
}

/// Where one server lives. No `Debug`: it holds the password.
pub struct Place {
    /// Its folder, absolute.
    pub folder: PathBuf,
    /// Its ports on 127.0.0.1.
    pub ports: Ports,
    /// Its clients' password.
    pub password: String,
}

impl Place {
    /// The port that clients use.
    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// A path in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where its log is.
    pub fn log(&self) -> PathBuf {
        self.path("log")
    }
}
