//! RabbitMQ, with its own epmd (Erlang's port mapper), so that any number of nodes can run side by side.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::broker::{LocalBroker, ServerInstance, ServerSpec};
use crate::files::write_private;
use crate::{LocalBrokerError, Server, probe, programs};

/// A private RabbitMQ node, without plugins unless [`RabbitMqPrograms::with_management`] asks for one.
///
/// Its data survives a kill, but RabbitMQ confirms a declaration a moment before its commit is on disk: a queue declared
/// right before a kill may be lost.
pub type RabbitMq = Server<RabbitMqPrograms>;

const USER: &str = "onceward";
/// Part of the data, so it is the same at every start.
const NODE: &str = "onceward@localhost";

/// Where `rabbitmq-server` and `epmd` are.
#[derive(Debug, Clone)]
pub struct RabbitMqPrograms {
    server: PathBuf,
    epmd: PathBuf,
    management: bool,
}

impl RabbitMqPrograms {
    /// The same for a node with the management API.
    #[must_use]
    pub fn with_management(self) -> Self {
        Self { management: true, ..self }
    }
}

impl Server<RabbitMqPrograms> {
    /// Where the management API is, if the node has it. Credentials are those of [`Server::url`].
    pub fn management_url(&self) -> Option<String> {
        let instance = self.instance();
        let url = || format!("http://{USER}:{}@127.0.0.1:{}", instance.password, instance.ports[3]);
        self.programs().management.then(url)
    }
}

impl LocalBroker for RabbitMqPrograms {
    const NAME: &'static str = "RabbitMQ";

    fn find() -> Result<RabbitMqPrograms, LocalBrokerError> {
        let missing = |what: &str| LocalBrokerError::Missing {
            name: Self::NAME,
            what: what.to_owned(),
            install: "Install Debian's package rabbitmq-server, or `brew install rabbitmq`",
        };
        // Debian's script in PATH requires the account of its system service; this one does not.
        let server = programs::find("rabbitmq-server", &["/usr/lib/rabbitmq/bin"])
            .ok_or_else(|| missing("there is no `rabbitmq-server` in /usr/lib/rabbitmq/bin or PATH"))?;
        let epmd = programs::find("epmd", &["/usr/lib/erlang/bin"])
            .ok_or_else(|| missing("there is no `epmd` in /usr/lib/erlang/bin or PATH"))?;
        Ok(RabbitMqPrograms { server, epmd, management: false })
    }
}

impl ServerSpec for RabbitMqPrograms {
    /// For clients, for other nodes, for epmd, for the management API.
    const PORTS: usize = 4;

    fn prepare(&self, instance: &ServerInstance) -> Result<(), LocalBrokerError> {
        for name in ["home", "data", "conf.d"] {
            let folder = instance.path(name);
            fs::create_dir_all(&folder).map_err(LocalBrokerError::io("create", &folder))?;
        }
        write_private(&instance.path("rabbitmq-env.conf"), "")?;
        let (plugins, listener) = match self.management {
            true => (
                "[rabbitmq_management].\n",
                format!("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {}\n", instance.ports[3]),
            ),
            false => ("[].\n", String::new()),
        };
        write_private(&instance.path("enabled_plugins"), plugins)?;
        write_private(&instance.path("rabbitmq.conf"), &(configuration(instance) + &listener))
    }

    fn companion(&self, instance: &ServerInstance) -> Option<(Command, u16)> {
        let port = instance.ports[2];
        let mut command = programs::command(&self.epmd, instance, &["ERL_"]);
        // In the foreground. Otherwise RabbitMQ would start one as a daemon, which would outlive the node.
        command.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
        Some((command, port))
    }

    fn command(&self, instance: &ServerInstance) -> Command {
        let mut command = programs::command(&self.server, instance, &["RABBITMQ_", "ERL_", "NOTIFY_SOCKET"]);
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
            command.env(variable, instance.path(name));
        }
        command
            .env("RABBITMQ_NODENAME", NODE)
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_DIST_PORT", instance.ports[1].to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", instance.ports[2].to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}")
            // Makes the script exec the server instead of staying around it as a shell.
            .env("RUNNING_UNDER_SYSTEMD", "true");
        command
    }

    fn is_ready(instance: &ServerInstance) -> bool {
        // The server replies to the protocol header with a method frame on channel 0: connection.start.
        probe::request(instance.port(), b"AMQP\x00\x00\x09\x01").is_ok_and(|response: [u8; 3]| response == [1, 0, 0])
    }

    fn url(instance: &ServerInstance) -> String {
        format!("amqp://{USER}:{}@127.0.0.1:{}/%2f", instance.password, instance.port())
    }
}

/// The limit of free disk space is low, because below it RabbitMQ blocks publishers without an error.
fn configuration(instance: &ServerInstance) -> String {
    format!(
        "listeners.tcp.1 = 127.0.0.1:{}\ndefault_user = {USER}\ndefault_pass = {}\ndisk_free_limit.absolute = 1MB\n\
         raft.wal_max_size_bytes = 67108864\nlog.console = true\nlog.console.level = info\nlog.file = false\n",
        instance.port(),
        instance.password
    )
}
