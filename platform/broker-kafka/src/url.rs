//! `kafka://[user:password@]host:port[,host:port…][?name=value&…]`
//!
//! | parameter | meaning | default |
//! | --- | --- | --- |
//! | `tls` | `true`: use TLS; `kafka+ssl://` implies it | `false` |
//! | `ca`, `cert`, `key` | PEM files: the trusted authority, the client certificate, its key | the system's authorities |
//! | `sasl` | the SASL mechanism: `plain`, `scram-sha-256`, `scram-sha-512` | `plain` |
//! | `replication` | the replication factor of topics that `declare` creates | the server's default |
//! | `compression` | `none`, `gzip`, `snappy`, `lz4`, `zstd` | `lz4` |
//!
//! Reserved characters in user and password must be percent-encoded.

use onceward_broker::{BrokerError, without_credentials};
use percent_encoding::percent_decode_str;
use rdkafka::ClientConfig;

const PARAMETERS: &str = "tls, ca, cert, key, sasl, replication, compression";
/// Kafka's value for the server's default replication factor.
const SERVER_DEFAULT: i32 = -1;

/// A parsed URL. No `Debug`: it holds the password.
#[derive(Clone)]
pub(crate) struct KafkaUrl {
    servers: String,
    login: Option<(String, String)>,
    tls: bool,
    sasl: &'static str,
    files: Vec<(&'static str, String)>,
    compression: &'static str,
    /// The replication factor of new topics.
    pub(crate) replication: i32,
}

impl KafkaUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, BrokerError> {
        let invalid = |what: String| {
            BrokerError::Misconfigured(format!("the bus URL {} is not valid: {what}", without_credentials(url)))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("use kafka://host:port".to_owned()))?;
        let tls = match scheme {
            "kafka" => false,
            "kafka+ssl" => true,
            _ => return Err(invalid("it must start with kafka:// or kafka+ssl://".to_owned())),
        };
        // The last @: a password may hold one, a host may not.
        let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
        let (servers, query) = rest.split_once('?').unwrap_or((rest, ""));
        let servers = servers.trim_end_matches('/');
        if servers.split(',').any(|server| !is_server(server)) {
            return Err(invalid("list the servers as host:port, separated by commas".to_owned()));
        }
        let mut parsed = Self {
            servers: servers.to_owned(),
            login: login.map(credentials).transpose().map_err(invalid)?,
            tls,
            sasl: "PLAIN",
            files: Vec::new(),
            compression: "lz4",
            replication: SERVER_DEFAULT,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parsed.set(name, value).map_err(invalid)?;
        }
        Ok(parsed)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let choose = |known: &[(&str, &'static str)]| {
            let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
            let found = known.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning);
            found.ok_or_else(|| format!("{name} must be one of {}", words.join(", ")))
        };
        match name {
            "tls" => self.tls = choose(&[("true", "true"), ("false", "false")])? == "true",
            "sasl" => {
                let known =
                    [("plain", "PLAIN"), ("scram-sha-256", "SCRAM-SHA-256"), ("scram-sha-512", "SCRAM-SHA-512")];
                self.sasl = choose(&known)?;
            }
            "compression" => {
                self.compression = choose(&["none", "gzip", "snappy", "lz4", "zstd"].map(|word| (word, word)))?;
            }
            "replication" => {
                let copies = value.parse().ok().filter(|copies| (1..=100).contains(copies));
                self.replication = copies.ok_or("replication must be a number from 1 to 100")?;
            }
            "ca" => self.files.push(("ssl.ca.location", decoded(value)?)),
            "cert" => self.files.push(("ssl.certificate.location", decoded(value)?)),
            "key" => self.files.push(("ssl.key.location", decoded(value)?)),
            // The name may be a misplaced secret, so it is not repeated.
            _ => return Err(format!("it has an unknown parameter; the known ones are {PARAMETERS}")),
        }
        Ok(())
    }

