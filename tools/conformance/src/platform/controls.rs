//! What operators set while queues are read: pauses and rate limits.

use super::{
    PlatformHarness,
    fixture::{PlatformFixture, job, message_to, tenant},
    service::{AUDIT, Job, WORK},
    store,
};
use onceward::{
    NewMessage,
    message_log::{controls, triage::Operator},
};
use onceward_testkit::eventually;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// How many messages of another tenant must be handled one after the other, while one of the paused tenant waits, before
/// the pause is known to be in force.
const ROUND_TRIPS: i64 = 10;

fn operator() -> Operator {
    Operator { name: "ada".to_owned(), why: "a conformance case".to_owned() }
}

fn numbered(name: &str, number: i64) -> NewMessage {
    let message =
        NewMessage::from_event(&Job { number, ..job("job") }, &tenant(name)).expect("a job can be serialized");
    message.ordered_by("key")
}

/// Returns the numbers of a tenant's effects, in order.
async fn handled(fixture: &PlatformFixture, name: &str) -> Vec<i64> {
    let effects = store::effects(&fixture.owner, WORK).await;
    effects.iter().filter(|effect| effect.tenant == name).map(|effect| effect.number).collect()
}

async fn wait_for(fixture: &PlatformFixture, name: &str, count: usize) -> Vec<i64> {
    eventually(&format!("{count} effects of {name}"), || async {
        let numbers = handled(fixture, name).await;
        (numbers.len() >= count).then_some(numbers)
    })
    .await
}

/// Publishes messages of both tenants until one of "acme" waits while those of "globex" go on. Returns how many of each
/// tenant were published.
async fn publish_until_paused(fixture: &PlatformFixture) -> (i64, i64) {
    let (mut acme, mut globex) = (0, 0);
    for _ in 0..100 {
        fixture.publish("acme", [numbered("acme", acme)]).await;
        acme += 1;
        for _ in 0..ROUND_TRIPS {
            fixture.publish("globex", [numbered("globex", globex)]).await;
            globex += 1;
            wait_for(fixture, "globex", globex as usize).await;
        }
        if (handled(fixture, "acme").await.len() as i64) < acme {
            return (acme, globex);
        }
    }
    panic!("the pause was not honoured");
}

pub async fn a_paused_tenant_waits_while_others_go_on_and_continues_in_order_by_itself(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    fixture.publish("acme", [numbered("acme", -1)]).await;
    wait_for(&fixture, "acme", 1).await;
    let acme = tenant("acme");
    controls::pause(fixture.db(), WORK, Some(&acme), HOUR, &operator()).await.expect("the queue exists");
    let (published, globex) = publish_until_paused(&fixture).await;
    let before = handled(&fixture, "acme").await;
    fixture.publish("acme", (published..published + 50).map(|number| numbered("acme", number))).await;
    fixture.publish("globex", (globex..globex + 50).map(|number| numbered("globex", number))).await;
    let others = wait_for(&fixture, "globex", globex as usize + 50).await;
    assert_eq!(others, (0..globex + 50).collect::<Vec<_>>());
    assert_eq!(handled(&fixture, "acme").await, before, "a paused tenant was handled");
    // A pause replaces the one before it, and this one ends soon.
    let soon = Duration::from_millis(300);
    controls::pause(fixture.db(), WORK, Some(&acme), soon, &operator()).await.expect("the queue exists");
    let all = wait_for(&fixture, "acme", published as usize + 51).await;
    assert_eq!(all, (-1..published + 50).collect::<Vec<_>>(), "in order");
}

pub async fn an_instance_that_starts_during_a_pause_handles_nothing_of_the_queue(harness: &dyn PlatformHarness) {
    let mut fixture = PlatformFixture::new(harness).await;
    controls::pause(fixture.db(), WORK, None, HOUR, &operator()).await.expect("the queue exists");
    let to_both = |number| message_to(&Job { number, ..job("job") }, "audited").ordered_by("key");
    fixture.publish("acme", (0..20).map(to_both)).await;
    fixture.run();
    // Another queue of the same messages is not paused.
    fixture.effects(AUDIT, 20).await;
    assert!(handled(&fixture, "acme").await.is_empty(), "a paused queue was handled");
    assert!(controls::resume(fixture.db(), WORK, None, &operator()).await.expect("it is paused"));
    assert_eq!(wait_for(&fixture, "acme", 20).await, (0..20).collect::<Vec<_>>());
}

pub async fn a_rate_limit_delays_messages_and_loses_none(harness: &dyn PlatformHarness) {
    let mut fixture = PlatformFixture::new(harness).await;
    let acme = tenant("acme");
    controls::limit(fixture.db(), WORK, Some(&acme), 20.0, 5, &operator()).await.expect("the queue exists");
    fixture.publish("acme", (0..45).map(|number| numbered("acme", number))).await;
    fixture.publish("globex", (0..25).map(|number| numbered("globex", number))).await;
    let start = store::now(&fixture.owner).await;
    fixture.run();
    assert_eq!(wait_for(&fixture, "globex", 25).await.len(), 25);
    assert_eq!(wait_for(&fixture, "acme", 45).await, (0..45).collect::<Vec<_>>());
    // 5 at once and 40 more at 20 a second take 2 seconds at least, on a machine of any speed.
    let seconds = store::last_effect(&fixture.owner, WORK, "acme").await - start;
    assert!(seconds >= 2.0, "45 messages took {seconds} s");
}
