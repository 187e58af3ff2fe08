//! Accepts returned mail by LMTP (RFC 2033) from the mail server of the return paths.
//!
//! A small server: it accepts return paths that we signed and the address for complaints, and answers each recipient after its
//! report is committed. A process that dies before that leaves the message with the mail server, which sends it again; what
//! was committed is recognised by its hash. `session` speaks the protocol, `lines` reads it within bounds.

mod lines;
mod session;

use crate::state::CrmState;
use onceward::{TaskContext, TaskError};
use session::LmtpSession;
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};

const CONNECTIONS_MAX: usize = 32;
/// The part of the grace period that open conversations may use when the process stops.
const GRACE_SHARE: f64 = 0.8;
/// Pause after a connection could not be accepted, for example because there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Listens on the address of the settings until the process stops. Ends at once without one.
pub(crate) async fn listen(context: TaskContext, state: Arc<CrmState>) -> Result<(), TaskError> {
    if state.settings.lmtp_listen.is_empty() {
        return Ok(());
    }
    let listener = TcpListener::bind(&state.settings.lmtp_listen).await?;
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut sessions = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = context.stop.cancelled() => break,
            // Further connections wait in the system's queue.
            accepted = async {
                let slot = slots.clone().acquire_owned().await;
                (slot, listener.accept().await)
            } => accepted,
            Some(_) = sessions.join_next() => continue,
        };
        let (Ok(slot), Ok((connection, _))) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let session = LmtpSession::new(connection, state.clone(), context.db.clone(), context.stop.clone());
        sessions.spawn(async move {
            if let Err(error) = session.run().await {
                tracing::debug!(%error, "a conversation by LMTP ended early");
            }
            drop(slot);
        });
    }
    let ended = async { while sessions.join_next().await.is_some() {} };
    // What is not committed by then is sent again by the mail server.
    let _ = tokio::time::timeout(context.grace.mul_f64(GRACE_SHARE), ended).await;
    Ok(())
}