    /// Whether the password is sent unencrypted.
    pub(crate) fn sends_plaintext_password(&self) -> bool {
        self.login.is_some() && !self.tls && self.sasl == "PLAIN"
    }

    pub(crate) fn compression(&self) -> &'static str {
        self.compression
    }

    /// Sets the servers, encryption and credentials.
    pub(crate) fn write_to(&self, config: &mut ClientConfig) {
        config.set("bootstrap.servers", &self.servers);
        let protocol = match (self.tls, &self.login) {
            (false, None) => "plaintext",
            (true, None) => "ssl",
            (false, Some(_)) => "sasl_plaintext",
            (true, Some(_)) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        for (name, value) in &self.files {
            config.set(*name, value);
        }
        if let Some((user, password)) = &self.login {
            config.set("sasl.mechanism", self.sasl).set("sasl.username", user).set("sasl.password", password);
        }
    }
}

fn is_server(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn credentials(login: &str) -> Result<(String, String), String> {
    let (user, password) = login.split_once(':').ok_or("use user:password before the @")?;
    Ok((decoded(user)?, decoded(password)?))
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| "a percent-encoded part is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Vec<(String, String)> {
        let mut config = ClientConfig::new();
        KafkaUrl::parse(url).unwrap_or_else(|error| panic!("{error}")).write_to(&mut config);
        let known = ["bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password"];
        let files = ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"];
        let get = |name: &&str| config.get(name).map(|value| ((*name).to_owned(), value.to_owned()));
        known.iter().chain(&files).filter_map(get).collect()
    }

    fn check(url: &str, wanted: &[(&str, &str)]) {
        let wanted: Vec<_> = wanted.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(settings(url), wanted, "{url}");
    }

    #[test]
    fn servers_credentials_and_encryption_are_read() {
        check("kafka://a:1,[::1]:2", &[("bootstrap.servers", "a:1,[::1]:2"), ("security.protocol", "plaintext")]);
        check("kafka+ssl://a:1/", &[("bootstrap.servers", "a:1"), ("security.protocol", "ssl")]);
        check(
            "kafka://us%40er:se%3Acr%25et@a:1,b:2?tls=true&sasl=scram-sha-512&ca=%2Fetc%2Fca.pem",
            &[
                ("bootstrap.servers", "a:1,b:2"),
                ("security.protocol", "sasl_ssl"),
                ("sasl.mechanism", "SCRAM-SHA-512"),
                ("sasl.username", "us@er"),
                ("sasl.password", "se:cr%et"),
                ("ssl.ca.location", "/etc/ca.pem"),
            ],
        );
    }

    #[test]
    fn missing_parameters_have_defaults() {
        let plain = KafkaUrl::parse("kafka://a:1").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((plain.replication, plain.compression(), plain.sends_plaintext_password()), (-1, "lz4", false));
        let given = "kafka://u:p@a:1?replication=3&compression=zstd";
        let given = KafkaUrl::parse(given).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((given.replication, given.compression(), given.sends_plaintext_password()), (3, "zstd", true));
    }

    #[test]
    fn an_invalid_url_is_explained_without_its_secrets() {
        let invalid = [
            ("amqp://u:secret@a:1", "start with kafka://"),
            ("secret", "use kafka://host:port"),
            ("kafka://u:secret@a", "host:port"),
            ("kafka://secret@a:1", "user:password"),
            ("kafka://u:secret@a:1?sasl=kerberos", "sasl must be one of plain, scram-sha-256, scram-sha-512"),
            ("kafka://u:secret@a:1?tls=1", "tls must be one of true, false"),
            ("kafka://u:secret@a:1?replication=0", "from 1 to 100"),
            ("kafka://a:1?password=secret", "the known ones are tls, ca"),
        ];
        for (url, why) in invalid {
            let error = KafkaUrl::parse(url).err().unwrap_or_else(|| panic!("{url} was accepted")).to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
