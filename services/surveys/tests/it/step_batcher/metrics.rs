//! The step batching metrics.

use crate::support::*;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;
use serde_json::json;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The counters of one thread, so that concurrent tests do not affect them.
#[derive(Default)]
struct CounterRecorder(Mutex<HashMap<String, Arc<AtomicU64>>>);

impl CounterRecorder {
    fn counter(&self, name: &str) -> Arc<AtomicU64> {
        self.0.lock().entry(name.to_owned()).or_default().clone()
    }

    /// Returns the counts of steps and batches.
    fn steps(&self) -> [u64; 2] {
        ["surveys_steps_total", "surveys_step_groups_total"].map(|name| self.counter(name).load(Ordering::Relaxed))
    }
}

impl Recorder for CounterRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.counter(key.name()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Runs on one thread, the one that records.
#[tokio::test]
async fn a_step_is_counted_when_it_is_committed() {
    let counts = CounterRecorder::default();
    let _recording = metrics::set_default_local_recorder(&counts);
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let ada = author.respondent(&link).await;
    let refuse =
        "CREATE FUNCTION surveys.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
         CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON surveys.answer DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION surveys.refuse()";
    server.owner.batch_execute(refuse).await.expect("the trigger is created");
    let answers = json!({"sex": "f", "region": "north"});
    assert_eq!(ada.answer("only", 1, answers.clone()).await.status, 500);
    assert_eq!(counts.steps(), [0, 0], "nothing was committed");
    server.owner.batch_execute("DROP TRIGGER refuse ON surveys.answer").await.expect("the trigger is removed");
    ada.answer("only", 1, answers.clone()).await.with_status(200);
    assert_eq!(counts.steps(), [1, 1]);
    ada.answer("only", 1, answers).await.with_status(200);
    assert_eq!(counts.steps(), [1, 1], "a repeated request gets a response and writes nothing");
}
