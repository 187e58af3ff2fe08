//! Apache Kafka: one node in KRaft mode, broker and controller at once.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::broker::{Broker, Place, Recipe};
use crate::files::write_private;
use crate::{Error, Server, probe, programs};

/// A private Kafka with one node.
pub type Kafka = Server<KafkaPrograms>;

const OLDEST_JAVA: u32 = 17;
const INSTALL: &str =
    "Install Java 17 or newer, and set ONCEWARD_KAFKA_HOME to a folder with Kafka's libs/*.jar (its download is one)";
/// Sixteen bytes in Kafka's own base64; a cluster of one node needs no name that nobody else has.
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
    pub fn java() -> Result<PathBuf, Error> {
        let java = programs::find("java", &[]).ok_or_else(|| missing("there is no `java` in PATH".to_owned()))?;
        let output = Command::new(&java).arg("-version").output().map_err(Error::io("run", &java))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        match java_version(&text) {
            Some(version) if version >= OLDEST_JAVA => Ok(java),
            _ => Err(missing(format!("`java -version` says {:?}", text.lines().next().unwrap_or_default()))),
        }
    }

    /// Java from PATH with the jars in `home`'s folder `libs`.
    pub fn in_home(home: &Path) -> Result<KafkaPrograms, Error> {
        let java = KafkaPrograms::java()?;
        let home = fs::canonicalize(home).map_err(Error::io("find", home))?;
        if !has_jars(&home) {
            return Err(missing(format!("{} has no libs/kafka_*.jar", home.display())));
        }
        Ok(KafkaPrograms { java, home })
    }

    /// What `ONCEWARD_KAFKA_HOME`, or else `KAFKA_HOME`, names.
    pub fn named_home() -> Option<PathBuf> {
        let value = |name: &&str| env::var_os(name).filter(|home| !home.is_empty());
        ["ONCEWARD_KAFKA_HOME", "KAFKA_HOME"].iter().find_map(value).map(PathBuf::from)
    }

    /// The folder that holds `libs`.
    pub fn home(&self) -> &Path {
        &self.home
    }

    fn jvm(&self, place: &Place) -> Command {
        let mut command = programs::command(&self.java, place, &["KAFKA_"]);
        // Quick to start and small, rather than fast after an hour.
        command.args(["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.args(["-XX:+ExitOnOutOfMemoryError", "-Dlog4j2.configurationFile=log4j2.properties"]);
        command.arg("-cp").arg(self.home.join("libs/*"));
        command
    }
}

impl Broker for KafkaPrograms {
    const NAME: &'static str = "Kafka";

    /// In `ONCEWARD_KAFKA_HOME`, `KAFKA_HOME`, or where `cargo xtask services` has put it beside the running program.
    fn find() -> Result<KafkaPrograms, Error> {
        match KafkaPrograms::named_home().or_else(beside_this_program) {
            Some(home) => KafkaPrograms::in_home(&home),
            None => Err(missing("neither ONCEWARD_KAFKA_HOME nor KAFKA_HOME names a folder with its jars".to_owned())),
        }
    }
}

impl Recipe for KafkaPrograms {
    /// For clients, for the controller.
    const PORTS: usize = 2;

    fn prepare(&self, place: &Place) -> Result<(), Error> {
        write_private(&place.path("log4j2.properties"), LOGGING)?;
        write_private(&place.path("server.properties"), &configuration(place))?;
        if place.path("data/meta.properties").exists() {
            return Ok(());
        }
        let mut format = self.jvm(place);
        format.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", "server.properties"]);
        let output = format.output().map_err(Error::io("run", &self.java))?;
        if output.status.success() {
            return Ok(());
        }
        let text = [output.stdout, output.stderr].concat();
        Err(Error::ProgramFailed {
            program: "kafka.tools.StorageTool format".to_owned(),
            output: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    fn command(&self, place: &Place) -> Command {
        let mut command = self.jvm(place);
        command.args(["kafka.Kafka", "server.properties"]);
        command
    }

    fn answers(place: &Place) -> bool {
        // Metadata, version 1, of no topic: length, key, version, correlation, no client id, empty list. The answer has
        // length, correlation and the number of brokers, which is 0 until the node has joined its own cluster.
        let question = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0];
        probe::ask(place.port(), &question).is_ok_and(|answer: [u8; 12]| answer[4..] == [0, 0, 0, 7, 0, 0, 0, 1])
    }

    fn url(place: &Place) -> String {
        format!("kafka://127.0.0.1:{}", place.port())
    }
}

/// Paths are relative to the server's folder, where it runs: nothing in them needs escaping.
fn configuration(place: &Place) -> String {
    let (client, controller) = (place.ports[0], place.ports[1]);
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

/// `openjdk version "17.0.15" 2025-04-15` → 17; `java version "1.8.0_401"` → 1, which is old enough to refuse.
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

fn missing(what: String) -> Error {
    Error::Missing { name: KafkaPrograms::NAME, what, install: INSTALL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_new_and_old_java_are_read() {
        assert_eq!(java_version("openjdk version \"17.0.15\" 2025-04-15\n"), Some(17));
        assert_eq!(java_version("java version \"21\" 2023-09-19 LTS\n"), Some(21));
        assert_eq!(java_version("java version \"1.8.0_401\"\n"), Some(1));
        assert_eq!(java_version("command not found"), None);
    }

    #[test]
    fn a_folder_without_jars_is_refused_by_name() {
        let error = KafkaPrograms::in_home(Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("/ has no libs/kafka_*.jar") && error.contains("cargo xtask services up"), "{error}");
    }
}
