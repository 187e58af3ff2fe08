//! LISTEN on a dedicated connection, with reconnection.
//!
//! A notification is only a hint to check sooner. A listener must also poll, because poolers in transaction mode drop
//! LISTEN, and notifications sent while the connection is broken are lost.

use crate::{DbConfig, DbError, pool::wants_tls, tls};
use deadpool_postgres::Pool;
use futures_util::{StreamExt, stream};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client};

/// An event that a listener receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenEvent {
    /// The channel was notified with this payload.
    Notified(String),
    /// The connection was established or re-established. Notifications may have been missed, so check now.
    Connected,
}

/// A running listener. Dropping it closes the connection.
pub struct Listener {
    events: mpsc::Receiver<ListenEvent>,
    task: tokio::task::JoinHandle<()>,
}

const BUFFERED_EVENTS: usize = 4_096;
const RECONNECT_MIN: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

impl Listener {
    pub(crate) fn start(config: Arc<DbConfig>, pool: Pool, channel: &'static str) -> Self {
        let (sender, events) = mpsc::channel(BUFFERED_EVENTS);
        let task = tokio::spawn(keep_listening(config, pool, channel, sender));
        Self { events, task }
    }

    /// Waits for the next event. Returns `None` once the database handle was closed and the connection is gone.
    pub async fn next(&mut self) -> Option<ListenEvent> {
        self.events.recv().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_listening(config: Arc<DbConfig>, pool: Pool, channel: &'static str, out: mpsc::Sender<ListenEvent>) {
    let mut pause = RECONNECT_MIN;
    loop {
        match listen_once(&config, channel, &out).await {
            // The process is stopping, and its server may have stopped with it.
            _ if pool.is_closed() => return,
            Ok(()) => pause = RECONNECT_MIN,
            Err(error) => {
                tracing::warn!(channel, %error, "the listener is not connected; polling continues");
                pause = (pause * 2).min(RECONNECT_MAX);
            }
        }
        if out.is_closed() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

async fn listen_once(config: &DbConfig, channel: &'static str, out: &mpsc::Sender<ListenEvent>) -> Result<(), DbError> {
    let driver = config.driver_config()?;
    if wants_tls(&driver) {
        let (client, connection) = driver.connect(tls::connector()?).await?;
        forward(client, connection, channel, out).await
    } else {
        let (client, connection) = driver.connect(tokio_postgres::NoTls).await?;
        forward(client, connection, channel, out).await
    }
}

/// Forwards notifications until the connection ends.
async fn forward<S, T>(
    client: Client,
    mut connection: tokio_postgres::Connection<S, T>,
    channel: &'static str,
    out: &mpsc::Sender<ListenEvent>,
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
                if out.send(ListenEvent::Connected).await.is_err() { return Ok(()); }
            }
            message = messages.next() => match message {
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    if out.send(ListenEvent::Notified(notification.payload().to_owned())).await.is_err() { return Ok(()); }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
            () = out.closed() => return Ok(()),
        }
    }
}
