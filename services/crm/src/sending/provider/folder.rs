//! Writes mails as `.eml` files into a folder, for development.

use super::{MailProvider, OutgoingMail, ProviderDelivery};
use futures_util::{FutureExt, future::BoxFuture};
use onceward_mail::outcome::SendOutcome;
use serde_json::json;
use std::path::PathBuf;
use uuid::Uuid;

/// The provider for development: a folder instead of the world.
pub(crate) struct FolderProvider {
    folder: PathBuf,
}

impl FolderProvider {
    pub(crate) fn new(folder: &str) -> Self {
        Self { folder: PathBuf::from(folder) }
    }

    /// Writes the file under another name first, so that a reader never sees half of it.
    async fn write(&self, mail: &OutgoingMail<'_>) -> std::io::Result<String> {
        tokio::fs::create_dir_all(&self.folder).await?;
        let name = Uuid::now_v7().to_string();
        let partial = self.folder.join(format!("{name}.partial"));
        tokio::fs::write(&partial, mail.message).await?;
        tokio::fs::rename(&partial, self.folder.join(format!("{name}.eml"))).await?;
        Ok(name)
    }
}

impl MailProvider for FolderProvider {
    fn name(&self) -> &'static str {
        "folder"
    }

    fn send<'a>(&'a self, mail: &'a OutgoingMail<'a>) -> BoxFuture<'a, ProviderDelivery> {
        async move {
            let outcome = match self.write(mail).await {
                Ok(name) => SendOutcome::Accepted { provider_id: Some(name) },
                Err(error) => SendOutcome::ProviderUnavailable {
                    reason: format!("the folder cannot be written: {}", error.kind()),
                },
            };
            ProviderDelivery { outcome, steps: json!([]) }
        }
        .boxed()
    }
}
