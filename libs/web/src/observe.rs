//! The middleware around every admitted request, for spans, metrics and problems.

use std::convert::Infallible;
use std::time::Instant;

use actix_web::body::{BodySize, BodyStream, BoxBody, EitherBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderMap};
use actix_web::middleware::Next;
use actix_web::{Error, ResponseError, web};
use futures_util::stream;
use opentelemetry::context::FutureExt;
use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::limits::byte_budget::response::attach_reservation;
use crate::limits::caller::is_trusted;
use crate::listener::ServiceInfo;
use crate::response::problem::{Details, Problem};
use crate::response::render::render;

/// The part of a listener that this middleware needs.
pub(crate) struct ListenerContext {
    pub(crate) listener: &'static str,
    pub(crate) durations: Durations,
    pub(crate) tracer: BoxedTracer,
}

/// The durations of requests by route.
pub(crate) type Durations = Family<RequestLabels, Histogram>;

/// Creates the metric with buckets from 0.5 ms to 8 s.
pub(crate) fn durations() -> Durations {
    Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0005, 2.0, 15)))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    listener: &'static str,
    method: &'static str,
    route: String,
    status: u16,
}

/// Traces and measures the request, reserves bytes for its response, and renders its problem.
pub(crate) async fn observe<B: MessageBody + 'static>(
    context: web::Data<ListenerContext>,
    service: web::Data<ServiceInfo>,
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B, BoxBody>>, Error> {
    let started = Instant::now();
    let method = known_method(request.method());
    let route = request.match_pattern().unwrap_or_else(|| "unmatched".to_owned());
    let trace = start_span(&context.tracer, &request, method, &route);
    let is_head = route_head_as_get(&mut request);
    let response = next.call(request).with_context(trace.clone()).await?;
    let response = reserve_bytes(response);
    let status = response.status();
    trace.span().set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
    let labels = RequestLabels { listener: context.listener, method, route, status: status.as_u16() };
    context.durations.get_or_create(&labels).observe(started.elapsed().as_secs_f64());
    if status.as_u16() < 400 {
        return Ok(if is_head { empty_stream(response) } else { response });
    }
    let problem = response.response().extensions().get::<Problem>().cloned();
    let problem = problem.unwrap_or_else(|| Problem::from_status(status));
    // The log and the problem take the trace id from the current context.
    let _current = trace.clone().attach();
    record_failure(&trace, &labels, &problem);
    let rendered = render(problem.details(), &service, response.request());
    Ok(response.into_response(rendered).map_into_right_body())
}

/// Returns the method's name, or "other" for an unknown method.
///
/// Callers can invent methods, but the number of label values must stay small.
fn known_method(method: &Method) -> &'static str {
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        .into_iter()
        .find(|known| method.as_str() == *known)
        .unwrap_or("other")
}

/// Starts the request's span in the caller's trace.
///
/// The span names the route and never the query or headers, which can hold personal data.
/// Only services and trusted proxies decide whether the trace is sampled.
/// The span bypasses the `tracing` crate, because an unsampled span then costs almost nothing.
fn start_span(tracer: &BoxedTracer, request: &ServiceRequest, method: &'static str, route: &str) -> Context {
    let parent =
        global::get_text_map_propagator(|propagator| propagator.extract(&Carrier(request.headers())));
    let span = tracer.span_builder(format!("{method} {route}")).with_kind(SpanKind::Server);
    let span = if !parent.has_active_span() || is_trusted(request.request()) {
        span.start_with_context(tracer, &parent)
    } else {
        span.start_with_context(tracer, &runtime::telemetry::sample_independently(&parent))
    };
    let trace = parent.with_span(span);
    if trace.span().is_recording() {
        trace.span().set_attribute(KeyValue::new("http.request.method", method));
        trace.span().set_attribute(KeyValue::new("http.route", route.to_owned()));
    }
    trace
}

struct Carrier<'h>(&'h HeaderMap);

impl opentelemetry::propagation::Extractor for Carrier<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(header::HeaderName::as_str).collect()
    }

    /// Returns an empty text for a value that is not text, so that the number of values stays
    /// correct.
    fn get_all(&self, name: &str) -> Option<Vec<&str>> {
        let values: Vec<_> = self.0.get_all(name).map(|value| value.to_str().unwrap_or_default()).collect();
        (!values.is_empty()).then_some(values)
    }
}

/// Routes `HEAD` to the handler of `GET`, as RFC 9110 requires.
///
/// Returns true for a `HEAD`. The connection then omits the response's body.
fn route_head_as_get(request: &mut ServiceRequest) -> bool {
    let is_head = request.method() == Method::HEAD;
    if is_head {
        request.head_mut().method = Method::GET;
    }
    is_head
}

/// Counts the body of a response with a status below 400 against its byte budget.
fn reserve_bytes<B: MessageBody + 'static>(response: ServiceResponse<B>) -> ServiceResponse<EitherBody<B>> {
    if response.status().as_u16() >= 400 {
        return response.map_into_left_body();
    }
    attach_reservation(response).unwrap_or_else(|(request, problem)| {
        ServiceResponse::new(request, problem.error_response()).map_into_right_body()
    })
}

/// Ends a streamed response to `HEAD` at once, because its body is not sent and may have no end.
fn empty_stream<B: MessageBody + 'static>(
    response: ServiceResponse<EitherBody<B>>,
) -> ServiceResponse<EitherBody<B>> {
    if response.response().body().size() != BodySize::Stream {
        return response;
    }
    let empty = stream::empty::<Result<web::Bytes, Infallible>>();
    response.map_body(|_, _| EitherBody::right(BoxBody::new(BodyStream::new(empty))))
}

/// Marks the span as failed and logs the cause, for a problem with a status of 500 and above.
fn record_failure(trace: &Context, labels: &RequestLabels, problem: &Problem) {
    let Details { code, cause, .. } = problem.details();
    if code.status >= 500 {
        trace.span().set_status(Status::error(problem.to_string()));
        let RequestLabels { method, route, .. } = labels;
        tracing::error!(method, route, %problem, cause, "failed to handle a request");
    }
}
