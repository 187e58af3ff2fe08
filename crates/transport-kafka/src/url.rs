//! `kafka://[user:password@]host:port[,host:port…][?name=value&…]`
//!
//! | parameter | meaning | unless said |
//! | --- | --- | --- |
//! | `tls` | `true`: encrypted; so is `kafka+ssl://` | `false` |
//! | `ca`, `cert`, `key` | files in PEM: the authority to trust, our certificate, its key | the system's authorities |
//! | `sasl` | how user and password are shown: `plain`, `scram-sha-256`, `scram-sha-512` | `plain` |
//! | `replication` | copies of each topic that `declare` makes | the server's default |
//! | `compression` | `none`, `gzip`, `snappy`, `lz4`, `zstd` | `lz4` |
//!
//! Reserved characters in user and password are percent-encoded.

use onceward_transport::{BrokerError, without_credentials};
use percent_encoding::percent_decode_str;
use rdkafka::ClientConfig;

const PARAMETERS: &str = "tls, ca, cert, key, sasl, replication, compression";
/// Kafka's word for "as many as the server makes by itself".
const SERVERS_DEFAULT: i32 = -1;

/// What a URL says. No `Debug`: it holds the password.
#[derive(Clone)]
pub(crate) struct Target {
    servers: String,
    login: Option<(String, String)>,
    tls: bool,
    sasl: &'static str,
    files: Vec<(&'static str, String)>,
    compression: &'static str,
    /// Copies of each topic that is made.
    pub(crate) replication: i32,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, BrokerError> {
        let wrong = |what: String| {
            BrokerError::Misconfigured(format!("the bus URL {} is wrong: {what}", without_credentials(url)))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("write kafka://host:port".to_owned()))?;
        let tls = match scheme {
            "kafka" => false,
            "kafka+ssl" => true,
            _ => return Err(wrong("it begins with kafka:// or kafka+ssl://".to_owned())),
        };
        // The last @: a password may hold one, a host may not.
        let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
        let (servers, query) = rest.split_once('?').unwrap_or((rest, ""));
        let servers = servers.trim_end_matches('/');
        if servers.split(',').any(|server| !is_server(server)) {
            return Err(wrong("name each server as host:port, with commas between them".to_owned()));
        }
        let mut target = Self {
            servers: servers.to_owned(),
            login: login.map(credentials).transpose().map_err(wrong)?,
            tls,
            sasl: "PLAIN",
            files: Vec::new(),
            compression: "lz4",
            replication: SERVERS_DEFAULT,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            target.set(name, value).map_err(wrong)?;
        }
        Ok(target)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let choose = |known: &[(&str, &'static str)]| {
            let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
            let found = known.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning);
            found.ok_or_else(|| format!("{name} is one of {}", words.join(", ")))
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
                self.replication = copies.ok_or("replication is a number from 1 to 100")?;
            }
            "ca" => self.files.push(("ssl.ca.location", decoded(value)?)),
            "cert" => self.files.push(("ssl.certificate.location", decoded(value)?)),
            "key" => self.files.push(("ssl.key.location", decoded(value)?)),
            // Whatever it is may be a secret that lost its way, so it is not repeated.
            _ => return Err(format!("it has a parameter that is none of {PARAMETERS}")),
        }
        Ok(())
    }

    /// A password travels without encryption.
    pub(crate) fn shows_its_password(&self) -> bool {
        self.login.is_some() && !self.tls && self.sasl == "PLAIN"
    }

    pub(crate) fn compression(&self) -> &'static str {
        self.compression
    }

    /// Says where the servers are and who we are.
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
    let (user, password) = login.split_once(':').ok_or("write user:password before the @")?;
    Ok((decoded(user)?, decoded(password)?))
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| "what is percent-encoded in it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Vec<(String, String)> {
        let mut config = ClientConfig::new();
        Target::parse(url).unwrap_or_else(|error| panic!("{error}")).write_to(&mut config);
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
    fn what_is_not_said_has_its_default() {
        let plain = Target::parse("kafka://a:1").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((plain.replication, plain.compression(), plain.shows_its_password()), (-1, "lz4", false));
        let said = "kafka://u:p@a:1?replication=3&compression=zstd";
        let said = Target::parse(said).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((said.replication, said.compression(), said.shows_its_password()), (3, "zstd", true));
    }

    #[test]
    fn a_wrong_url_is_explained_without_its_secrets() {
        let wrong = [
            ("amqp://u:secret@a:1", "begins with kafka://"),
            ("secret", "write kafka://host:port"),
            ("kafka://u:secret@a", "host:port"),
            ("kafka://secret@a:1", "user:password"),
            ("kafka://u:secret@a:1?sasl=kerberos", "sasl is one of plain, scram-sha-256, scram-sha-512"),
            ("kafka://u:secret@a:1?tls=1", "tls is one of true, false"),
            ("kafka://u:secret@a:1?replication=0", "from 1 to 100"),
            ("kafka://a:1?password=secret", "none of tls, ca"),
        ];
        for (url, why) in wrong {
            let error = Target::parse(url).err().unwrap_or_else(|| panic!("{url} was accepted")).to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
