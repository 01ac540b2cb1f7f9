//! Accepted connections: the deadline and the size of each request head, the minimum rate of
//! responses, and the limit of a peer.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
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
use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits::caller::{ClientAddress, TrustedProxies};
use crate::server::exchange::Exchange;
use crate::server::send_rate::SendRate;

/// The time in which a request head must arrive. If the first head of a connection is late, the
/// caller gets 408. If a later head is late, the connection is closed without a response.
///
/// The time of a first head starts when the kernel accepts the connection.
/// A shorter time would reject callers because of the delay of a busy process.
pub(super) const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(20);

/// The response to the first request of a connection if its head is too large. actix-http sends the
/// same one, but only above 128 KiB.
const HEAD_TOO_LARGE: &[u8] =
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

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

/// Counts a request of a connection until its handler returns.
pub(super) async fn count_in_flight<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let _handling = request.conn_data::<Exchange>().map(Exchange::begin);
    next.call(request).await
}

/// An accepted connection. It closes if a request head is late or too large, or if the caller does
/// not read its responses.
///
/// actix-http limits the time of a connection's first head only. Its timer of an idle connection
/// stops at the first byte of the next head. It does not limit the time of a response.
pub(super) struct Connection {
    stream: TcpStream,
    exchange: Exchange,
    /// The deadline of the current wait for a request. It does not apply while a request is in
    /// flight.
    deadline: Pin<Box<Sleep>>,
    state: State,
    idle_timeout: Duration,
    /// True after a full buffer, until actix-http has parsed it.
    is_unparsed: bool,
    send_rate: SendRate,
    /// The timer of the caller's deadline. Most connections never need one.
    send_timer: Option<Pin<Box<Sleep>>>,
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
        let connection = Self {
            stream,
            exchange: Exchange::default(),
            deadline,
            state: State::Idle,
            idle_timeout,
            is_unparsed: false,
            send_rate: SendRate::new(),
            send_timer: None,
            _slot: slot,
        };
        Some((connection, peer))
    }

    pub(super) fn exchange(&self) -> Exchange {
        self.exchange.clone()
    }

    /// Returns ready at the deadline of the current wait.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.exchange.is_in_flight() {
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
        if !self.exchange.is_in_flight() {
            self.wait_for(State::Idle, context);
        }
    }

    /// Reads nothing while a request in flight leaves its input unread. Ends the input if a request
    /// head is too large.
    fn pause(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.exchange.is_in_flight() {
            self.exchange.pause(context.waker().clone());
            return Poll::Pending;
        }
        // actix-http parses the input after it has read all that is there.
        if !std::mem::replace(&mut self.is_unparsed, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        // The response to an earlier request may still be incomplete.
        if !self.exchange.has_begun() {
            // If the send buffer is full, the caller sees only the close.
            let _ = self.stream.try_write(HEAD_TOO_LARGE);
        }
        Poll::Ready(Ok(()))
    }

    /// Restarts the deadline of an idle connection and counts the caller's progress.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if the caller reads too slowly.
    fn after_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        let Poll::Ready(written) = written else {
            let deadline = self.send_rate.block(now);
            let timer = self.send_timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if timer.deadline() != deadline {
                timer.as_mut().reset(deadline);
            }
            ready!(timer.as_mut().poll(context));
            // Otherwise the kernel would keep its buffer until the caller has read it.
            let _ = self.stream.set_zero_linger();
            tracing::info!("closed a connection whose caller read too slowly");
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        };
        let written = written?;
        self.send_rate.accept(written, now);
        self.restart_idle_deadline(context);
        Poll::Ready(Ok(written))
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
        if self.exchange.is_full() {
            return self.pause(context);
        }
        self.is_unparsed = false;
        let filled = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let received = buffer.filled().len() - filled;
        self.exchange.receive(received);
        if self.state == State::Idle && received > 0 {
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
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.after_write(written, context)
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
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.after_write(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
