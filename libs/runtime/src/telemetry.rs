//! Logs as JSON lines on standard output, and traces to an OTLP collector if one is configured.

use std::io::IsTerminal;

use anyhow::Context;
use json_subscriber::JsonLayer;
use opentelemetry::trace::{Link, SpanKind, TraceContextExt, TraceId, TracerProvider as _};
use opentelemetry::{Context as TraceContext, KeyValue, global};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    Config as SdkConfig, IdGenerator, RandomIdGenerator, SamplingResult, SdkTracerProvider, ShouldSample,
};
use tracing::{Event, Metadata, Subscriber};
use tracing_log::NormalizeEvent;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::Env;
use crate::trace_context::StrictPropagator;

/// The settings of logs and traces.
#[derive(Clone, Debug)]
pub struct Config {
    filter: String,
    json: bool,
    otlp_endpoint: Option<String>,
    disabled: bool,
}

impl Config {
    pub fn read(env: &mut Env) -> Option<Self> {
        let filter = env.with_default("LOG", "info".to_owned(), "log filter, as in `info,selections=debug`");
        let json = env.with_default("LOG_JSON", true, "logs as JSON lines; `false` for plain text");
        let otlp_endpoint = env.optional(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "URL of the OTLP/HTTP collector of traces; no export when unset",
        );
        let disabled = env.with_default(
            "OTEL_SDK_DISABLED",
            false,
            "disables spans and trace ids, to measure their cost",
        );
        Some(Self { filter: filter?, json: json?, otlp_endpoint: otlp_endpoint?, disabled: disabled? })
    }
}

/// The running trace exporter.
pub struct Telemetry(SdkTracerProvider);

impl Telemetry {
    /// Exports the remaining spans.
    pub fn flush(self) {
        if let Err(error) = self.0.shutdown() {
            // An unavailable collector must not prevent the process from ending.
            eprintln!("failed to export traces: {error}");
        }
    }
}

/// Installs the process-wide subscriber and W3C trace-context propagation.
///
/// # Errors
/// If the log filter or the endpoint is invalid, or on a second call in one process.
pub fn start(service: &'static str, config: &Config) -> anyhow::Result<Telemetry> {
    global::set_text_map_propagator(StrictPropagator::default());
    let resource = Resource::builder().with_service_name(service).build();
    let mut provider =
        SdkTracerProvider::builder().with_resource(resource).with_sampler(IndependentSampler::from_env());
    if let Some(endpoint) = &config.otlp_endpoint {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .context("OTEL_EXPORTER_OTLP_ENDPOINT is invalid")?;
        provider = provider.with_batch_exporter(exporter);
    }
    // Without a collector the provider still assigns trace ids, for logs and problem bodies.
    let provider = provider.build();
    let targets: Targets = config.filter.parse().context("LOG is not a valid log filter")?;
    // Actix logs each malformed request as an error, and any client can send such requests.
    let targets = targets.with_target("actix_http::h1", LevelFilter::OFF);
    let lines = if config.json {
        EventsOnly(json()).boxed()
    } else {
        // Colours are written to terminals only.
        fmt::layer().with_ansi(std::io::stdout().is_terminal()).boxed()
    };
    if !config.disabled {
        global::set_tracer_provider(provider.clone());
    }
    let spans = (!config.disabled).then(|| {
        // Nothing reads the code locations, threads and idle times of spans.
        tracing_opentelemetry::layer()
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_tracer(provider.tracer(service))
    });
    let filter = filter(targets, spans.is_some());
    // The filter must be the outermost layer. Around the filter, a layer that is `None` would reset
    // the level of the subscriber.
    tracing_subscriber::registry()
        .with(spans)
        .with(lines)
        .with(filter)
        .try_init()
        .context("telemetry is already started")?;
    Ok(Telemetry(provider))
}

