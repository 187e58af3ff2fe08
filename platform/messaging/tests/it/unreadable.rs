//! Messages that cannot be read: each becomes a dead letter alone, without affecting others.

use crate::support::{Probe, consumer, count, dead_letters, drained, effects, one_lane, platform, publish_names};
use onceward::Failure;
use onceward_testkit::TestPlatform;
use tokio_postgres::Client;

/// Writes a job into the lane of `tenant` as the application role could: with `append_one`, which checks nothing.
async fn append(owner: &Client, tenant: &str, payload: &str, occurred_at: Option<&str>) {
    owner
        .execute(
            "SELECT onceward.append_one((SELECT topology_version FROM onceward.log_state), NULL, NULL, onceward.uuid_v7(),
                 (SELECT onceward.lane_of(id, $1, 0::smallint, 0::smallint) FROM onceward.queue WHERE name = 'probe.work'),
                 1::smallint, $1, 'probe.job', 'probe.events:tenant.' || $1 || '.job', NULL, NULL, onceward.uuid_v7(),
                 NULL, NULL, NULL, NULL, NULL, $2, $3::text::timestamptz, NULL)",
            &[&tenant, &payload, &occurred_at],
        )
        .await
        .expect("it is appended");
}

async fn poisoned(probe: Probe) -> (TestPlatform, Client) {
    let platform = platform(one_lane(), consumer(probe).concurrency(1)).await;
    let owner = platform.database().owner().await;
    (platform, owner)
}

#[tokio::test]
async fn only_the_message_with_an_unpaired_surrogate_becomes_a_dead_letter() {
    let (probe, _calls) = Probe::good();
    let (mut platform, owner) = poisoned(probe).await;
    publish_names(platform.db(), "acme", &["before"]).await;
    append(&owner, "acme", r#"{"name":"\ud800"}"#, None).await;
    publish_names(platform.db(), "acme", &["after"]).await;
    publish_names(platform.db(), "globex", &["other"]).await;
    platform.run_consumers();
    drained(&owner).await;
    let mut done = effects(&owner).await;
    done.sort();
    assert_eq!(done, ["after", "before", "other"]);
    let dead = dead_letters(&owner, 1).await;
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!((dead[0].tenant.as_str(), dead[0].reason.as_str()), ("acme", "malformed"));
    assert_eq!(dead[0].message["payload"], r#"{"name":"\ud800"}"#, "the text is kept unchanged");
    let unfinished = "SELECT count(*) FROM onceward.turn_start";
    assert_eq!(count(&owner, unfinished).await, 0, "a worker died on the way");
}

#[tokio::test]
async fn only_the_message_with_an_infinite_time_becomes_a_dead_letter() {
    let (probe, _calls) = Probe::good();
    let (mut platform, owner) = poisoned(probe).await;
    append(&owner, "acme", r#"{"name":"endless"}"#, Some("infinity")).await;
    publish_names(platform.db(), "acme", &["after"]).await;
    platform.run_consumers();
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["after"]);
    let dead = dead_letters(&owner, 1).await;
    assert_eq!(dead[0].last_error.as_deref(), Some("its occurred_at cannot be read"));
}

#[tokio::test]
async fn a_message_with_nul_becomes_a_dead_letter_instead_of_blocking_its_lane() {
    let (probe, _calls) = Probe::new(|_, _| Box::pin(async { Err(Failure::permanent("not wanted")) }));
    let (mut platform, owner) = poisoned(probe).await;
    append(&owner, "acme", r#"{"name":"a\u0000b"}"#, None).await;
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!(dead[0].reason, "malformed");
    drained(&owner).await;
}

#[tokio::test]
async fn an_error_text_with_nul_does_not_block_the_lane() {
    let (probe, _calls) = Probe::new(|_, _| Box::pin(async { Err(Failure::permanent("bad byte \0 at 3")) }));
    let (mut platform, owner) = poisoned(probe).await;
    publish_names(platform.db(), "acme", &["refused"]).await;
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!(dead[0].last_error.as_deref(), Some("bad byte \u{fffd} at 3"));
}
