//! What building and testing need, which Debian packages bring it, and how to see that it is there.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use onceward_local_brokers::{Broker, KafkaPrograms, RabbitMqPrograms, RedisPrograms};
use onceward_local_postgres::Programs;

/// Something to be installed.
pub(crate) struct Need {
    /// Debian packages.
    pub(super) packages: &'static [&'static str],
    /// System services that the packages bring and that nobody wants to run.
    pub(super) units: &'static [&'static str],
    /// The variable by which a user names his own. Then nothing is installed.
    pub(super) named_by: Option<&'static str>,
    /// Whether the check is right everywhere. Else, without apt-get, it only warns.
    pub(super) certain: bool,
    /// The error says what is missing, and what to do on systems other than Debian.
    pub(super) check: fn() -> Result<(), String>,
}

/// A C and C++ compiler with make, and OpenSSL's headers: librdkafka is built from source, by its own configure script.
pub(crate) const BUILD_TOOLS: Need = Need {
    packages: &["build-essential", "pkg-config", "libssl-dev"],
    units: &[],
    named_by: None,
    certain: false,
    check: build_tools,
};

pub(crate) const POSTGRES: Need = Need {
    packages: &["postgresql"],
    units: &[],
    named_by: Some("ONCEWARD_PG_BIN"),
    certain: true,
    check: || Programs::find().map(drop).map_err(|error| error.to_string()),
};

pub(crate) const RABBITMQ: Need = Need {
    packages: &["rabbitmq-server"],
    units: &["rabbitmq-server.service", "epmd.service", "epmd.socket"],
    named_by: None,
    certain: true,
    check: || RabbitMqPrograms::find().map(drop).map_err(|error| error.to_string()),
};

pub(crate) const REDIS: Need = Need {
    packages: &["redis-server"],
    units: &["redis-server.service"],
    named_by: None,
    certain: true,
    check: || RedisPrograms::find().map(drop).map_err(|error| error.to_string()),
};

/// To run Kafka.
pub(crate) const JAVA: Need = Need {
    packages: &["default-jre-headless"],
    units: &[],
    named_by: None,
    certain: true,
    check: || KafkaPrograms::java().map(drop).map_err(|error| error.to_string()),
};

/// To get Kafka.
pub(crate) const MAVEN: Need =
    Need { packages: &["maven"], units: &[], named_by: None, certain: true, check: || there("mvn", "Install Maven") };

/// To check alert rules with the program that will read them.
pub(crate) const PROMTOOL: Need = Need {
    packages: &["prometheus"],
    units: &["prometheus.service"],
    named_by: None,
    certain: true,
    check: || there("promtool", "Install Prometheus, which brings it"),
};

/// To look at pages as their readers do.
pub(crate) const BROWSER: Need =
    Need { packages: &["chromium", "chromium-driver"], units: &[], named_by: None, certain: true, check: browser };

fn build_tools() -> Result<(), String> {
    let advice = "Fedora: dnf install gcc-c++ make pkgconf openssl-devel; macOS: brew install pkg-config openssl@3";
    for program in ["cc", "c++", "make", "pkg-config"] {
        if !in_path(program) {
            return Err(format!("`{program}` is missing. {advice}"));
        }
    }
    let named = env::var_os("OPENSSL_DIR").is_some();
    let mut probe = Command::new("pkg-config");
    probe.args(["--exists", "openssl"]).stdout(Stdio::null()).stderr(Stdio::null());
    if named || probe.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(format!("OpenSSL's headers are missing. {advice}"))
}

fn browser() -> Result<(), String> {
    there("chromium", "Install Chromium")?;
    there("chromedriver", "Install the ChromeDriver of the same version as Chromium")
}

fn there(program: &str, advice: &str) -> Result<(), String> {
    if in_path(program) { Ok(()) } else { Err(format!("`{program}` is missing. {advice}")) }
}

fn in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
