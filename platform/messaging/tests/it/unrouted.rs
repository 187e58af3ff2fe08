//! Messages that match no queue: each type is listed, and the log warns about those that a consumer should handle.

use crate::support::{Probe, consumer, count, one_lane, platform, publish};
use onceward::{NewMessage, message_log::unrouted::unrouted};
use parking_lot::Mutex;
use serde_json::json;
use std::{io::Write, sync::Arc};

#[tokio::test]
async fn a_type_with_many_messages_hides_no_other() {
    let (probe, _calls) = Probe::good();
    let platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let enqueue =
        "SELECT count(onceward.enqueue('acme', 'probe.events:nobody.listens', $1, '{}')) FROM generate_series(1, $2)";
    for (event_type, messages) in [("probe.misspelt.v1", 1), ("probe.tick.v1", 1_001)] {
        owner.execute(enqueue, &[&event_type, &messages]).await.expect("they are published");
    }
    let listed = unrouted(platform.db()).await.expect("the list");
    let listed: Vec<_> = listed.iter().map(|one| (&*one.event_type, one.messages, one.is_more)).collect();
    assert_eq!(listed, [("probe.tick.v1", 1_000, true), ("probe.misspelt.v1", 1, false)]);
}

#[tokio::test]
async fn types_beyond_the_thousandth_are_still_listed() {
    let (probe, _calls) = Probe::good();
    let platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let enqueue = "SELECT count(onceward.enqueue('acme', 'probe.events:nobody.listens', 'probe.t' || n || '.v1', '{}')) FROM generate_series(1, 1001) AS n";
    owner.execute(enqueue, &[]).await.expect("they are published");
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.unrouted_lane").await, 1_000);
    assert_eq!(unrouted(platform.db()).await.expect("the list").len(), 1_001);
}

/// The log output of this thread.
#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<u8>>>);

impl LogLines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).expect("text")
    }
}

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_unrouted_message_is_warned_about_unless_its_type_needs_no_subscriber() {
    let (probe, _calls) = Probe::good();
    let platform = platform(one_lane(), consumer(probe)).await;
    let lines = LogLines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let logging = tracing::subscriber::set_default(subscriber);
    let to = |event_type: &str, payload| NewMessage::new(event_type, "probe.events:nobody.listens", payload);
    publish(platform.db(), "acme", [to("probe.job.v1", json!({"name": "lost"}))]).await;
    publish(
        platform.db(),
        "acme",
        [to("probe.tick.v1", json!({"schedule": "t", "scheduledFor": "2026-01-01T00:00:00Z"}))],
    )
    .await;
    drop(logging);
    let text = lines.text();
    let warnings: Vec<&str> = text.lines().filter(|line| line.contains("no queue is bound to this topic")).collect();
    assert_eq!(warnings.len(), 1, "{text}");
    assert!(warnings[0].contains("WARN") && warnings[0].contains("event_type=\"probe.job.v1\""), "{text}");
}
