//! Accepted connections: the deadline of each request head, and the limit of a peer.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::limits::caller::{ClientAddress, TrustedProxies};

/// The time in which a request head must arrive. If the first head of a connection is late, the
/// caller gets 408. If a later head is late, the connection is closed without a response.
///
/// The time of a first head starts when the kernel accepts the connection.
/// A shorter time would reject callers because of the delay of a busy process.
pub(super) const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(20);

/// The open connections of each peer of a listener.
#[derive(Clone)]
pub(super) struct PeerLimit {
    max_connections: usize,
    /// Proxies carry the connections of many callers.
    exempt: TrustedProxies,
    refused: Counter,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl PeerLimit {
    pub(super) fn new(max_connections: usize, exempt: TrustedProxies, refused: Counter) -> Self {
        Self { max_connections, exempt, refused, open: Arc::default() }
    }

    /// Counts a connection of this peer. Returns `None` if the peer has too many.
    fn occupy(&self, peer: IpAddr) -> Option<PeerSlot> {
        let peer = peer.to_canonical();
        // The key of an IPv6 peer is its /64.
        let key = IpAddr::from(ClientAddress(peer));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(key).or_default();
        if *count >= self.max_connections && !self.exempt.contains(peer) {
            self.refused.inc();
            return None;
        }
        *count += 1;
        Some(PeerSlot { key, open: self.open.clone() })
    }
}

/// A connection among those of its peer. Dropping it frees the slot.
struct PeerSlot {
    key: IpAddr,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.key);
            }
        }
    }
}

/// The number of a connection's requests whose handlers have not returned a response.
#[derive(Clone, Default)]
pub(super) struct InFlight(Rc<Cell<usize>>);

impl InFlight {
    fn is_empty(&self) -> bool {
        self.0.get() == 0
    }
}

/// Counts a request of a connection until its handler returns.
pub(super) async fn count_in_flight<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let Some(InFlight(count)) = request.conn_data::<InFlight>().cloned() else {
        return next.call(request).await;
    };
    count.set(count.get() + 1);
    let _counted = scopeguard::guard(count, |count| count.set(count.get() - 1));
    next.call(request).await
}

/// An accepted connection, which closes if a request head does not arrive in time.
///
/// actix-http limits the first head of a connection only. Its timer of an idle connection stops at
/// the first byte of the next head.
pub(super) struct Connection {
    stream: TcpStream,
    in_flight: InFlight,
    /// The deadline of the current wait for a request. It does not apply while a request is in
    /// flight.
    deadline: Pin<Box<Sleep>>,
    state: State,
    idle_timeout: Duration,
    _slot: Option<PeerSlot>,
}

/// The part of an exchange that a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The response of a request.
    Response,
    /// The first byte of a request head.
    Idle,
    /// The rest of a request head.
    Head,
}

impl Connection {
    /// Accepts a connection. Returns `None` if its peer has too many.
    ///
    /// actix-http closes a connection that has been idle for `keep_alive`.
    pub(super) fn accept(
        stream: TcpStream,
        limit: &PeerLimit,
        keep_alive: Duration,
    ) -> Option<(Self, Option<SocketAddr>)> {
        let peer = stream.peer_addr().ok();
        let slot = match peer {
            Some(peer) => Some(limit.occupy(peer.ip())?),
            // The peer has closed the connection.
            None => None,
        };
        let idle_timeout = keep_alive + REQUEST_HEAD_TIMEOUT;
        let deadline = Box::pin(tokio::time::sleep(idle_timeout));
        let in_flight = InFlight::default();
        let connection = Self { stream, in_flight, deadline, state: State::Idle, idle_timeout, _slot: slot };
        Some((connection, peer))
    }

    pub(super) fn in_flight(&self) -> InFlight {
        self.in_flight.clone()
    }

    /// Returns ready at the deadline of the current wait.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.in_flight.is_empty() {
            self.state = State::Response;
            return Poll::Pending;
        }
        if self.state == State::Response {
            self.wait_for(State::Idle, context);
        }
        self.deadline.as_mut().poll(context)
    }

    fn wait_for(&mut self, state: State, context: &mut Context<'_>) {
        let timeout = if state == State::Head { REQUEST_HEAD_TIMEOUT } else { self.idle_timeout };
        self.deadline.as_mut().reset(Instant::now() + timeout);
        self.state = state;
        // Registers the task. The deadline cannot have passed.
        let _ = self.deadline.as_mut().poll(context);
    }

    /// Restarts the deadline after a write, unless a handler still runs. A streamed response, whose
    /// handler has returned, can therefore last longer than the deadline.
    fn restart_idle_deadline(&mut self, context: &mut Context<'_>) {
        if self.in_flight.is_empty() {
            self.wait_for(State::Idle, context);
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Reports the end of the input. actix-http then closes the connection unless a response is
        // still being streamed.
        if self.poll_deadline(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let received = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if self.state == State::Idle && buffer.filled().len() > received {
            self.wait_for(State::Head, context);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.restart_idle_deadline(context);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, bytes))?;
        self.restart_idle_deadline(context);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
