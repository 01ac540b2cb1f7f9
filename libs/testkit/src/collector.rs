//! An OTLP collector: the spans that a process has exported.

use std::fmt::Write;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;

use crate::TIMEOUT;
use crate::faults::{Fault, Faults};

/// A listening collector. It stops when dropped.
pub struct Collector(Faults);

impl Collector {
    /// One that takes whatever comes.
    pub fn start() -> Self {
        let collector = Faults::before("http://127.0.0.1:1");
        collector.on("/v1/traces", Fault::Answer(200, String::new()));
        Self(collector)
    }

    /// Where it takes OTLP over HTTP.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// Every span that has come.
    ///
    /// # Panics
    /// When something came that is no span.
    pub fn all(&self) -> impl Iterator<Item = Span> {
        self.resources().flat_map(|spans| spans.scope_spans).flat_map(|scope| scope.spans)
    }

    /// Every span that has come, and the `service.name` that sent it.
    ///
    /// # Panics
    /// When something came that is no span.
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

    /// The first span of `trace` that is the one, once it is here.
    ///
    /// # Panics
    /// When it does not arrive.
    pub async fn span(&self, trace: &str, is_it: impl Fn(&Span) -> bool) -> Span {
        let arrived = async {
            loop {
                if let Some(span) = self.spans(trace).find(&is_it) {
                    return span;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let arrived = tokio::time::timeout(*TIMEOUT, arrived).await;
        arrived.unwrap_or_else(|_| {
            let names: Vec<_> = self.spans(trace).map(|span| span.name).collect();
            panic!("the span does not arrive, only {names:?}")
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

/// An id as `traceparent` writes it.
pub fn hex(id: &[u8]) -> String {
    id.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("memory");
        hex
    })
}
