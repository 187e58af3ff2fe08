//! The server's configuration: our defaults followed by the caller's settings, in one file that only we write.

use std::path::Path;

use crate::LocalPostgresError;

/// Options for running a cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterOptions {
    /// PostgreSQL settings by name; they override our defaults, and a later one overrides an earlier one.
    pub settings: Vec<(String, String)>,
    /// `None`: only the private socket. `Some(0)`: also a free port on 127.0.0.1. `Some(n)`: also that port.
    pub port: Option<u16>,
}

impl ClusterOptions {
    /// Whether the caller turned durability off, so that creating the cluster need not wait for the disk either.
    pub(crate) fn without_fsync(&self) -> bool {
        let last = self.settings.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case("fsync"));
        last.is_some_and(|(_, value)| matches!(value.to_ascii_lowercase().as_str(), "off" | "false" | "no" | "0"))
    }
}

const DEFAULTS: &[(&str, &str)] = &[
    ("shared_buffers", "256MB"),
    ("max_connections", "200"),
    ("max_locks_per_transaction", "128"),
    ("max_wal_size", "2GB"),
    ("fsync", "on"),
    ("autovacuum", "on"),
    ("log_min_messages", "warning"),
    ("log_line_prefix", "%m [%p] "),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
];

/// Returns the text of the configuration file.
pub(crate) fn render(options: &ClusterOptions, socket_dir: &Path, port: u16) -> Result<String, LocalPostgresError> {
    let listen = if options.port.is_some() { "127.0.0.1" } else { "" };
    let port = port.to_string();
    let socket_dir = socket_dir.to_string_lossy();
    let fixed = [
        ("listen_addresses", listen),
        ("port", port.as_str()),
        ("unix_socket_directories", &socket_dir),
        ("unix_socket_permissions", "0700"),
        ("logging_collector", "off"),
        ("log_destination", "stderr"),
    ];
    let mut text = String::from("# Written at each start by onceward; put your own settings into postgresql.conf.\n");
    let given = options.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    // The settings that we rely on come last: a caller's setting must not move the socket out of its private folder.
    for (name, value) in DEFAULTS.iter().copied().chain(given).chain(fixed) {
        text.push_str(&line(name, value)?);
    }
    Ok(text)
}

fn line(name: &str, value: &str) -> Result<String, LocalPostgresError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if name.is_empty() || !name.chars().all(plain) || value.contains(['\n', '\r', '\0']) {
        return Err(LocalPostgresError::BadSetting { name: name.to_owned() });
    }
    Ok(format!("{name} = '{}'\n", value.replace('\\', "\\\\").replace('\'', "''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(settings: &[(&str, &str)]) -> ClusterOptions {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        ClusterOptions { settings, port: None }
    }

    #[test]
    fn the_callers_settings_follow_the_defaults_and_precede_what_we_rely_on() {
        let text = render(&with(&[("fsync", "off"), ("port", "1")]), Path::new("/s"), 5432).unwrap();
        let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle} is missing from {text}"));
        assert!(at("fsync = 'on'") < at("fsync = 'off'"));
        assert!(at("port = '1'") < at("port = '5432'"));
        assert!(text.contains("listen_addresses = ''\n"));
    }

    #[test]
    fn quotes_are_escaped_and_line_breaks_refused() {
        assert_eq!(line("a.b", r"it's \ so").unwrap(), "a.b = 'it''s \\\\ so'\n");
        assert!(line("a", "x\nfsync = off").is_err());
        assert!(line("a = 1 #", "x").is_err());
    }

    #[test]
    fn the_last_fsync_setting_counts() {
        assert!(with(&[("fsync", "on"), ("FSYNC", "Off")]).without_fsync());
        assert!(!with(&[("fsync", "off"), ("fsync", "on")]).without_fsync());
        assert!(!ClusterOptions::default().without_fsync());
    }
}
