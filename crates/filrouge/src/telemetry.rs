//! Spans for OpenTelemetry, sent to the collector that `FILROUGE_OTLP_ENDPOINT` names (OTLP over HTTP).

use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

/// The time limit for a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The provider whose remaining spans [`finish`] sends.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// A client that follows no redirects and uses no proxies. It is created on a new thread: it contains its own runtime,
/// which must not be created within another.
fn client() -> anyhow::Result<reqwest::blocking::Client> {
    // If a crypto provider is already installed, the client uses that one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let build = || {
        reqwest::blocking::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(TIMEOUT)
            .build()
    };
    let client = std::thread::spawn(build).join();
    Ok(client.map_err(|_| anyhow::anyhow!("no HTTP client for spans"))??)
}

/// The layer that sends spans to `endpoint`, such as `http://127.0.0.1:4318`. It sends only filrouge's own spans at
/// level info or above, because the spans of libraries may contain HTTP headers.
///
/// # Errors
/// When the exporter cannot be created.
pub(crate) fn layer<S>(endpoint: &str) -> anyhow::Result<impl Layer<S> + use<S>>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client()?)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_timeout(TIMEOUT)
        .build()?;
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder_empty()
        .with_service_name("filrouge")
        .with_attribute(version)
        .build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build();
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    let tracer = provider.tracer("filrouge");
    // This is called only once, so the cell is empty.
    let _ = PROVIDER.set(provider);
    Ok(tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_filter(filter_fn(|metadata| {
            metadata.target().starts_with("filrouge") && *metadata.level() <= Level::INFO
        })))
}

/// Sends the remaining spans when the server ends, and waits for at most [`TIMEOUT`].
pub(crate) async fn finish() {
    let Some(provider) = PROVIDER.get().cloned() else {
        return;
    };
    let sent = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(TIMEOUT)).await;
    if !matches!(sent, Ok(Ok(()))) {
        tracing::warn!("the last spans could not be sent");
    }
}
