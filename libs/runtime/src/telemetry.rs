//! Logs as JSON lines on standard output, traces to an OTLP collector where one is named.

use std::io::IsTerminal;

use anyhow::Context;
use json_subscriber::JsonLayer;
use opentelemetry::trace::{Link, SpanKind, TraceContextExt, TraceId, TracerProvider as _};
use opentelemetry::{Context as TraceContext, KeyValue, global};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
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

/// What is logged, and where traces go.
#[derive(Clone, Debug)]
pub struct Config {
    filter: String,
    json: bool,
    otlp_endpoint: Option<String>,
    disabled: bool,
}

impl Config {
    pub fn read(env: &mut Env) -> Option<Self> {
        let filter = env.or("LOG", "info".to_owned(), "log filter, as in `info,selections=debug`");
        let json = env.or("LOG_JSON", true, "logs as JSON lines; `false` for people");
        let otlp_endpoint =
            env.optional("OTEL_EXPORTER_OTLP_ENDPOINT", "OTLP/HTTP collector for traces; none when unset");
        let disabled = env.or(
            "OTEL_SDK_DISABLED",
            false,
            "no spans and no trace ids of its own: to measure what they cost",
        );
        Some(Self { filter: filter?, json: json?, otlp_endpoint: otlp_endpoint?, disabled: disabled? })
    }
}

/// Flushes what has not been exported yet.
pub struct Telemetry(SdkTracerProvider);

impl Telemetry {
    pub fn flush(self) {
        if let Err(error) = self.0.shutdown() {
            // An exporter that cannot be reached must not keep a process from ending.
            eprintln!("traces were not exported: {error}");
        }
    }
}

/// Installs the process-wide subscriber and W3C trace-context propagation.
///
/// # Errors
/// A filter or an endpoint that cannot be used, or a second call in one process.
pub fn start(service: &'static str, config: &Config) -> anyhow::Result<Telemetry> {
    global::set_text_map_propagator(TraceContextPropagator::new());
    let resource = Resource::builder().with_service_name(service).build();
    let mut provider = SdkTracerProvider::builder().with_resource(resource).with_sampler(Anew::configured());
    if let Some(endpoint) = &config.otlp_endpoint {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .context("OTEL_EXPORTER_OTLP_ENDPOINT cannot be used")?;
        provider = provider.with_batch_exporter(exporter);
    }
    // Without a collector the provider still gives every request a trace id, for logs and problem bodies.
    let provider = provider.build();
    let targets: Targets = config.filter.parse().context("LOG is not a log filter")?;
    // It tells of each request that is none as an error, and anybody may send those.
    let targets = targets.with_target("actix_http::h1", LevelFilter::OFF);
    let lines = if config.json {
        Lines(json()).boxed()
    } else {
        // Colours are for a terminal, not for a file.
        fmt::layer().with_ansi(std::io::stdout().is_terminal()).boxed()
    };
    if !config.disabled {
        global::set_tracer_provider(provider.clone());
    }
    let spans = (!config.disabled).then(|| {
        // Where in the code a span is opened, and how often its future was woken, nobody asks.
        tracing_opentelemetry::layer()
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_tracer(provider.tracer(service))
    });
    let wanted = wanted(targets, spans.is_some());
    // The filter comes last, which is outermost: a layer that is absent would take its level for its own.
    tracing_subscriber::registry()
        .with(spans)
        .with(lines)
        .with(wanted)
        .try_init()
        .context("telemetry was started twice")?;
    Ok(Telemetry(provider))
}

/// Events that `targets` name, for the log and for the traces, and spans whether or not they name them: a quiet
/// service still has traces.
///
/// One filter for all layers, asked once for each place in the code. One for each layer is asked whenever a span
/// is entered, left or told something.
fn wanted(targets: Targets, has_spans: bool) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    let spans = if has_spans { LevelFilter::INFO } else { LevelFilter::OFF };
    let highest = targets.iter().map(|(_, level)| level).chain(targets.default_level()).chain([spans]).max();
    let is_wanted = move |metadata: &Metadata<'_>| {
        if metadata.is_span() {
            *metadata.level() <= spans
        } else {
            targets.would_enable(metadata.target(), metadata.level())
        }
    };
    FilterFn::new(is_wanted).with_max_level_hint(highest.unwrap_or(LevelFilter::OFF))
}

/// Events alone. What spans know is for traces: kept for lines as well, it would be written down anew with
/// each field that is added.
struct Lines<L>(L);

impl<S: Subscriber, L: Layer<S>> Layer<S> for Lines<L> {
    fn on_event(&self, event: &Event<'_>, context: LayerContext<'_, S>) {
        self.0.on_event(event, context);
    }
}

/// The trace that the current work is part of.
pub fn trace_id() -> Option<String> {
    TraceContext::map_current(|context| {
        let span = context.span();
        span.span_context().is_valid().then(|| span.span_context().trace_id().to_string())
    })
}

/// Has the sampler decide on the next span as if it began its trace, whatever the trace's caller says: for callers who
/// have no say in what is recorded. Such a span is still part of its caller's trace.
#[must_use]
pub fn sample_anew(caller: &TraceContext) -> TraceContext {
    caller.with_value(Asked)
}

/// Marks what [`sample_anew`] was called for.
struct Asked;

/// The sampler of the environment (`OTEL_TRACES_SAMPLER`), which does as [`sample_anew`] asks.
#[derive(Clone, Debug)]
struct Anew(Box<dyn ShouldSample>);

impl Anew {
    fn configured() -> Box<dyn ShouldSample> {
        Box::new(Self(SdkConfig::default().sampler))
    }
}

impl ShouldSample for Anew {
    fn should_sample(
        &self,
        parent: Option<&TraceContext>,
        trace_id: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        if parent.is_some_and(|parent| parent.get::<Asked>().is_some()) {
            // Nor does a caller get a trace recorded by the choice of its id, which a ratio goes by.
            let trace_id = RandomIdGenerator::default().new_trace_id();
            return self.0.should_sample(None, trace_id, name, kind, attributes, links);
        }
        self.0.should_sample(parent, trace_id, name, kind, attributes, links)
    }
}

/// A line for each event, with the id of its trace.
fn json<S: Subscriber + for<'l> LookupSpan<'l>>() -> JsonLayer<S> {
    let mut lines = JsonLayer::stdout();
    lines.with_timer("timestamp", SystemTime).with_level("level").with_flattened_event();
    // Of dependencies that log in the other way, their own.
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

    use super::wanted;

    /// What is asked of every place in the code, and of dependencies that log in the other way.
    fn highest(log: &str, has_spans: bool) -> Option<LevelFilter> {
        let spans = has_spans.then(tracing_opentelemetry::layer);
        let filter = wanted(log.parse().unwrap(), has_spans);
        let stack = Registry::default().with(spans).with(fmt::layer().boxed()).with(filter);
        tracing::Subscriber::max_level_hint(&stack)
    }

    #[test]
    fn nobody_is_asked_for_more_than_is_wanted() {
        assert_eq!(highest("off", false), Some(LevelFilter::OFF));
        assert_eq!(highest("off", true), Some(LevelFilter::INFO), "spans");
        assert_eq!(highest("warn", false), Some(LevelFilter::WARN));
        assert_eq!(highest("selections=debug", true), Some(LevelFilter::DEBUG));
        assert_eq!(highest("info,news=trace", false), Some(LevelFilter::TRACE));
    }
}
