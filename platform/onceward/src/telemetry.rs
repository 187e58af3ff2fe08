//! Logs and traces. Logs are structured and go to standard error; they contain no payloads. Exporting traces is the Cargo
//! feature `otlp`.

use crate::config::{LogFormat, TelemetryConfig};
use std::io::IsTerminal;
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

/// The driver logs every statement with its parameters, which are payloads, so this cannot be enabled.
const SILENCED: &[&str] = &[
    "tokio_postgres=warn",
    #[cfg(feature = "rabbitmq")]
    onceward_broker_rabbitmq::LOG_DIRECTIVE,
];

/// Holds the span exporter. Call [`TelemetryGuard::flush`] before the process exits.
#[derive(Default)]
pub struct TelemetryGuard {
    #[cfg(feature = "otlp")]
    provider: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

impl TelemetryGuard {
    /// Sends the spans that are still buffered.
    pub fn flush(self) {
        #[cfg(feature = "otlp")]
        if let Some(provider) = self.provider
            && let Err(error) = provider.shutdown()
        {
            eprintln!("sending the last spans failed: {error}");
        }
    }
}

/// Installs logging, and span export if the settings name an endpoint.
pub fn install(telemetry: &TelemetryConfig) -> anyhow::Result<TelemetryGuard> {
    let mut filter = match std::env::var("RUST_LOG") {
        Ok(filter) => EnvFilter::try_new(filter)?,
        Err(_) => EnvFilter::try_new(&telemetry.log)?,
    };
    for directive in SILENCED {
        filter = filter.add_directive(directive.parse()?);
    }
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(use_colours());
    let lines = match telemetry.log_format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.compact().boxed(),
    };
    let (spans, exporter) = otlp::layer(&telemetry.otlp_endpoint)?;
    tracing_subscriber::registry().with(filter).with(spans).with(lines).try_init()?;
    Ok(exporter)
}

/// Colours are used only on a terminal, and not if `NO_COLOR` is set.
fn use_colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(feature = "otlp")]
mod otlp {
    use super::TelemetryGuard;
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_otlp::WithExportConfig;
    use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
    use tracing_subscriber::{Layer, layer::Layered};

    type Filtered = Layered<tracing_subscriber::EnvFilter, tracing_subscriber::Registry>;
    type SpanLayer = Box<dyn Layer<Filtered> + Send + Sync>;

    /// Returns the layer that exports spans to `endpoint`; `None` if it is empty.
    pub(super) fn layer(endpoint: &str) -> anyhow::Result<(Option<SpanLayer>, TelemetryGuard)> {
        if endpoint.is_empty() {
            return Ok((None, TelemetryGuard::default()));
        }
        let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().with_endpoint(endpoint).build()?;
        let resource = Resource::builder().with_service_name("onceward").build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("onceward")).boxed();
        Ok((Some(layer), TelemetryGuard { provider: Some(provider) }))
    }
}

#[cfg(not(feature = "otlp"))]
mod otlp {
    use super::TelemetryGuard;

    /// Fails if an endpoint is set, because this program was built without the exporter.
    pub(super) fn layer(
        endpoint: &str,
    ) -> anyhow::Result<(Option<tracing_subscriber::layer::Identity>, TelemetryGuard)> {
        anyhow::ensure!(
            endpoint.is_empty(),
            "telemetry.otlp_endpoint is set, but this program was built without the exporter; build it with the Cargo \
             feature `otlp` of `onceward` or `onceward-cli`, or leave the setting empty"
        );
        Ok((None, TelemetryGuard::default()))
    }
}
