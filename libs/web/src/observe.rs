//! Around every request: its span, its metrics, and the rendering of its problem.

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

use crate::limits::byte_budget::response::settle;
use crate::limits::caller::is_believed;
use crate::listener::Area;
use crate::response::problem::{Details, Problem};
use crate::response::render::render;

/// The request's span: its route, never its query or headers, which may be personal. Begun at the tracer itself, since
/// a span that is not sampled then costs next to nothing.
///
/// Anybody's trace is continued. Whether it is recorded is for services to say, and for trusted proxies.
fn begin(
    surroundings: &Surroundings,
    request: &ServiceRequest,
    method: &'static str,
    route: &str,
) -> Context {
    let tracer = &surroundings.tracer;
    let parent =
        global::get_text_map_propagator(|propagator| propagator.extract(&Carrier(request.headers())));
    let span = tracer.span_builder(format!("{method} {route}")).with_kind(SpanKind::Server);
    let span = if !parent.has_active_span() || is_believed(request.request()) {
        span.start_with_context(tracer, &parent)
    } else {
        span.start_with_context(tracer, &runtime::telemetry::sample_anew(&parent))
    };
    let context = parent.with_span(span);
    if context.span().is_recording() {
        context.span().set_attribute(KeyValue::new("http.request.method", method));
        context.span().set_attribute(KeyValue::new("http.route", route.to_owned()));
    }
    context
}

struct Carrier<'h>(&'h HeaderMap);

impl opentelemetry::propagation::Extractor for Carrier<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(header::HeaderName::as_str).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    listener: &'static str,
    method: &'static str,
    route: String,
    status: u16,
}

/// Callers may make methods up; metrics must not grow with them.
fn known(method: &Method) -> &'static str {
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        .into_iter()
        .find(|known| method.as_str() == *known)
        .unwrap_or("other")
}

/// How long requests took, by route.
pub(crate) type Durations = Family<RequestLabels, Histogram>;

pub(crate) fn durations() -> Durations {
    Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0005, 2.0, 15)))
}

/// What the middleware needs of its listener.
pub(crate) struct Surroundings {
    pub(crate) listener: &'static str,
    pub(crate) area: Area,
    pub(crate) durations: Durations,
    pub(crate) tracer: BoxedTracer,
}

/// Traces and measures the request, finds room for its answer, and renders its problem, if it has one.
pub(crate) async fn surround<B: MessageBody + 'static>(
    surroundings: web::Data<Surroundings>,
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B, BoxBody>>, Error> {
    let started = Instant::now();
    let method = known(request.method());
    let route = request.match_pattern().unwrap_or_else(|| "unmatched".to_owned());
    let context = begin(&surroundings, &request, method, &route);
    // RFC 9110: whatever has a GET has a HEAD. The connection leaves the body of the answer out.
    let is_head = request.method() == Method::HEAD;
    if is_head {
        request.head_mut().method = Method::GET;
    }
    let response = next.call(request).with_context(context.clone()).await?;
    let response = if response.status().as_u16() < 400 {
        settle(response).unwrap_or_else(|(request, problem)| {
            ServiceResponse::new(request, problem.error_response()).map_into_right_body()
        })
    } else {
        response.map_into_left_body()
    };
    let status = response.status();
    context.span().set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
    let labels = RequestLabels { listener: surroundings.listener, method, route, status: status.as_u16() };
    surroundings.durations.get_or_create(&labels).observe(started.elapsed().as_secs_f64());
    if status.as_u16() < 400 {
        // Nobody waits for the end of what is left out.
        let is_endless = is_head && response.response().body().size() == BodySize::Stream;
        return Ok(if is_endless {
            let nothing = stream::empty::<Result<web::Bytes, Infallible>>();
            response.map_body(|_, _| EitherBody::right(BoxBody::new(BodyStream::new(nothing))))
        } else {
            response
        });
    }
    let problem = response.response().extensions().get::<Problem>().cloned();
    let problem = problem.unwrap_or_else(|| Problem::of_status(status));
    let _current = context.clone().attach();
    if let Details { code, cause, .. } = problem.details()
        && code.status >= 500
    {
        context.span().set_status(Status::error(problem.to_string()));
        tracing::error!(method, route = labels.route, %problem, cause, "a request failed");
    }
    let rendered = render(problem.details(), &surroundings.area, response.request());
    Ok(response.into_response(rendered).map_into_right_body())
}
