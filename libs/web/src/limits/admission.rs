//! Load shedding by the in-flight requests of a listener and by the queue for the database.
//!
//! A request above a limit gets `503` with `Retry-After` before any other work is done for it.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::body::{BoxBody, EitherBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::middleware::Next;
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage, web};
use futures_util::{Stream, StreamExt};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use runtime::Metrics;

use crate::listener::ServiceInfo;
use crate::response::problem::Problem;
use crate::response::render::render;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabel {
    listener: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShedLabels {
    listener: &'static str,
    /// The limit that was reached: `listener` or `database`.
    queue: &'static str,
}

/// A check that returns true while a queue is too long to admit more requests.
pub(crate) type SaturationCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// The limits and metrics that all listeners of a service share.
#[derive(Clone)]
pub(crate) struct AdmissionControl {
    max_in_flight: u32,
    pub(crate) is_database_saturated: SaturationCheck,
    in_flight: Family<ListenerLabel, Gauge>,
    shed: Family<ShedLabels, Counter>,
}

impl AdmissionControl {
    pub(crate) fn new(metrics: &Metrics, max_in_flight: u32) -> Self {
        let (in_flight, shed) = (Family::default(), Family::default());
        let control = Self { max_in_flight, is_database_saturated: Arc::new(|| false), in_flight, shed };
        metrics.register(|registry| {
            registry.register("http_server_active_requests", "Requests in flight", control.in_flight.clone());
            registry.register(
                "http_server_requests_shed",
                "Requests rejected by load shedding",
                control.shed.clone(),
            );
        });
        control
    }

    pub(crate) fn for_listener(&self, listener: &'static str) -> ListenerAdmission {
        let shed = |queue| self.shed.get_or_create(&ShedLabels { listener, queue }).clone();
        ListenerAdmission {
            max_in_flight: self.max_in_flight.into(),
            is_database_saturated: self.is_database_saturated.clone(),
            in_flight: self.in_flight.get_or_create(&ListenerLabel { listener }).clone(),
            shed_by_listener: shed("listener"),
            shed_by_database: shed("database"),
        }
    }
}

/// The admission control of one listener, shared by its threads.
pub(crate) struct ListenerAdmission {
    max_in_flight: i64,
    is_database_saturated: SaturationCheck,
    in_flight: Gauge,
    shed_by_listener: Counter,
    shed_by_database: Counter,
}

impl ListenerAdmission {
    /// Admits a request, which is in flight until the slot is dropped.
    ///
    /// # Errors
    /// `503` with `Retry-After` when the listener or the database is saturated.
    fn try_admit(&self) -> Result<InFlightSlot, Problem> {
        if (self.is_database_saturated)() {
            return Err(shed(&self.shed_by_database, "too many requests wait for the database"));
        }
        let slot = InFlightSlot::occupy(self.in_flight.clone());
        if slot.in_flight_on_arrival > self.max_in_flight {
            return Err(shed(&self.shed_by_listener, "too many requests are in flight"));
        }
        Ok(slot)
    }
}

fn shed(counter: &Counter, cause: impl fmt::Display) -> Problem {
    counter.inc();
    Problem::unavailable(&cause)
}

/// A slot among the in-flight requests of a listener. Dropping the slot releases it.
struct InFlightSlot {
    in_flight: Gauge,
    /// The number of in-flight requests when this one arrived, itself included.
    in_flight_on_arrival: i64,
    is_counted: Cell<bool>,
}

impl InFlightSlot {
    fn occupy(in_flight: Gauge) -> Self {
        let in_flight_on_arrival = in_flight.inc() + 1;
        Self { in_flight, in_flight_on_arrival, is_counted: Cell::new(true) }
    }

    /// Stops or resumes counting the request, without a second admission.
    ///
    /// A request that waits for its body is not counted.
    fn set_counted(&self, is_counted: bool) {
        match (self.is_counted.replace(is_counted), is_counted) {
            (true, false) => self.in_flight.dec(),
            (false, true) => self.in_flight.inc(),
            _ => return,
        };
    }
}

impl Drop for InFlightSlot {
    fn drop(&mut self) {
        self.set_counted(false);
    }
}

/// Rejects a request at once, or admits it until its handler has returned a response.
pub(crate) async fn admit<B: MessageBody + 'static>(
    admission: web::Data<ListenerAdmission>,
    service: web::Data<ServiceInfo>,
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B, BoxBody>>, Error> {
    let slot = match admission.try_admit() {
        Ok(slot) => Rc::new(slot),
        Err(problem) => {
            let response = render(problem.details(), &service, request.request());
            return Ok(request.into_response(response).map_into_right_body());
        }
    };
    match request.take_payload() {
        Payload::None => {}
        payload => {
            let body = SlotReleasingBody { payload, slot: Rc::downgrade(&slot) };
            request.set_payload(Payload::Stream { payload: Box::pin(body) });
        }
    }
    Ok(next.call(request).await?.map_into_left_body())
}

/// A body whose request is not counted while its next part is awaited.
///
/// Slow senders therefore do not use up the limit.
struct SlotReleasingBody {
    payload: Payload,
    slot: Weak<InFlightSlot>,
}

impl Stream for SlotReleasingBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.payload.poll_next_unpin(context);
        if let Some(slot) = self.slot.upgrade() {
            slot.set_counted(polled.is_ready());
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::FutureExt;
    use runtime::Metrics;

    use super::{AdmissionControl, ListenerAdmission, SaturationCheck};

    fn admission(max_in_flight: u32, is_database_saturated: SaturationCheck) -> ListenerAdmission {
        AdmissionControl {
            is_database_saturated,
            ..AdmissionControl::new(&Metrics::default(), max_in_flight)
        }
        .for_listener("public")
    }

    /// RULE-ALL-045: a finished request releases its slot. One that waits for its body has none.
    #[test]
    fn dropped_slot_admits_the_next_request() {
        let admission = admission(2, Arc::new(|| false));
        let first = admission.try_admit().ok().unwrap();
        let second = admission.try_admit().ok().unwrap();
        assert_eq!(admission.try_admit().err().unwrap().to_string(), "503 SERVICE_UNAVAILABLE");

        second.set_counted(false);
        let third = admission.try_admit().ok().unwrap();
        second.set_counted(true);
        assert_eq!(admission.in_flight.get(), 3, "an admitted request resumes above the limit");

        drop((first, second, third));
        assert_eq!((admission.in_flight.get(), admission.shed_by_listener.get()), (0, 1));
        admission.try_admit().ok().unwrap();
    }

    /// RULE-ALL-045: a request that panics releases its slot.
    #[tokio::test]
    async fn panicked_request_releases_its_slot() {
        let admission = admission(1, Arc::new(|| false));
        let request = async {
            let _slot = admission.try_admit().ok().unwrap();
            panic!("the handler panics");
        };
        let panicked: Result<(), _> = AssertUnwindSafe(request).catch_unwind().await;
        panicked.unwrap_err();
        admission.try_admit().ok().unwrap();
    }

    /// RULE-ALL-044: requests are rejected while the database is saturated.
    #[test]
    fn saturated_database_rejects_all_requests() {
        let saturated = Arc::new(AtomicBool::new(true));
        let is_saturated = saturated.clone();
        let admission = admission(1, Arc::new(move || is_saturated.load(Ordering::Relaxed)));
        assert_eq!(admission.try_admit().err().unwrap().to_string(), "503 SERVICE_UNAVAILABLE");
        assert_eq!(admission.shed_by_database.get(), 1);
        saturated.store(false, Ordering::Relaxed);
        admission.try_admit().ok().unwrap();
    }
}
