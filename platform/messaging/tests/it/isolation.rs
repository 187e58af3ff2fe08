//! The checks before a handler sees a message: tenant, contract, age.

use crate::support::{Probe, consumer, dead_letters, drained, effects, enqueue, one_lane, platform, publish_names};
use serde_json::json;

#[tokio::test]
async fn a_payload_that_violates_its_contract_becomes_a_dead_letter_immediately() {
    let (probe, mut calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    enqueue(&owner, "acme", "probe.job.v1", &json!({"name": 7})).await;
    publish_names(platform.db(), "acme", &["good"]).await;
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("schema_violation", 1));
    assert!(dead[0].last_error.as_deref().is_some_and(|error| error.contains("/name")), "{dead:?}");
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["good"]);
    assert_eq!(calls.drain(), 1, "the handler saw it");
}

#[tokio::test]
async fn a_message_of_another_tenant_than_its_lane_becomes_a_dead_letter_immediately() {
    let (probe, mut calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["forged", "good"]).await;
    let forged = owner
        .execute("UPDATE onceward.message_log SET tenant_id = 'globex' WHERE payload->>'name' = 'forged'", &[])
        .await;
    assert_eq!(forged.expect("the owner may forge"), 1);
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].reason.as_str(), dead[0].tenant.as_str()), ("tenant_mismatch", "acme"));
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["good"]);
    assert_eq!(calls.drain(), 1, "the handler saw it");
}

#[tokio::test]
async fn a_routing_key_of_another_tenant_makes_a_dead_letter_immediately() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    owner
        .batch_execute(
            "SELECT onceward.enqueue('acme', 'probe.events:tenant.globex.job', 'probe.job.v1', '{\"name\": \"a\"}')",
        )
        .await
        .expect("SQL callers are checked by the consumer");
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!(dead[0].reason, "tenant_mismatch");
    assert_eq!(effects(&owner).await, [""; 0]);
}

#[tokio::test]
async fn a_message_that_waited_longer_than_its_queue_allows_expires() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane().ttl_ms(60_000), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["old", "fresh"]).await;
    owner
        .batch_execute(
            "UPDATE onceward.message_log SET created_at = created_at - interval '61 s' WHERE payload->>'name' = 'old'",
        )
        .await
        .expect("the owner can age it");
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].name.as_deref(), dead[0].reason.as_str()), (Some("old"), "expired"));
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["fresh"]);
}

#[tokio::test]
async fn an_unreadable_message_becomes_a_dead_letter_and_blocks_no_other() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["garbled", "good"]).await;
    owner
        .batch_execute(
            "UPDATE onceward.message_log SET event_type = 'no such..name' WHERE payload->>'name' = 'garbled'",
        )
        .await
        .expect("the owner can garble it");
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!(dead[0].reason, "malformed");
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["good"]);
}

#[tokio::test]
async fn a_handler_sees_only_the_rows_of_its_messages_tenant() {
    let (probe, _calls) = Probe::new(|tx, seen| {
        Box::pin(async move {
            let rows = tx.query("SELECT DISTINCT tenant_id FROM probe.effect", &[]).await?;
            let tenants: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
            assert_eq!(tenants, [seen.tenant.as_str()]);
            Ok(())
        })
    });
    let mut platform = platform(one_lane(), consumer(probe).concurrency(1)).await;
    let owner = platform.database().owner().await;
    for tenant in ["acme", "globex", "initech"] {
        publish_names(platform.db(), tenant, &["a", "b"]).await;
    }
    platform.run_consumers();
    drained(&owner).await;
    assert_eq!(effects(&owner).await.len(), 6);
}
