//! `/metrics`: the process's recorder, and samplers that refresh gauges just before they are read.

use crate::AppState;
use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

const BUCKETS_MS: &[f64] = &[
    0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 3_000.0, 5_000.0, 10_000.0, 60_000.0,
    300_000.0,
];
const BUCKETS_S: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0];
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(2);
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Installs this process's metrics recorder. Later calls return the handle of the first.
///
/// Histograms named `*_ms` get buckets from half a millisecond to five minutes, those named `*_seconds` from five
/// milliseconds to an hour; every bound that an objective names is one of them. Histograms with other names have no
/// buckets and cannot be aggregated over processes.
///
/// # Panics
/// If another library has installed its own recorder: two cannot share a process.
pub fn install_recorder() -> PrometheusHandle {
    RECORDER
        .get_or_init(|| {
            let handle = with_buckets(PrometheusBuilder::new())
                .install_recorder()
                .expect("no other metrics recorder in this process");
            start_upkeep(handle.clone());
            handle
        })
        .clone()
}

fn with_buckets(builder: PrometheusBuilder) -> PrometheusBuilder {
    [("_ms", BUCKETS_MS), ("_seconds", BUCKETS_S)].into_iter().fold(builder, |builder, (suffix, buckets)| {
        builder
            .set_buckets_for_metric(Matcher::Suffix(suffix.to_owned()), buckets)
            .expect("the list of buckets is not empty")
    })
}

/// Periodically moves samples into their buckets, so that memory stays bounded when nothing scrapes the process.
fn start_upkeep(handle: PrometheusHandle) {
    let upkeep = move || {
        loop {
            std::thread::sleep(UPKEEP_INTERVAL);
            if std::panic::catch_unwind(AssertUnwindSafe(|| handle.run_upkeep())).is_err() {
                tracing::error!("metrics upkeep panicked; retrying");
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("metrics-upkeep".into()).spawn(upkeep) {
        tracing::warn!(%error, "starting metrics upkeep failed; memory grows until /metrics is read");
    }
}

type Sampler = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The source of `/metrics`.
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

    /// Adds a sampler, which sets gauges from a cheap query. It runs before a scrape is answered, at most once per
    /// second however often `/metrics` is read, and has a time limit of two seconds.
    pub fn sampler<F, Fut>(mut self, sampler: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.samplers.push(Arc::new(move || Box::pin(sampler())));
        self
    }

    /// Returns the metrics in Prometheus' text format.
    pub async fn render(&self) -> String {
        self.sample().await;
        self.recorder.render()
    }

    /// Runs the samplers. A scrape that overlaps with another's sampling continues with the current values.
    async fn sample(&self) {
        let Ok(mut last) = self.last_sample.try_lock() else {
            return;
        };
        if last.is_some_and(|at| at.elapsed() < SAMPLE_INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
        let all = join_all(self.samplers.iter().map(|sampler| async move {
            if AssertUnwindSafe(async { sampler().await }).catch_unwind().await.is_err() {
                tracing::error!("a metrics sampler panicked; its gauges keep their last values");
            }
        }));
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

    #[test]
    fn histograms_of_milliseconds_and_of_seconds_have_the_buckets_that_objectives_name() {
        let recorder = with_buckets(PrometheusBuilder::new()).build_recorder();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            metrics::histogram!("loans_ms").record(2_999.0);
            metrics::histogram!("windows_seconds").record(299.0);
        });
        let text = handle.render();
        for line in [
            r#"loans_ms_bucket{le="2500"} 0"#,
            r#"loans_ms_bucket{le="3000"} 1"#,
            r#"windows_seconds_bucket{le="120"} 0"#,
            r#"windows_seconds_bucket{le="300"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing from\n{text}");
        }
    }

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
    #[tokio::test]
    async fn a_panicking_sampler_does_not_prevent_the_others_from_running() {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = runs.clone();
        let metrics = MetricsHandle::new(PrometheusBuilder::new().build_recorder().handle())
            .sampler(|| async { panic!("on purpose") })
            .sampler(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                async {}
            });
        metrics.render().await;
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }
}
