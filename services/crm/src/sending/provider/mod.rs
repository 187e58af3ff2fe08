//! Providers: where mails are handed over. One trait; SMTP, an HTTP API and a folder implement it.

mod folder;
mod resend;
mod smtp;

pub(crate) use folder::FolderProvider;
pub(crate) use resend::ResendProvider;
pub(crate) use smtp::SmtpProvider;

use super::SendRates;
use crate::{CrmError, Settings};
use futures_util::future::BoxFuture;
use onceward_mail::{address::EmailAddress, outcome::SendOutcome};
use serde_json::Value;

/// One mail for one recipient.
pub(crate) struct OutgoingMail<'m> {
    /// The same for every repetition: a provider that deduplicates does so by this key.
    pub key: &'m str,
    /// The envelope's sender, to which bounces return.
    pub return_path: &'m str,
    pub recipient: &'m EmailAddress,
    /// The exact bytes.
    pub message: &'m [u8],
}

/// What became of it, with the steps of the conversation, in which nothing is personal.
#[derive(Clone, Debug)]
pub(crate) struct ProviderDelivery {
    pub outcome: SendOutcome,
    pub steps: Value,
}

/// Takes mails. It never retries by itself: the queue does.
pub(crate) trait MailProvider: Send + Sync {
    /// Returns its name, which is also that of its destination.
    fn name(&self) -> &'static str;

    /// Returns whether it recognizes a repetition by its key, so that an unknown outcome may be repeated.
    fn deduplicates(&self) -> bool {
        false
    }

    /// Hands over one mail. It must not be called before the handover was committed.
    fn send<'a>(&'a self, mail: &'a OutgoingMail<'a>) -> BoxFuture<'a, ProviderDelivery>;
}

/// A provider and its limits.
pub(crate) struct ProviderSlot {
    pub provider: Box<dyn MailProvider>,
    pub rates: SendRates,
}

/// Creates the providers in the order of the settings. Fails if one cannot be set up.
pub(crate) fn providers(settings: &Settings) -> Result<Vec<ProviderSlot>, CrmError> {
    let create = |name: &str| -> Result<ProviderSlot, CrmError> {
        let provider: Box<dyn MailProvider> = match name {
            "smtp" => Box::new(SmtpProvider::new(settings)?),
            "resend" => Box::new(ResendProvider::new(settings)?),
            _ => {
                if !settings.mailbox_page {
                    tracing::warn!(
                        "crm.providers names `folder`: mails are written to crm.folder and never leave this machine. Set \
                         crm.providers to smtp or resend to send them"
                    );
                }
                Box::new(FolderProvider::new(&settings.folder))
            }
        };
        Ok(ProviderSlot { provider, rates: SendRates::new(settings.rate_per_provider, settings.rate_per_domain) })
    };
    settings.providers.split_whitespace().map(create).collect()
}

/// Returns the name of an outcome, for metrics and stored attempts.
pub(crate) fn outcome_name(outcome: &SendOutcome) -> &'static str {
    match outcome {
        SendOutcome::Accepted { .. } => "accepted",
        SendOutcome::Refused { .. } => "refused",
        SendOutcome::Deferred { .. } => "deferred",
        SendOutcome::ProviderUnavailable { .. } => "provider_unavailable",
        SendOutcome::Unknown { .. } => "unknown",
    }
}
