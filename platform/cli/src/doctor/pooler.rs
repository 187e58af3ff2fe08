//! Checks whether a pooler between us and the database shares one session among many clients.
//!
//! We set the role and limits of a session once, keep prepared statements in it, and listen on it. A pooler that
//! changes the session between two transactions breaks all three: the role would apply to another client instead of us.

use super::{CheckContext, DoctorFinding, store};
use onceward_db::{
    listen::ListenEvent,
    session::{self, SessionMode},
};
use std::time::Duration;
use uuid::Uuid;

const CHANNEL: &str = "onceward_doctor";

/// The observed behaviour of our connections.
#[derive(Clone, Copy, Debug)]
struct PoolerObservation {
    sessions: SessionMode,
    notification_arrived: bool,
    /// How long we waited for the notification.
    timeout: Duration,
}

pub(super) async fn check(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let sessions = session::check(&context.db).await?;
    let timeout = context.limits.per_check / 2;
    Ok(evaluate(PoolerObservation {
        sessions,
        notification_arrived: notification_arrives(context, timeout).await?,
        timeout,
    }))
}

async fn notification_arrives(context: &CheckContext<'_>, timeout: Duration) -> anyhow::Result<bool> {
    let token = Uuid::now_v7().to_string();
    let mut listener = context.db.listen(CHANNEL);
    let round_trip = async {
        while let Some(heard) = listener.next().await {
            match heard {
                ListenEvent::Connected => drop(context.query(store::NOTIFY, &[&token]).await?),
                ListenEvent::Notified(payload) if payload == token => return Ok(true),
                ListenEvent::Notified(_) => {}
            }
        }
        Ok(false)
    };
    tokio::time::timeout(timeout, round_trip).await.unwrap_or(Ok(false))
}

fn evaluate(observed: PoolerObservation) -> Vec<DoctorFinding> {
    let advice = session::ADVICE;
    if observed.sessions == SessionMode::Shared {
        let what = "a pooler changes our session between two statements: roles, limits and prepared statements are lost, and with \
                    the role the isolation of tenants";
        return vec![DoctorFinding::critical(what, advice)];
    }
    if !observed.notification_arrived {
        let what = format!(
            "a notification did not arrive within {} s, so workers find messages only by polling",
            observed.timeout.as_secs()
        );
        return vec![DoctorFinding::warning(what, format!("if there is a pooler, {advice}"))];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECT: PoolerObservation =
        PoolerObservation { sessions: SessionMode::Own, notification_arrived: true, timeout: Duration::from_secs(5) };

    #[test]
    fn a_dedicated_session_is_fine() {
        assert_eq!(evaluate(DIRECT), []);
    }

    #[test]
    fn a_pooler_in_transaction_mode_is_detected_by_the_shared_session() {
        for notification_arrived in [true, false] {
            let findings =
                evaluate(PoolerObservation { sessions: SessionMode::Shared, notification_arrived, ..DIRECT });
            assert!(findings[0].what.contains("changes our session"));
            assert!(findings[0].advice.contains("session mode"));
        }
    }

    #[test]
    fn a_pooler_that_drops_notifications_is_detected() {
        assert!(
            evaluate(PoolerObservation { notification_arrived: false, ..DIRECT })[0].what.contains("did not arrive")
        );
    }
}
