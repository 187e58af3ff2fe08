//! How to reach a server, and how long to wait for it.

use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);

/// How the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SmtpSecurity {
    /// TLS from the first byte, usually on port 465.
    ImplicitTls,
    /// TLS after STARTTLS, usually on port 587. A server that does not offer it is not used.
    StartTls,
    /// No encryption: for this machine, or where [`SmtpSettings::allow_plaintext`] says so.
    None,
}

/// The name and password at a server. `Debug` does not show them.
#[derive(Clone, Deserialize)]
pub struct SmtpCredentials {
    /// The account.
    pub user: String,
    /// Its password.
    pub password: String,
}

impl fmt::Debug for SmtpCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SmtpCredentials(…)")
    }
}

/// One server and the limits of its use.
#[derive(Clone, Debug)]
pub struct SmtpSettings {
    /// The host name, which its certificate must have, or an IP address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// How the connection is encrypted.
    pub security: SmtpSecurity,
    /// Allows [`SmtpSecurity::None`] for a host that is not this machine.
    pub allow_plaintext: bool,
    /// The account, if the server demands one.
    pub credentials: Option<SmtpCredentials>,
    /// The name by which we introduce ourselves: a host name, or an address literal.
    pub hello_name: String,
    /// Root certificates in PEM, trusted in addition to the system's.
    pub extra_roots_pem: Vec<u8>,
    /// How long each step may take.
    pub timeouts: SmtpTimeouts,
    /// How many connections may be open at once.
    pub max_connections: usize,
    /// How long an unused connection is kept. Many servers close it after 30 s.
    pub idle_limit: Duration,
    /// After how many mails a connection is replaced, because servers limit it too.
    pub max_mails_per_connection: u32,
}

impl SmtpSettings {
    /// Returns the defaults for a server.
    pub fn new(host: &str, port: u16, security: SmtpSecurity) -> Self {
        Self {
            host: host.to_owned(),
            port,
            security,
            allow_plaintext: false,
            credentials: None,
            hello_name: "[127.0.0.1]".to_owned(),
            extra_roots_pem: Vec::new(),
            timeouts: SmtpTimeouts::default(),
            max_connections: 4,
            idle_limit: Duration::from_secs(20),
            max_mails_per_connection: 100,
        }
    }

    pub(super) fn check(&self) -> Result<(), SmtpSettingsError> {
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name(&self.host) || !is_name(&self.hello_name) {
            return Err(SmtpSettingsError::InvalidName);
        }
        if self.security == SmtpSecurity::None && !self.allow_plaintext && !is_this_machine(&self.host) {
            return Err(SmtpSettingsError::Plaintext);
        }
        if self.max_connections == 0 || self.max_mails_per_connection == 0 {
            return Err(SmtpSettingsError::NoConnections);
        }
        Ok(())
    }
}

fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// How long each step may take. The defaults are those of RFC 5321 §4.5.3.2; shorter ones make duplicates under load,
/// above all for the final dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmtpTimeouts {
    /// Until a connection of the pool is free.
    pub pool: Duration,
    /// Until the connection is established.
    pub connect: Duration,
    /// Until TLS is established.
    pub tls: Duration,
    /// Until the greeting.
    pub greeting: Duration,
    /// For each of EHLO, STARTTLS and AUTH.
    pub hello: Duration,
    /// Until the answer to MAIL.
    pub mail: Duration,
    /// Until the answer to RCPT.
    pub rcpt: Duration,
    /// Until the answer to DATA.
    pub data: Duration,
    /// For each block of the body.
    pub data_block: Duration,
    /// Until the answer to the final dot.
    pub final_dot: Duration,
    /// Until the answer to RSET, after which a connection is used again.
    pub reset: Duration,
}

impl Default for SmtpTimeouts {
    fn default() -> Self {
        Self {
            pool: MINUTE,
            connect: MINUTE / 2,
            tls: MINUTE,
            greeting: 5 * MINUTE,
            hello: 5 * MINUTE,
            mail: 5 * MINUTE,
            rcpt: 5 * MINUTE,
            data: 2 * MINUTE,
            data_block: 3 * MINUTE,
            final_dot: 10 * MINUTE,
            reset: MINUTE / 2,
        }
    }
}

/// Why no client can be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SmtpSettingsError {
    /// The host or our own name is not one.
    #[error("the host and the hello name must be host names or addresses, without spaces")]
    InvalidName,
    /// Mails would cross a network unencrypted.
    #[error("the connection would not be encrypted: use STARTTLS or TLS, or set allow_plaintext for a trusted network")]
    Plaintext,
    /// A limit of zero.
    #[error("max_connections and max_mails_per_connection must be at least 1")]
    NoConnections,
    /// The additional root certificates cannot be read.
    #[error("extra_roots_pem is not PEM with root certificates: {reason}")]
    Roots {
        /// What is wrong with them.
        reason: String,
    },
    /// There is nothing to verify the server's certificate with.
    #[error("the system has no root certificates: install them, or set extra_roots_pem")]
    NoRoots,
}
