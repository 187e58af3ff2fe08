//! Hands mails over to an SMTP server.

use super::{MailProvider, OutgoingMail, ProviderDelivery};
use crate::{CrmError, Settings};
use futures_util::{FutureExt, future::BoxFuture};
use onceward_mail::smtp::{SmtpClient, SmtpCredentials, SmtpSecurity, SmtpSettings};
use serde_json::json;
use std::time::Duration;

/// An SMTP server with a pool of connections.
pub(crate) struct SmtpProvider {
    client: SmtpClient,
}

impl SmtpProvider {
    pub(crate) fn new(settings: &Settings) -> Result<Self, CrmError> {
        let security = match settings.smtp_tls.as_str() {
            "implicit" => SmtpSecurity::ImplicitTls,
            "none" => SmtpSecurity::None,
            _ => SmtpSecurity::StartTls,
        };
        let mut smtp = SmtpSettings::new(&settings.smtp_host, settings.smtp_port, security);
        smtp.max_connections = settings.smtp_connections;
        smtp.timeouts.final_dot = Duration::from_millis(settings.smtp_final_timeout_ms);
        if !settings.smtp_user.is_empty() {
            smtp.credentials =
                Some(SmtpCredentials { user: settings.smtp_user.clone(), password: settings.smtp_password.clone() });
        }
        if !settings.smtp_extra_roots.is_empty() {
            let unreadable = |error| CrmError::Other(format!("crm.smtp_extra_roots cannot be read: {error}"));
            smtp.extra_roots_pem = std::fs::read(&settings.smtp_extra_roots).map_err(unreadable)?;
        }
        let client = SmtpClient::new(smtp).map_err(|error| CrmError::Other(format!("crm.smtp_host: {error}")))?;
        Ok(Self { client })
    }
}

impl MailProvider for SmtpProvider {
    fn name(&self) -> &'static str {
        "smtp"
    }

    fn send<'a>(&'a self, mail: &'a OutgoingMail<'a>) -> BoxFuture<'a, ProviderDelivery> {
        async move {
            let delivery = self.client.send(mail.return_path, mail.recipient, mail.message).await;
            ProviderDelivery { outcome: delivery.outcome, steps: json!(delivery.steps) }
        }
        .boxed()
    }
}
