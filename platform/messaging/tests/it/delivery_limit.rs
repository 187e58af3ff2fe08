//! A message that kills its workers is isolated from the others and dead-lettered.

use crate::support::{Probe, consumer, dead_letters, drained, effects, one_lane, platform, publish_names, quick};
use onceward::Failure;
use onceward_testkit::TestPlatform;
use std::sync::{Arc, OnceLock};
use tokio_postgres::Client;

/// A handler that loses its database connection while it handles the message called "poison".
fn poisoned(killer: Arc<OnceLock<Client>>) -> Probe {
    let (probe, _calls) = Probe::new(move |tx, seen| {
        let killer = killer.clone();
        Box::pin(async move {
            if seen.name != "poison" {
                return Ok(());
            }
            let pid: i32 = tx.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
            let killer = killer.get().expect("set before anything runs");
            killer.execute("SELECT pg_terminate_backend($1, 5000)", &[&pid]).await.map_err(Failure::transient)?;
            tx.query("SELECT 1", &[]).await?;
            Ok(())
        })
    });
    probe
}

async fn poisoned_platform(limit: u16) -> TestPlatform {
    let killer = Arc::new(OnceLock::new());
    let consumer = consumer(poisoned(killer.clone())).retry(quick(20));
    let platform = platform(one_lane().delivery_limit(limit), consumer).await;
    killer.set(platform.database().owner().await).expect("set once");
    platform
}

#[tokio::test]
async fn a_message_that_kills_its_workers_becomes_a_dead_letter_and_its_neighbours_are_handled() {
    let mut platform = poisoned_platform(4).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "b", "poison", "c", "d"]).await;
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].name.as_deref(), dead[0].reason.as_str()), (Some("poison"), "delivery_limit"));
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn a_low_delivery_limit_does_not_dead_letter_innocent_neighbours() {
    let mut platform = poisoned_platform(1).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "b", "poison", "c", "d"]).await;
    platform.run_consumers();
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["a", "b", "c", "d"]);
    let dead = dead_letters(&owner, 1).await;
    assert_eq!(dead.len(), 1, "{dead:?}");
}