/// Enables the events that `targets` select, and spans up to the level `INFO` if `has_spans` is
/// true. A service that logs only errors therefore still has traces.
///
/// One filter for all layers is evaluated once for each call site. A filter of a single layer would
/// be evaluated whenever a span is entered, left or changed.
fn filter(targets: Targets, has_spans: bool) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    let spans = if has_spans { LevelFilter::INFO } else { LevelFilter::OFF };
    let highest = targets.iter().map(|(_, level)| level).chain(targets.default_level()).chain([spans]).max();
    let is_enabled = move |metadata: &Metadata<'_>| {
        if metadata.is_span() {
            *metadata.level() <= spans
        } else {
            targets.would_enable(metadata.target(), metadata.level())
        }
    };
    FilterFn::new(is_enabled).with_max_level_hint(highest.unwrap_or(LevelFilter::OFF))
}

/// Passes events to a layer, but no spans.
///
/// Log lines contain no fields of spans. A log layer that receives spans would format all fields of
/// a span again whenever a field is added.
struct EventsOnly<L>(L);

impl<S: Subscriber, L: Layer<S>> Layer<S> for EventsOnly<L> {
    fn on_event(&self, event: &Event<'_>, context: LayerContext<'_, S>) {
        self.0.on_event(event, context);
    }
}

/// Returns the id of the current trace.
pub fn trace_id() -> Option<String> {
    TraceContext::map_current(|context| {
        let span = context.span();
        span.span_context().is_valid().then(|| span.span_context().trace_id().to_string())
    })
}

/// Makes the sampler ignore the sampling decision of `caller`, for callers that must not control
/// which traces are recorded. The next span is still part of the caller's trace.
#[must_use]
pub fn sample_independently(caller: &TraceContext) -> TraceContext {
    caller.with_value(SampleIndependently)
}

/// Marks a context for [`sample_independently`].
struct SampleIndependently;

/// The sampler of `OTEL_TRACES_SAMPLER`, with support for [`sample_independently`].
#[derive(Clone, Debug)]
struct IndependentSampler(Box<dyn ShouldSample>);

impl IndependentSampler {
    fn from_env() -> Box<dyn ShouldSample> {
        Box::new(Self(SdkConfig::default().sampler))
    }
}

impl ShouldSample for IndependentSampler {
    fn should_sample(
        &self,
        parent: Option<&TraceContext>,
        trace_id: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        if parent.is_some_and(|parent| parent.get::<SampleIndependently>().is_some()) {
            // A ratio sampler decides by the trace id, which the caller chooses. The sampler
            // therefore gets a random id.
            let trace_id = RandomIdGenerator::default().new_trace_id();
            return self.0.should_sample(None, trace_id, name, kind, attributes, links);
        }
        self.0.should_sample(parent, trace_id, name, kind, attributes, links)
    }
}

/// Writes a JSON line for each event, with the trace id.
fn json<S: Subscriber + for<'l> LookupSpan<'l>>() -> JsonLayer<S> {
    let mut lines = JsonLayer::stdout();
    lines.with_timer("timestamp", SystemTime).with_level("level").with_flattened_event();
    // Events of the `log` crate have their target in the normalized metadata.
    lines.add_dynamic_field("target", |event, _| {
        let normalized = event.normalized_metadata();
        Some(normalized.as_ref().map_or(event.metadata().target(), Metadata::target).to_owned())
    });
    lines.add_dynamic_field("trace_id", |_, _| trace_id());
    lines
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{Layer, Registry, fmt};

    use super::filter;

    /// Returns the most verbose level that is enabled at any call site.
    fn max_level(log: &str, has_spans: bool) -> Option<LevelFilter> {
        let spans = has_spans.then(tracing_opentelemetry::layer);
        let filter = filter(log.parse().unwrap(), has_spans);
        let stack = Registry::default().with(spans).with(fmt::layer().boxed()).with(filter);
        tracing::Subscriber::max_level_hint(&stack)
    }

    #[test]
    fn max_level_is_the_most_verbose_enabled_one() {
        assert_eq!(max_level("off", false), Some(LevelFilter::OFF));
        assert_eq!(max_level("off", true), Some(LevelFilter::INFO), "spans");
        assert_eq!(max_level("warn", false), Some(LevelFilter::WARN));
        assert_eq!(max_level("selections=debug", true), Some(LevelFilter::DEBUG));
        assert_eq!(max_level("info,news=trace", false), Some(LevelFilter::TRACE));
    }
}
