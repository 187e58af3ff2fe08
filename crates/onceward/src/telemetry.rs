//! Logs and traces. Logs are structured and go to standard error; they hold no payloads.

use crate::config::{LogFormat, Telemetry};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

/// Keeps the exporter; call [`Exporter::flush`] before the process ends.
#[derive(Default)]
pub struct Exporter(Option<SdkTracerProvider>);

impl Exporter {
    /// Sends what is still buffered.
    pub fn flush(self) {
        if let Some(provider) = self.0
            && let Err(error) = provider.shutdown()
        {
            eprintln!("spans were left unsent: {error}");
        }
    }
}

/// Installs logging, and span export if the settings name an endpoint.
pub fn install(telemetry: &Telemetry) -> anyhow::Result<Exporter> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) => EnvFilter::try_new(filter)?,
        Err(_) => EnvFilter::try_new(&telemetry.log)?,
    };
    // The driver logs every statement with its parameters, which are payloads; nobody can ask for that.
    let filter = filter.add_directive("tokio_postgres=warn".parse()?);
    let filter = filter.add_directive(onceward_transport_rabbitmq::LOG_DIRECTIVE.parse()?);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match telemetry.log_format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.compact().boxed(),
    };
    let provider = (!telemetry.otlp_endpoint.is_empty()).then(|| exporter(&telemetry.otlp_endpoint)).transpose()?;
    let spans =
        provider.as_ref().map(|provider| tracing_opentelemetry::layer().with_tracer(provider.tracer("onceward")));
    tracing_subscriber::registry().with(filter).with(spans).with(lines).try_init()?;
    Ok(Exporter(provider))
}

fn exporter(endpoint: &str) -> anyhow::Result<SdkTracerProvider> {
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().with_endpoint(endpoint).build()?;
    let resource = Resource::builder().with_service_name("onceward").build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}
