//! Kafka for tests. Debian has no package for it, so its jars are downloaded from Maven Central, once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use onceward_local_brokers::{KafkaPrograms, stop_detached};

use super::{Running, Service, Substitute, broker};
use crate::error::XtaskError;
use crate::install::{JAVA, MAVEN, Requirement};
use crate::workspace::status_within;

const VERSION: &str = "4.3.1";
/// Kafka's logging library, in the version that matches Kafka's own logging code.
const LOG4J_VERSION: &str = "2.25.4";
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy-dependencies";
const MAVEN_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The folder contains the jars (`libs`) and the server (`server`).
pub(super) struct KafkaService;

impl Service for KafkaService {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn variable(&self) -> &'static str {
        "ONCEWARD_TEST_KAFKA_URL"
    }

    fn requirements(&self, folder: &Path) -> Vec<&'static Requirement> {
        if is_fetched(folder) { vec![&JAVA] } else { vec![&JAVA, &MAVEN] }
    }

    fn fetch(&self, folder: &Path) -> Result<(), XtaskError> {
        if is_fetched(folder) {
            return Ok(());
        }
        eprintln!("getting Kafka {VERSION} from Maven Central (46 jars, 45 MB)");
        let (libs, unfinished) = (folder.join("libs"), folder.join("libs.new"));
        fs::create_dir_all(folder).map_err(XtaskError::of("create Kafka's folder"))?;
        fs::write(folder.join("pom.xml"), pom()).map_err(XtaskError::of("write Kafka's pom.xml"))?;
        remove(&unfinished)?;
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", COPY, "-DincludeScope=runtime", "-DoutputDirectory=libs.new"]);
        // Our stdout may be JSON for another program.
        maven.current_dir(folder).stdin(Stdio::null()).stdout(io::stderr());
        if !status_within(&mut maven, MAVEN_TIMEOUT)?.success() {
            return Err(XtaskError::Failed("Maven could not get Kafka; its output is above".to_owned()));
        }
        // Jars of two versions in one folder would not work as either.
        remove(&libs)?;
        fs::rename(&unfinished, &libs).map_err(XtaskError::of("put Kafka's jars in their place"))
    }

    fn start(&self, folder: &Path) -> Result<Running, XtaskError> {
        broker::start(&KafkaPrograms::in_home(&home(folder))?, &server(folder))
    }

    fn find(&self, folder: &Path) -> Result<Option<Running>, XtaskError> {
        broker::find(&server(folder))
    }

    fn stop(&self, folder: &Path) -> Result<(), XtaskError> {
        Ok(stop_detached(&server(folder))?)
    }

    /// Names Kafka's folder, for tests that start their own Kafka.
    fn further_variable(&self, folder: &Path) -> Option<(&'static str, String)> {
        Some(("ONCEWARD_KAFKA_HOME", home(folder).to_string_lossy().into_owned()))
    }

    fn substitute(&self) -> Option<Substitute> {
        let note = "a few tests of its client ran against librdkafka's in-process cluster";
        Some(Substitute { variable: "ONCEWARD_TEST_KAFKA", value: "mock", note })
    }
}

fn home(folder: &Path) -> PathBuf {
    KafkaPrograms::named_home().unwrap_or_else(|| folder.to_path_buf())
}

fn server(folder: &Path) -> PathBuf {
    folder.join("server")
}

fn is_fetched(folder: &Path) -> bool {
    KafkaPrograms::named_home().is_some() || folder.join(format!("libs/kafka_2.13-{VERSION}.jar")).exists()
}

fn remove(folder: &Path) -> Result<(), XtaskError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(XtaskError::of("remove old jars of Kafka")(error)),
        _ => Ok(()),
    }
}

fn pom() -> String {
    let dependency = |group: &str, artifact: &str, version: &str| {
        format!(
            "    <dependency>\n      <groupId>{group}</groupId>\n      <artifactId>{artifact}</artifactId>\n      \
             <version>{version}</version>\n    </dependency>\n"
        )
    };
    let kafka = dependency("org.apache.kafka", "kafka_2.13", VERSION);
    let log = dependency("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  \
         <modelVersion>4.0.0</modelVersion>\n  <groupId>onceward</groupId>\n  <artifactId>kafka-for-tests</artifactId>\n  \
         <version>1</version>\n  <packaging>pom</packaging>\n  <dependencies>\n{kafka}{log}  </dependencies>\n</project>\n"
    )
}
