//! RabbitMQ, with an epmd (Erlang's directory of nodes) of its own, so that any number of nodes run side by side.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::broker::{Broker, Place, Recipe};
use crate::files::write_private;
use crate::{Error, Server, probe, programs};

/// A private RabbitMQ node without plugins.
///
/// It survives a kill, but RabbitMQ answers a declaration a moment before its commit is on disk: whoever kills a node
/// right after declaring a queue may find the queue gone.
pub type RabbitMq = Server<RabbitMqPrograms>;

const USER: &str = "onceward";
/// Part of the data, so it is the same at every start.
const NODE: &str = "onceward@localhost";

/// Where `rabbitmq-server` and `epmd` are.
#[derive(Debug, Clone)]
pub struct RabbitMqPrograms {
    server: PathBuf,
    epmd: PathBuf,
}

impl Broker for RabbitMqPrograms {
    const NAME: &'static str = "RabbitMQ";

    fn find() -> Result<RabbitMqPrograms, Error> {
        let missing = |what: &str| Error::Missing {
            name: Self::NAME,
            what: what.to_owned(),
            install: "Install Debian's package rabbitmq-server, or `brew install rabbitmq`",
        };
        // Debian's script in PATH insists on the account of its system service; the one behind it does not.
        let server = programs::find("rabbitmq-server", &["/usr/lib/rabbitmq/bin"])
            .ok_or_else(|| missing("there is no `rabbitmq-server` in /usr/lib/rabbitmq/bin or PATH"))?;
        let epmd = programs::find("epmd", &["/usr/lib/erlang/bin"])
            .ok_or_else(|| missing("there is no `epmd` in /usr/lib/erlang/bin or PATH"))?;
        Ok(RabbitMqPrograms { server, epmd })
    }
}

impl Recipe for RabbitMqPrograms {
    /// For clients, for other nodes, for epmd.
    const PORTS: usize = 3;

    fn prepare(&self, place: &Place) -> Result<(), Error> {
        for name in ["home", "data", "conf.d"] {
            let folder = place.path(name);
            fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        }
        write_private(&place.path("rabbitmq-env.conf"), "")?;
        write_private(&place.path("enabled_plugins"), "[].\n")?;
        write_private(&place.path("rabbitmq.conf"), &configuration(place))
    }

    fn companion(&self, place: &Place) -> Option<(Command, u16)> {
        let port = place.ports[2];
        let mut command = programs::command(&self.epmd, place, &["ERL_"]);
        // In the foreground. Left to itself, RabbitMQ starts one as a daemon, which then outlives everybody.
        command.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
        Some((command, port))
    }

    fn command(&self, place: &Place) -> Command {
        let mut command = programs::command(&self.server, place, &["RABBITMQ_", "ERL_", "NOTIFY_SOCKET"]);
        for (variable, name) in [
            ("HOME", "home"),
            ("RABBITMQ_CONF_ENV_FILE", "rabbitmq-env.conf"),
            ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
            ("RABBITMQ_CONFIG_FILES", "conf.d"),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", "advanced.config"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "enabled_plugins"),
            ("RABBITMQ_MNESIA_BASE", "data"),
            ("RABBITMQ_LOG_BASE", "data"),
            ("RABBITMQ_PID_FILE", "pid"),
        ] {
            command.env(variable, place.path(name));
        }
        command
            .env("RABBITMQ_NODENAME", NODE)
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_DIST_PORT", place.ports[1].to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", place.ports[2].to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}")
            // The script then becomes the server instead of staying as a shell around it.
            .env("RUNNING_UNDER_SYSTEMD", "true");
        command
    }

    fn answers(place: &Place) -> bool {
        // A greeting in the protocol's version is answered with a method frame on channel 0: connection.start.
        probe::ask(place.port(), b"AMQP\x00\x00\x09\x01").is_ok_and(|answer: [u8; 3]| answer == [1, 0, 0])
    }

    fn url(place: &Place) -> String {
        format!("amqp://{USER}:{}@127.0.0.1:{}/%2f", place.password, place.port())
    }
}

/// The limit of free disk space is that low because below it RabbitMQ holds publishers back without an error.
fn configuration(place: &Place) -> String {
    format!(
        "listeners.tcp.1 = 127.0.0.1:{}\ndefault_user = {USER}\ndefault_pass = {}\ndisk_free_limit.absolute = 1MB\n\
         raft.wal_max_size_bytes = 67108864\nlog.console = true\nlog.console.level = info\nlog.file = false\n",
        place.port(),
        place.password
    )
}
