//! The requirements of building and testing, the Debian packages that provide them, and how to check for them.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use onceward_local_brokers::{KafkaPrograms, LocalBroker, RabbitMqPrograms, RedisPrograms};
use onceward_local_postgres::Programs;

/// A requirement to be installed.
pub(crate) struct Requirement {
    /// Debian packages.
    pub(super) packages: &'static [&'static str],
    /// System services that the packages install and that must not run.
    pub(super) units: &'static [&'static str],
    /// The variable that names the user's own installation. If it is set, nothing is installed.
    pub(super) named_by: Option<&'static str>,
    /// Whether the check is reliable on every system. Otherwise, without apt-get, a failure is only a warning.
    pub(super) certain: bool,
    /// The error names what is missing, and what to do on systems other than Debian.
    pub(super) check: fn() -> Result<(), String>,
}

/// A C and C++ compiler with make, and OpenSSL's headers: librdkafka is built from source by its own configure script.
pub(crate) const BUILD_TOOLS: Requirement = Requirement {
    packages: &["build-essential", "pkg-config", "libssl-dev"],
    units: &[],
    named_by: None,
    certain: false,
    check: build_tools,
};

pub(crate) const POSTGRES: Requirement = Requirement {
    packages: &["postgresql"],
    units: &[],
    named_by: Some("ONCEWARD_PG_BIN"),
    certain: true,
    check: || Programs::find().map(drop).map_err(|error| error.to_string()),
};

pub(crate) const RABBITMQ: Requirement = Requirement {
    packages: &["rabbitmq-server"],
    units: &["rabbitmq-server.service", "epmd.service", "epmd.socket"],
    named_by: None,
    certain: true,
    check: || RabbitMqPrograms::find().map(drop).map_err(|error| error.to_string()),
};

pub(crate) const REDIS: Requirement = Requirement {
    packages: &["redis-server"],
    units: &["redis-server.service"],
    named_by: None,
    certain: true,
    check: || RedisPrograms::find().map(drop).map_err(|error| error.to_string()),
};

/// Needed to run Kafka.
pub(crate) const JAVA: Requirement = Requirement {
    packages: &["default-jre-headless"],
    units: &[],
    named_by: None,
    certain: true,
    check: || KafkaPrograms::java().map(drop).map_err(|error| error.to_string()),
};

/// Needed to download Kafka.
pub(crate) const MAVEN: Requirement = Requirement {
    packages: &["maven"],
    units: &[],
    named_by: None,
    certain: true,
    check: || there("mvn", "Install Maven"),
};

/// Needed to check alert rules with the program that will read them.
pub(crate) const PROMTOOL: Requirement = Requirement {
    packages: &["prometheus"],
    units: &["prometheus.service"],
    named_by: None,
    certain: true,
    check: || there("promtool", "Install Prometheus, which contains it"),
};

/// Needed to test with a pooler in transaction mode.
pub(crate) const POOLER: Requirement = Requirement {
    packages: &["pgbouncer"],
    units: &["pgbouncer.service"],
    named_by: None,
    certain: true,
    // Debian installs it in a folder that only root's PATH contains.
    check: || if Path::new("/usr/sbin/pgbouncer").is_file() { Ok(()) } else { there("pgbouncer", "Install PgBouncer") },
};

/// Needed to test pages as their readers see them.
pub(crate) const BROWSER: Requirement = Requirement {
    packages: &["chromium", "chromium-driver"],
    units: &[],
    named_by: None,
    certain: true,
    check: browser,
};

/// Needed to create the environment of the Python packages that tests use.
pub(crate) const PYTHON: Requirement =
    Requirement { packages: &["python3-venv"], units: &[], named_by: None, certain: true, check: python };

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

/// Debian's python3 lacks the modules that create an environment until their package is installed.
fn python() -> Result<(), String> {
    let mut probe = Command::new("python3");
    probe.args(["-c", "import ensurepip, venv"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if probe.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err("Python 3 with the modules venv and ensurepip is missing. Install Python 3".to_owned())
}

fn there(program: &str, advice: &str) -> Result<(), String> {
    if in_path(program) { Ok(()) } else { Err(format!("`{program}` is missing. {advice}")) }
}

fn in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
