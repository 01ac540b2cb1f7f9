//! An OTLP collector that stores the spans of a process.

use std::fmt::Write;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;

use crate::TIMEOUT;
use crate::faults::{Fault, FaultProxy};

/// A listening collector. Dropping it stops the collector.
pub struct Collector(FaultProxy);

impl Collector {
    /// Starts a collector that accepts every export.
    pub fn start() -> Self {
        let collector = FaultProxy::start("http://127.0.0.1:1");
        collector.inject("/v1/traces", Fault::Respond(200, String::new()));
        Self(collector)
    }

    /// Returns the endpoint of OTLP over HTTP.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// Returns every span that has been received.
    ///
    /// # Panics
    /// If an export does not decode.
    pub fn all(&self) -> impl Iterator<Item = Span> {
        self.resources().flat_map(|spans| spans.scope_spans).flat_map(|scope| scope.spans)
    }

    /// Returns every span that has been received, with the `service.name` of its sender.
    ///
    /// # Panics
    /// If an export does not decode.
    pub fn by_service(&self) -> impl Iterator<Item = (String, Span)> {
        self.resources().flat_map(|spans| {
            let service = name(&spans);
            let spans = spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.map(move |span| (service.clone(), span))
        })
    }

    fn resources(&self) -> impl Iterator<Item = ResourceSpans> {
        let exports = self.0.calls("/v1/traces").into_iter();
        exports
            .map(|call| ExportTraceServiceRequest::decode(call.raw.as_slice()).expect("OTLP"))
            .flat_map(|export| export.resource_spans)
    }

    fn spans(&self, trace: &str) -> impl Iterator<Item = Span> {
        self.all().filter(move |span| hex(&span.trace_id) == trace)
    }

    /// Waits for a span of `trace` that matches, and returns it.
    ///
    /// # Panics
    /// If no such span arrives.
    pub async fn span(&self, trace: &str, is_match: impl Fn(&Span) -> bool) -> Span {
        let arrived = async {
            loop {
                if let Some(span) = self.spans(trace).find(&is_match) {
                    return span;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let arrived = tokio::time::timeout(*TIMEOUT, arrived).await;
        arrived.unwrap_or_else(|_| {
            let names: Vec<_> = self.spans(trace).map(|span| span.name).collect();
            panic!("the span did not arrive, only {names:?}")
        })
    }
}

fn name(spans: &ResourceSpans) -> String {
    let attributes = spans.resource.iter().flat_map(|resource| &resource.attributes);
    let name = attributes.into_iter().find(|attribute| attribute.key == "service.name");
    match name.and_then(|name| name.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(name)) => name.clone(),
        _ => String::new(),
    }
}

/// Returns an id in the notation of `traceparent`.
pub fn hex(id: &[u8]) -> String {
    id.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("memory");
        hex
    })
}
