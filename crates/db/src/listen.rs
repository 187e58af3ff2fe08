//! LISTEN on a connection of its own, with reconnection.
//!
//! A notification is only ever a hint to look sooner. Whoever listens must also poll, because
//! poolers in transaction mode swallow LISTEN and a broken connection loses what came meanwhile.

use crate::{DbConfig, DbError, pool::wants_tls, tls};
use futures_util::{StreamExt, stream};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client};

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Somebody notified the channel.
    Payload(String),
    /// The connection was made (again): anything may have been missed, look now.
    Connected,
}

/// A running listener; dropping it ends the connection.
pub struct Listener {
    heard: mpsc::Receiver<Heard>,
    task: tokio::task::JoinHandle<()>,
}

const BUFFERED_NOTICES: usize = 4_096;
const RECONNECT_MIN: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

impl Listener {
    pub(crate) fn start(config: Arc<DbConfig>, channel: &'static str) -> Self {
        let (sender, heard) = mpsc::channel(BUFFERED_NOTICES);
        let task = tokio::spawn(keep_listening(config, channel, sender));
        Self { heard, task }
    }

    /// Waits for the next notice. Ends never by itself.
    pub async fn next(&mut self) -> Option<Heard> {
        self.heard.recv().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_listening(config: Arc<DbConfig>, channel: &'static str, out: mpsc::Sender<Heard>) {
    let mut pause = RECONNECT_MIN;
    loop {
        match listen_once(&config, channel, &out).await {
            Ok(()) => pause = RECONNECT_MIN,
            Err(error) => {
                tracing::warn!(channel, %error, "listener is not connected; polling goes on");
                pause = (pause * 2).min(RECONNECT_MAX);
            }
        }
        if out.is_closed() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

async fn listen_once(config: &DbConfig, channel: &'static str, out: &mpsc::Sender<Heard>) -> Result<(), DbError> {
    let driver = config.driver_config()?;
    if wants_tls(&driver) {
        let (client, connection) = driver.connect(tls::connector()?).await?;
        forward(client, connection, channel, out).await
    } else {
        let (client, connection) = driver.connect(tokio_postgres::NoTls).await?;
        forward(client, connection, channel, out).await
    }
}

/// Runs until the connection ends.
async fn forward<S, T>(
    client: Client,
    mut connection: tokio_postgres::Connection<S, T>,
    channel: &'static str,
    out: &mpsc::Sender<Heard>,
) -> Result<(), DbError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
{
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context)).boxed();
    let statement = format!("LISTEN {channel}");
    let subscribe = client.batch_execute(&statement);
    tokio::pin!(subscribe);
    let mut subscribed = false;
    loop {
        tokio::select! {
            done = &mut subscribe, if !subscribed => {
                done?;
                subscribed = true;
                if out.send(Heard::Connected).await.is_err() { return Ok(()); }
            }
            message = messages.next() => match message {
                Some(Ok(AsyncMessage::Notification(notice))) => {
                    if out.send(Heard::Payload(notice.payload().to_owned())).await.is_err() { return Ok(()); }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
            () = out.closed() => return Ok(()),
        }
    }
}
