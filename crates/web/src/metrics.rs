//! `/metrics`: the process's recorder, and samplers that refresh gauges just before they are read.

use crate::AppState;
use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use futures_util::future::{BoxFuture, join_all};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::{
    future::Future,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

const BUCKETS_MS: &[f64] = &[
    0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 60_000.0, 300_000.0,
];
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(2);
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Makes this process record metrics. Later calls give the handle of the first.
///
/// Histograms named `*_ms` get buckets from half a millisecond to five minutes.
///
/// # Panics
/// If another library has installed a recorder of its own: two cannot share a process.
pub fn install_recorder() -> PrometheusHandle {
    RECORDER
        .get_or_init(|| {
            let handle = PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Suffix("_ms".to_owned()), BUCKETS_MS)
                .expect("there are buckets")
                .install_recorder()
                .expect("no other metrics recorder in this process");
            keep_up(handle.clone());
            handle
        })
        .clone()
}

/// Folds samples into their buckets now and then, so that memory stays bounded when nobody scrapes.
fn keep_up(handle: PrometheusHandle) {
    let upkeep = move || {
        loop {
            std::thread::sleep(UPKEEP_INTERVAL);
            handle.run_upkeep();
        }
    };
    if let Err(error) = std::thread::Builder::new().name("metrics-upkeep".into()).spawn(upkeep) {
        tracing::warn!(%error, "metrics upkeep does not run; memory grows until /metrics is read");
    }
}

type Sampler = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What `/metrics` reads from.
#[derive(Clone)]
pub struct MetricsHandle {
    recorder: PrometheusHandle,
    samplers: Vec<Sampler>,
    last_sample: Arc<Mutex<Option<Instant>>>,
}

impl MetricsHandle {
    /// Reads from `recorder`, without samplers.
    pub fn new(recorder: PrometheusHandle) -> Self {
        Self { recorder, samplers: Vec::new(), last_sample: Arc::default() }
    }

    /// Adds a sampler: it sets gauges from a cheap look at the world. It runs before a scrape is answered, at most once
    /// a second however often `/metrics` is read, and gets two seconds.
    pub fn sampler<F, Fut>(mut self, sampler: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.samplers.push(Arc::new(move || Box::pin(sampler())));
        self
    }

    /// The metrics in Prometheus' text form.
    pub async fn render(&self) -> String {
        self.sample().await;
        self.recorder.render()
    }

    /// A scrape that finds another one sampling goes on with what there is.
    async fn sample(&self) {
        let Ok(mut last) = self.last_sample.try_lock() else {
            return;
        };
        if last.is_some_and(|at| at.elapsed() < SAMPLE_INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
        let all = join_all(self.samplers.iter().map(|sampler| sampler()));
        if tokio::time::timeout(SAMPLE_TIMEOUT, all).await.is_err() {
            tracing::warn!("a metrics sampler took longer than {SAMPLE_TIMEOUT:?} and was stopped");
        }
    }
}

pub(crate) async fn scrape(State(state): State<AppState>) -> Response {
    let text = state.metrics.render().await;
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn samplers_run_at_most_once_a_second() {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = runs.clone();
        let recorder = PrometheusBuilder::new().build_recorder().handle();
        let metrics = MetricsHandle::new(recorder).sampler(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            async {}
        });
        metrics.render().await;
        metrics.render().await;
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }
}
