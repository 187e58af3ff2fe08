//! Apache Kafka: one node in KRaft mode, broker and controller at once.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::broker::{LocalBroker, ServerInstance, ServerSpec};
use crate::files::write_private;
use crate::{LocalBrokerError, Server, probe, programs};

/// A private Kafka with one node.
pub type Kafka = Server<KafkaPrograms>;

const OLDEST_JAVA: u32 = 17;
const INSTALL: &str =
    "Install Java 17 or newer, and set ONCEWARD_KAFKA_HOME to a folder with Kafka's libs/*.jar (its download is one)";
/// Sixteen bytes in Kafka's base64; a cluster of one node needs no unique id.
const CLUSTER_ID: &str = "b25jZXdhcmQtbG9jYWwtMQ";

const LOGGING: &str = "status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1} %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
";

/// Where Java and Kafka's jars are.
#[derive(Debug, Clone)]
pub struct KafkaPrograms {
    java: PathBuf,
    home: PathBuf,
}

impl KafkaPrograms {
    /// Java from PATH, if it is new enough for Kafka.
    pub fn java() -> Result<PathBuf, LocalBrokerError> {
        let java = programs::find("java", &[]).ok_or_else(|| missing("there is no `java` in PATH".to_owned()))?;
        let output = Command::new(&java).arg("-version").output().map_err(LocalBrokerError::io("run", &java))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        match java_version(&text) {
            Some(version) if version >= OLDEST_JAVA => Ok(java),
            _ => Err(missing(format!("`java -version` says {:?}", text.lines().next().unwrap_or_default()))),
        }
    }

    /// Java from PATH with the jars in `home`'s folder `libs`.
    pub fn in_home(home: &Path) -> Result<KafkaPrograms, LocalBrokerError> {
        let java = KafkaPrograms::java()?;
        let home = fs::canonicalize(home).map_err(LocalBrokerError::io("find", home))?;
        if !has_jars(&home) {
            return Err(missing(format!("{} has no libs/kafka_*.jar", home.display())));
        }
        Ok(KafkaPrograms { java, home })
    }

    /// Returns the folder in `ONCEWARD_KAFKA_HOME`, or else in `KAFKA_HOME`.
    pub fn named_home() -> Option<PathBuf> {
        let value = |name: &&str| env::var_os(name).filter(|home| !home.is_empty());
        ["ONCEWARD_KAFKA_HOME", "KAFKA_HOME"].iter().find_map(value).map(PathBuf::from)
    }

    /// The folder that holds `libs`.
    pub fn home(&self) -> &Path {
        &self.home
    }

    fn jvm(&self, instance: &ServerInstance) -> Command {
        let mut command = programs::command(&self.java, instance, &["KAFKA_"]);
        // Optimised for a quick start and little memory, not for throughput.
        command.args(["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.args(["-XX:+ExitOnOutOfMemoryError", "-Dlog4j2.configurationFile=log4j2.properties"]);
        command.arg("-cp").arg(self.home.join("libs/*"));
        command
    }
}

impl LocalBroker for KafkaPrograms {
    const NAME: &'static str = "Kafka";

    /// Uses `ONCEWARD_KAFKA_HOME`, `KAFKA_HOME`, or the folder where `cargo xtask services` installs Kafka.
    fn find() -> Result<KafkaPrograms, LocalBrokerError> {
        match KafkaPrograms::named_home().or_else(beside_this_program) {
            Some(home) => KafkaPrograms::in_home(&home),
            None => Err(missing("neither ONCEWARD_KAFKA_HOME nor KAFKA_HOME names a folder with its jars".to_owned())),
        }
    }
}

impl ServerSpec for KafkaPrograms {
    /// For clients, for the controller.
    const PORTS: usize = 2;

    fn prepare(&self, instance: &ServerInstance) -> Result<(), LocalBrokerError> {
        write_private(&instance.path("log4j2.properties"), LOGGING)?;
        write_private(&instance.path("server.properties"), &configuration(instance))?;
        if instance.path("data/meta.properties").exists() {
            return Ok(());
        }
        let mut format = self.jvm(instance);
        format.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", "server.properties"]);
        let output = format.output().map_err(LocalBrokerError::io("run", &self.java))?;
        if output.status.success() {
            return Ok(());
        }
        let text = [output.stdout, output.stderr].concat();
        Err(LocalBrokerError::ProgramFailed {
            program: "kafka.tools.StorageTool format".to_owned(),
            output: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    fn command(&self, instance: &ServerInstance) -> Command {
        let mut command = self.jvm(instance);
        command.args(["kafka.Kafka", "server.properties"]);
        command
    }

    fn is_ready(instance: &ServerInstance) -> bool {
        // Metadata request, version 1, without topics: length, key, version, correlation, no client id, empty list. The
        // response has length, correlation and the number of brokers, which is 0 until the node has joined its cluster.
        let request = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0];
        probe::request(instance.port(), &request)
            .is_ok_and(|response: [u8; 12]| response[4..] == [0, 0, 0, 7, 0, 0, 0, 1])
    }

    fn url(instance: &ServerInstance) -> String {
        format!("kafka://127.0.0.1:{}", instance.port())
    }
}

/// Paths are relative to the server's folder, where it runs, so that none needs escaping.
fn configuration(instance: &ServerInstance) -> String {
    let (client, controller) = (instance.ports[0], instance.ports[1]);
    format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{client}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\nlog.dirs=data\n\
         offsets.topic.replication.factor=1\noffsets.topic.num.partitions=4\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=4\nmin.insync.replicas=1\n\
         group.initial.rebalance.delay.ms=0\nauto.create.topics.enable=false\n"
    )
}

/// `openjdk version "17.0.15" 2025-04-15` → 17; `java version "1.8.0_401"` → 1, which is too old.
fn java_version(text: &str) -> Option<u32> {
    let version = text.split('"').nth(1)?;
    version.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

fn has_jars(home: &Path) -> bool {
    let Ok(entries) = fs::read_dir(home.join("libs")) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("kafka_") && name.ends_with(".jar")
    })
}

/// `target/services/kafka`, seen from `target/debug/deps/some_test`.
fn beside_this_program() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    program.ancestors().skip(1).map(|folder| folder.join("services/kafka")).find(|home| has_jars(home))
}

fn missing(what: String) -> LocalBrokerError {
    LocalBrokerError::Missing { name: KafkaPrograms::NAME, what, install: INSTALL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_old_java_versions_are_parsed() {
        assert_eq!(java_version("openjdk version \"17.0.15\" 2025-04-15\n"), Some(17));
        assert_eq!(java_version("java version \"21\" 2023-09-19 LTS\n"), Some(21));
        assert_eq!(java_version("java version \"1.8.0_401\"\n"), Some(1));
        assert_eq!(java_version("command not found"), None);
    }

    #[test]
    fn a_folder_without_jars_is_rejected() {
        let error = KafkaPrograms::in_home(Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("/ has no libs/kafka_*.jar") && error.contains("cargo xtask services up"), "{error}");
    }
}
