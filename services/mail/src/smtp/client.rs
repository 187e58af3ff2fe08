//! Sends mails to one server.

use super::{
    SmtpSecurity, SmtpSettings, SmtpSettingsError, SmtpStep, SmtpStepKind,
    connection::{self, SmtpConnection},
    envelope::SmtpEnvelope,
    pool::SmtpPool,
    step::StepLog,
    tls,
    transaction::{self, TransactionEnd},
};
use crate::{address::EmailAddress, outcome::SendOutcome};
use std::{fmt, time::Instant};
use tokio_rustls::TlsConnector;

/// A client of one server, with its pool of connections. It is shared by reference.
pub struct SmtpClient {
    settings: SmtpSettings,
    tls: Option<TlsConnector>,
    pool: SmtpPool,
}

/// What became of a mail, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpDelivery {
    /// The outcome for the recipient.
    pub outcome: SendOutcome,
    /// What was said, step by step. Empty if nothing was.
    pub steps: Vec<SmtpStep>,
}

impl SmtpClient {
    /// Creates a client. Connects to nothing; reads the system's root certificates if the settings need them.
    pub fn new(settings: SmtpSettings) -> Result<Self, SmtpSettingsError> {
        settings.check()?;
        let needs_tls = settings.security != SmtpSecurity::None;
        let tls = needs_tls.then(|| tls::connector(&settings)).transpose()?;
        let pool = SmtpPool::new(&settings);
        Ok(Self { settings, tls, pool })
    }

    /// Hands one message over for one recipient. An empty `mail_from` is the null return path.
    ///
    /// The message must be complete, with CRLF line ends; leading dots are doubled here. A connection that the server
    /// closed while it was unused is replaced, which is not an attempt of the mail.
    pub async fn send(&self, mail_from: &str, rcpt: &EmailAddress, message: &[u8]) -> SmtpDelivery {
        let mut log = StepLog::default();
        let outcome = match SmtpEnvelope::new(mail_from, rcpt, message) {
            Ok(envelope) => self.send_envelope(&envelope, &mut log).await,
            Err(refused) => refused,
        };
        SmtpDelivery { outcome, steps: log.into_steps() }
    }

    async fn send_envelope(&self, envelope: &SmtpEnvelope<'_>, log: &mut StepLog) -> SendOutcome {
        let limit = self.settings.timeouts.pool;
        let Some(_slot) = self.pool.slot(limit).await else {
            let reason = format!("no connection became free within {} s", limit.as_secs());
            return SendOutcome::ProviderUnavailable { reason };
        };
        if let Some(connection) = self.pool.take() {
            log.event(SmtpStepKind::Reuse, Instant::now(), "using an open connection");
            if let Ok(outcome) = self.deliver(connection, envelope, log).await {
                return outcome;
            }
        }
        match connection::open(&self.settings, self.tls.as_ref(), log).await {
            Ok(connection) => {
                let delivered = self.deliver(connection, envelope, log).await;
                delivered.unwrap_or_else(|reason| SendOutcome::ProviderUnavailable { reason })
            }
            Err(reason) => SendOutcome::ProviderUnavailable { reason },
        }
    }

    /// Fails if the server closed the connection before it took our first command.
    async fn deliver(
        &self,
        mut connection: SmtpConnection,
        envelope: &SmtpEnvelope<'_>,
        log: &mut StepLog,
    ) -> Result<SendOutcome, String> {
        match transaction::deliver(&mut connection, envelope, &self.settings.timeouts, log).await {
            TransactionEnd::Finished { outcome, is_reusable } => {
                if is_reusable {
                    self.pool.put(connection);
                }
                Ok(outcome)
            }
            TransactionEnd::ClosedBeforeMail { reason } => Err(reason),
        }
    }
}

impl fmt::Debug for SmtpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SmtpClient");
        shown.field("host", &self.settings.host).field("port", &self.settings.port).finish_non_exhaustive()
    }
}
