//! `onceward dlq show`: the failed attempts of a dead letter.

use crate::cli_fixture::CliFixture;
use jiff::Timestamp;
use onceward::{RetryBudget, prelude::*, topology::Jitter};
use onceward_testkit::{TestPlatform, eventually};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ProbeRequested {}

impl Event for ProbeRequested {
    const TYPE: &'static str = "probe.requested.v1";
    const EXCHANGE: &'static str = "probe.events";

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.requested")
    }
}

struct FailingHandler;

impl Handler for FailingHandler {
    type Event = ProbeRequested;

    async fn handle(&self, _: &mut Tx, received: &Received<'_, ProbeRequested>) -> Result<(), Failure> {
        Err(Failure::transient(format!("no response \u{1b}[31m at attempt {}", received.attempt)))
    }
}

/// A service with one event, whose consumer fails three times in quick succession.
fn probe_service() -> Service {
    let topology = Topology::new()
        .exchange(Exchange::topic("probe.events"))
        .queue(Queue::work("probe.requests").shards(1))
        .bind("probe.events", "tenant.*.requested", "probe.requests");
    let retry = RetryPolicy::exponential(3).initial_ms(20).cap_ms(100).jitter(Jitter::None);
    let budget = RetryBudget { ratio: 1.0, min_per_second: 10_000.0, window_ms: 10_000 };
    Service::new("probe")
        .schemas(&[r#"{"$id": "probe.requested.v1", "type": "object"}"#])
        .topology(topology)
        .consumer(Consumer::transactional("fail", "probe.requests").on(FailingHandler).retry(retry).budget(budget))
}

#[tokio::test]
async fn each_failed_attempt_is_shown_with_its_time_and_its_error() {
    let mut platform = TestPlatform::new(vec![probe_service()]).await;
    platform.run_consumers();
    let cli = CliFixture::on_database(platform.database().url(), platform.database().owner().await);
    let mut tx = platform.db().begin(platform.scope("acme")).await.expect("a connection");
    outbox::publish(&mut tx, &ProbeRequested {}).await.expect("the event is published");
    tx.commit().await.expect("the commit succeeds");
    let id = eventually("the message is a dead letter", || async {
        let id = cli.count("SELECT coalesce(max(id), 0) FROM onceward.dead_letters").await;
        (id > 0).then(|| id.to_string())
    })
    .await;

    let shown = cli.run(&["dlq", "show", &id, "--json"]).await.json().remove(0);
    let attempts = shown["attemptLog"].as_array().expect("a list");
    let errors: Vec<(&Value, &str)> =
        attempts.iter().map(|attempt| (&attempt["attempt"], attempt["error"].as_str().unwrap_or_default())).collect();
    let expected: Vec<String> = (1..=3).map(|number| format!("no response \u{1b}[31m at attempt {number}")).collect();
    assert_eq!(errors, [(&json!(1), &*expected[0]), (&json!(2), &*expected[1]), (&json!(3), &*expected[2])]);
    let times: Vec<Timestamp> =
        attempts.iter().map(|attempt| attempt["at"].as_str().unwrap_or_default().parse().expect("a time")).collect();
    assert!(times[0] <= times[1] && times[1] <= times[2], "{times:?}");

    let page = cli.run(&["dlq", "show", &id]).await.stdout;
    let section = page.split_once("\nfailed attempts\n").expect("a section of its own").1;
    let lines: Vec<&str> = section.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 3, "{page}");
    for (line, (number, attempt)) in lines.iter().zip((1..).zip(attempts)) {
        let at = attempt["at"].as_str().expect("a time");
        assert_eq!(*line, format!("{number:>3}  {at}  no response \\u{{1b}}[31m at attempt {number}"));
    }
}

#[tokio::test]
async fn a_dead_letter_without_known_attempts_says_so() {
    let cli = CliFixture::new().await;
    let id = cli.insert_dead_letter("acme", "cup").await.to_string();
    assert_eq!(cli.run(&["dlq", "show", &id, "--json"]).await.json()[0]["attemptLog"], json!([]));
    let page = cli.run(&["dlq", "show", &id]).await.stdout;
    assert!(page.contains("\nfailed attempts\nnone are known\n"), "{page}");
}
