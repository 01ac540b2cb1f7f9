//! The door of a listener: so many requests are under way at once, and none is let in while the queue for
//! the database is long. The surplus is told to come again, before anything else is done for it.

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

use crate::listener::Area;
use crate::response::problem::Problem;
use crate::response::render::render;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabel {
    listener: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShedLabels {
    listener: &'static str,
    /// Which queue was full.
    queue: &'static str,
}

/// Whether so many wait for something already that nobody else should.
pub(crate) type IsCrowded = Arc<dyn Fn() -> bool + Send + Sync>;

/// What the doors of a service are made of.
#[derive(Clone)]
pub(crate) struct Doors {
    most_under_way: u32,
    pub(crate) is_database_crowded: IsCrowded,
    under_way: Family<ListenerLabel, Gauge>,
    shed: Family<ShedLabels, Counter>,
}

impl Doors {
    pub(crate) fn new(metrics: &Metrics, most_under_way: u32) -> Self {
        let (under_way, shed) = (Family::default(), Family::default());
        let doors = Self { most_under_way, is_database_crowded: Arc::new(|| false), under_way, shed };
        metrics.register(|registry| {
            registry.register("http_server_active_requests", "Requests under way", doors.under_way.clone());
            registry.register("http_server_requests_shed", "Requests not let in", doors.shed.clone());
        });
        doors
    }

    pub(crate) fn of(&self, listener: &'static str) -> Door {
        let shed = |queue| self.shed.get_or_create(&ShedLabels { listener, queue }).clone();
        Door {
            most_under_way: self.most_under_way.into(),
            is_database_crowded: self.is_database_crowded.clone(),
            under_way: self.under_way.get_or_create(&ListenerLabel { listener }).clone(),
            shed_by_listener: shed("listener"),
            shed_by_database: shed("database"),
        }
    }
}

/// Lets requests in; shared by the threads of its listener.
pub(crate) struct Door {
    most_under_way: i64,
    is_database_crowded: IsCrowded,
    under_way: Gauge,
    shed_by_listener: Counter,
    shed_by_database: Counter,
}

impl Door {
    /// # Errors
    /// `503` with `Retry-After` when there is no place.
    fn enter(&self) -> Result<Place, Problem> {
        if (self.is_database_crowded)() {
            return Err(shed(&self.shed_by_database, "too many wait for the database"));
        }
        let place = Place::take(self.under_way.clone());
        if place.number > self.most_under_way {
            return Err(shed(&self.shed_by_listener, "too many requests are under way"));
        }
        Ok(place)
    }
}

fn shed(counter: &Counter, cause: impl fmt::Display) -> Problem {
    counter.inc();
    Problem::unavailable(&cause)
}

/// A place among those who are under way. Whoever drops it leaves.
struct Place {
    under_way: Gauge,
    /// Of those under way, which one it was when it came.
    number: i64,
    is_taken: Cell<bool>,
}

impl Place {
    fn take(under_way: Gauge) -> Self {
        let number = under_way.inc() + 1;
        Self { under_way, number, is_taken: Cell::new(true) }
    }

    /// Who waits for its caller is not under way; it goes on without asking again.
    fn set_taken(&self, is_taken: bool) {
        match (self.is_taken.replace(is_taken), is_taken) {
            (true, false) => self.under_way.dec(),
            (false, true) => self.under_way.inc(),
            _ => return,
        };
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.set_taken(false);
    }
}

/// Lets a request in, for as long as it takes until its answer is there, or answers at once.
///
/// # Errors
/// Those of the handler.
pub(crate) async fn admit<B: MessageBody + 'static>(
    door: web::Data<Door>,
    area: web::Data<Area>,
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B, BoxBody>>, Error> {
    let place = match door.enter() {
        Ok(place) => Rc::new(place),
        Err(problem) => {
            let answer = render(problem.details(), &area, request.request());
            return Ok(request.into_response(answer).map_into_right_body());
        }
    };
    match request.take_payload() {
        Payload::None => {}
        payload => {
            let body = AwaitedBody { payload, place: Rc::downgrade(&place) };
            request.set_payload(Payload::Stream { payload: Box::pin(body) });
        }
    }
    Ok(next.call(request).await?.map_into_left_body())
}

/// A body whose request has no place while the caller is waited for: slow senders keep nobody out.
struct AwaitedBody {
    payload: Payload,
    place: Weak<Place>,
}

impl Stream for AwaitedBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.payload.poll_next_unpin(context);
        if let Some(place) = self.place.upgrade() {
            place.set_taken(polled.is_ready());
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

    use super::{Door, Doors, IsCrowded};

    fn door(most: u32, is_database_crowded: IsCrowded) -> Door {
        Doors { is_database_crowded, ..Doors::new(&Metrics::default(), most) }.of("public")
    }

    #[test]
    fn a_place_is_free_again_when_its_holder_has_left() {
        let door = door(2, Arc::new(|| false));
        let first = door.enter().ok().unwrap();
        let second = door.enter().ok().unwrap();
        assert_eq!(door.enter().err().unwrap().to_string(), "503 SERVICE_UNAVAILABLE");

        second.set_taken(false);
        let third = door.enter().ok().unwrap();
        second.set_taken(true);
        assert_eq!(door.under_way.get(), 3, "who has begun goes on");

        drop((first, second, third));
        assert_eq!((door.under_way.get(), door.shed_by_listener.get()), (0, 1));
    }

    #[tokio::test]
    async fn a_request_that_panics_gives_its_place_back() {
        let door = door(1, Arc::new(|| false));
        let request = async {
            let _place = door.enter().ok().unwrap();
            panic!("as a handler might");
        };
        let panicked: Result<(), _> = AssertUnwindSafe(request).catch_unwind().await;
        panicked.unwrap_err();
        door.enter().ok().unwrap();
    }

    #[test]
    fn nobody_is_let_in_while_the_database_is_crowded() {
        let crowded = Arc::new(AtomicBool::new(true));
        let is_crowded = crowded.clone();
        let door = door(1, Arc::new(move || is_crowded.load(Ordering::Relaxed)));
        assert_eq!(door.enter().err().unwrap().to_string(), "503 SERVICE_UNAVAILABLE");
        assert_eq!(door.shed_by_database.get(), 1);
        crowded.store(false, Ordering::Relaxed);
        door.enter().ok().unwrap();
    }
}
