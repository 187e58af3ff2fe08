//! The topology in the database: declared once, changed with care, noticed by running processes.

use crate::support::{
    Probe, bare_service, consumer, count, dead_letters, job, one_lane, platform, publish, publish_names, scope,
    topology,
};
use onceward::{
    Failure, Queue,
    message_log::{
        declare::declare,
        stats::{QueueStats, queue_stats},
    },
    outbox,
};
use onceward_broker::BusKind;
use onceward_testkit::{TestPlatform, eventually};

#[tokio::test]
async fn declaring_twice_changes_nothing() {
    let platform = TestPlatform::new(vec![bare_service(one_lane())]).await;
    let owner = platform.database().owner().await;
    let version = "SELECT topology_version FROM onceward.log_state";
    let before = count(&owner, version).await;
    let config = platform.database().config();
    assert!(!declare(&config, &topology(one_lane()), BusKind::Postgres).await.expect("it declares"));
    assert_eq!(count(&owner, version).await, before);
    assert!(declare(&config, &topology(one_lane().ttl_ms(1_000)), BusKind::Postgres).await.expect("it declares"));
    assert_eq!(count(&owner, version).await, before + 1);
}

#[tokio::test]
async fn changed_shards_priorities_or_kinds_are_refused_with_reason_and_advice() {
    let platform = TestPlatform::new(vec![bare_service(one_lane())]).await;
    let config = platform.database().config();
    for changed in [one_lane().shards(4), one_lane().max_priority(3)] {
        let error =
            declare(&config, &topology(changed), BusKind::Postgres).await.expect_err("lanes would change").to_string();
        assert!(error.contains(crate::support::QUEUE) && error.contains("declare a new queue"), "{error}");
    }
    let mut other_kind = topology(one_lane());
    other_kind.exchanges[0] = onceward::Exchange::direct("probe.events");
    let error = declare(&config, &other_kind, BusKind::Postgres).await.expect_err("another kind").to_string();
    assert!(error.contains("probe.events") && error.contains("another name"), "{error}");
}

#[tokio::test]
async fn a_new_binding_reaches_running_publishers() {
    let platform = TestPlatform::new(vec![bare_service(one_lane())]).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["before"]).await;
    let wider = topology(one_lane()).queue(Queue::work("probe.copy").shards(1)).bind("probe.events", "#", "probe.copy");
    assert!(declare(&platform.database().config(), &wider, BusKind::Postgres).await.expect("it declares"));
    // At most the first publish after the change must be repeated, and its error is transient.
    let mut refusals = 0;
    loop {
        let mut tx = platform.db().begin(scope("acme")).await.expect("a connection");
        outbox::send(&mut tx, job("acme", "after")).await.expect("accepted");
        match tx.commit().await {
            Ok(()) => break,
            Err(error) => {
                assert!(error.is_transient() && error.to_string().contains("topology"), "{error}");
                refusals += 1;
            }
        }
    }
    assert!(refusals <= 1, "{refusals}");
    let copies = "SELECT count(*) FROM onceward.message_log WHERE payload->>'name' = 'after'";
    assert_eq!(count(&owner, copies).await, 2);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.outbox_messages").await, 2, "a copy is not a message");
}

#[tokio::test]
async fn a_running_consumer_that_publishes_survives_a_change_of_the_topology() {
    let (probe, mut calls) = Probe::new(|tx, seen| {
        Box::pin(async move {
            if seen.name == "parent" {
                outbox::send(tx, job("acme", "child")).await?;
            }
            Ok(())
        })
    });
    let mut platform = platform(one_lane(), consumer(probe)).await;
    platform.run_consumers();
    publish_names(platform.db(), "acme", &["parent"]).await;
    assert_eq!(calls.names(2).await, ["parent", "child"]);
    assert!(
        declare(&platform.database().config(), &topology(one_lane().ttl_ms(3_600_000)), BusKind::Postgres)
            .await
            .expect("it declares")
    );
    crate::support::enqueue(
        &platform.database().owner().await,
        "acme",
        "probe.job.v1",
        &serde_json::json!({"name": "parent"}),
    )
    .await;
    let mut names = calls.names(2).await;
    while names.last().is_some_and(|name| name != "child") {
        names.extend(calls.names(1).await);
    }
    let owner = platform.database().owner().await;
    assert_eq!(crate::support::effects_reach(&owner, 4).await, ["parent", "child", "parent", "child"]);
}

#[tokio::test]
async fn queue_figures_report_depth_lag_and_dead_letters() {
    let (probe, _calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            match seen.name.as_str() {
                "later" => Err(Failure::retry_after(std::time::Duration::from_secs(3_600), "not today")),
                "never" => Err(Failure::permanent("never")),
                _ => Ok(()),
            }
        })
    });
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "later", "never"]).await;
    publish(platform.db(), "globex", (0..1_500).map(|_| job("globex", "b"))).await;
    owner
        .batch_execute("UPDATE onceward.message_log SET created_at = created_at - interval '90 s'")
        .await
        .expect("aged");
    let queue_figures = |all: Vec<QueueStats>| all.into_iter().find(|stats| stats.queue == crate::support::QUEUE);
    let stats = queue_figures(queue_stats(platform.db()).await.expect("figures")).expect("the queue's");
    assert!((1_400..=1_600).contains(&stats.depth), "{stats:?}");
    assert!((90.0..120.0).contains(&stats.lag_seconds), "{stats:?}");
    assert_eq!((stats.deferred, stats.dead), (0, 0));

    platform.run_consumers();
    dead_letters(&owner, 1).await;
    let after = eventually("all are handled", || async {
        let stats = queue_figures(queue_stats(platform.db()).await.ok()?)?;
        (stats.depth == 0).then_some(stats)
    })
    .await;
    assert_eq!((after.deferred, after.dead), (1, 1));
    assert!(after.lag_seconds >= 90.0, "what is in retry is as old as it is: {after:?}");
}
