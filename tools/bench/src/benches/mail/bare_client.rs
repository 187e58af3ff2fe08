//! The limits: the SMTP client alone, without templates, artifacts, checks or audit.

use super::smtp_sink::SmtpSink;
use crate::{server::Bench, store};
use onceward_mail::{
    address::EmailAddress,
    smtp::{SmtpClient, SmtpSecurity, SmtpSettings},
};
use std::{sync::Arc, time::Instant};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use uuid::Uuid;

/// The client with one task per connection, which all send the same bytes.
pub(super) struct BareClient<'s> {
    sink: &'s SmtpSink,
    connections: usize,
    client: Arc<SmtpClient>,
    message: Arc<Vec<u8>>,
}

impl<'s> BareClient<'s> {
    pub(super) fn new(sink: &'s SmtpSink, connections: usize, message: Vec<u8>) -> anyhow::Result<Self> {
        let mut smtp = SmtpSettings::new("127.0.0.1", sink.port, SmtpSecurity::None);
        smtp.max_connections = connections;
        Ok(Self { sink, connections, client: Arc::new(SmtpClient::new(smtp)?), message: Arc::new(message) })
    }

    /// Sends `count` mails from memory. Returns mails per second.
    pub(super) async fn rate_from_memory(&self, count: u64) -> anyhow::Result<f64> {
        let databases = (0..self.connections).map(|_| None).collect();
        self.rate(count, databases).await
    }

    /// Sends `count` mails with one commit before each and one after it, as any client must that neither repeats nor loses a
    /// mail. Returns mails per second.
    pub(super) async fn rate_with_commits(&self, bench: &Bench, count: u64) -> anyhow::Result<f64> {
        bench.owner().await?.batch_execute(store::CREATE_BARE_MAIL).await?;
        let mut databases = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            databases.push(Some(bench.owner().await?));
        }
        self.rate(count, databases).await
    }

    async fn rate(&self, count: u64, databases: Vec<Option<Client>>) -> anyhow::Result<f64> {
        let (before, started, tasks_count) = (self.sink.received(), Instant::now(), self.connections as u64);
        let mut tasks = JoinSet::new();
        for (task, database) in (0..).zip(databases) {
            let (client, message) = (self.client.clone(), self.message.clone());
            let share = count / tasks_count + u64::from(task < count % tasks_count);
            tasks.spawn(async move { send_share(&client, &message, share, database.as_ref()).await });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        let sent = self.sink.received() - before;
        anyhow::ensure!(sent == count, "the bare client delivered {sent} of {count} mails");
        Ok(count as f64 / started.elapsed().as_secs_f64())
    }
}

/// Sends `share` mails one after the other.
async fn send_share(client: &SmtpClient, message: &[u8], share: u64, database: Option<&Client>) -> anyhow::Result<()> {
    let recipient = EmailAddress::parse("borrower@example.org")?;
    let statements = match database {
        None => None,
        Some(database) => Some((
            database.prepare(store::HAND_OVER_BARE_MAIL).await?,
            database.prepare(store::SETTLE_BARE_MAIL).await?,
        )),
    };
    for _ in 0..share {
        let id = Uuid::now_v7();
        if let Some((database, (hand_over, _))) = database.zip(statements.as_ref()) {
            database.execute(hand_over, &[&id]).await?;
        }
        client.send("bounce@lender.example", &recipient, message).await;
        if let Some((database, (_, settle))) = database.zip(statements.as_ref()) {
            database.execute(settle, &[&id]).await?;
        }
    }
    Ok(())
}
