//! Whether a pooler stands between us and the database that hands one session to many clients.
//!
//! We set the role and limits of a session once, keep prepared statements in it, and listen. A pooler that changes the
//! session between two transactions breaks all three: the role would bind somebody else, and not us.

use super::{Finding, Patient, store};
use onceward_db::{Client, DbError, listen::Heard, migrate};
use std::time::Duration;
use uuid::Uuid;

const CHANNEL: &str = "onceward_doctor";

/// What was seen of a connection.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Who served us first,
    first: i32,
    /// whom another connection got that held a transaction open,
    other: i32,
    /// and who served us meanwhile.
    then: i32,
    /// A notification came through.
    heard: bool,
    /// And had so long for it.
    within: Duration,
}

pub(super) async fn check(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let second = migrate::owner(&patient.config.db()).await?;
    let first = backend(&patient.owner).await?;
    second.batch_execute("BEGIN").await.map_err(DbError::from)?;
    let other = backend(&second).await?;
    let then = backend(&patient.owner).await?;
    second.batch_execute("ROLLBACK").await.map_err(DbError::from)?;
    let within = patient.limits.check / 2;
    Ok(judge(Seen { first, other, then, heard: heard(patient, within).await?, within }))
}

/// In the simple protocol, which works through every pooler.
async fn backend(client: &Client) -> anyhow::Result<i32> {
    let messages = client.simple_query(store::BACKEND).await.map_err(DbError::from)?;
    let pid = messages.iter().find_map(|message| match message {
        onceward_db::SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    pid.ok_or_else(|| anyhow::anyhow!("the server did not tell its process"))
}

async fn heard(patient: &Patient<'_>, within: Duration) -> anyhow::Result<bool> {
    let token = Uuid::now_v7().to_string();
    let mut listener = patient.db.listen(CHANNEL);
    let round_trip = async {
        while let Some(heard) = listener.next().await {
            match heard {
                Heard::Connected => drop(patient.ask(store::NOTIFY, &[&token]).await?),
                Heard::Payload(payload) if payload == token => return Ok(true),
                Heard::Payload(_) => {}
            }
        }
        Ok(false)
    };
    tokio::time::timeout(within, round_trip).await.unwrap_or(Ok(false))
}

fn judge(seen: Seen) -> Vec<Finding> {
    let advice = "connect to PostgreSQL itself, or through a pooler in session mode (PgBouncer: pool_mode = session)";
    if seen.first != seen.then || seen.first == seen.other {
        let what = "a pooler changes our session between two statements: roles, limits and prepared statements get lost, and \
                    with the role the wall between tenants";
        return vec![Finding::critical(what, advice)];
    }
    if !seen.heard {
        let what = format!(
            "a notification was not heard within {} s: workers learn of messages by polling only",
            seen.within.as_secs()
        );
        return vec![Finding::warning(what, format!("if there is a pooler in between, {advice}"))];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECT: Seen = Seen { first: 7, other: 8, then: 7, heard: true, within: Duration::from_secs(5) };

    #[test]
    fn a_session_of_our_own_is_fine() {
        assert_eq!(judge(DIRECT), []);
    }

    #[test]
    fn a_pooler_in_transaction_mode_is_known_by_the_session_it_gives_away() {
        for seen in [
            Seen { then: 9, ..DIRECT },
            Seen { other: 7, ..DIRECT },
            Seen { other: 7, then: 9, heard: false, ..DIRECT },
        ] {
            let findings = judge(seen);
            assert!(findings[0].what.contains("changes our session"), "{seen:?}");
            assert!(findings[0].advice.contains("session mode"), "{seen:?}");
        }
    }

    #[test]
    fn a_pooler_that_swallows_notifications_is_known_by_the_silence() {
        assert!(judge(Seen { heard: false, ..DIRECT })[0].what.contains("not heard"));
    }
}
