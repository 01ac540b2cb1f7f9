//! Accepted connections: the deadline and the size of each request head, the minimum rate of
//! responses, and the limit of a peer.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::web::BytesMut;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits::caller::{ClientAddress, TrustedProxies};
use crate::server::exchange::Exchange;
use crate::server::framing::HeadEnds;
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

/// The bytes that actix-http receives before it parses them. Its buffer grows with them and keeps
/// its size.
const MAX_UNPARSED_BYTES: usize = 16 * 1024;

/// The time in which a caller may read the response to a head that is too large.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

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

/// An accepted connection. It closes if a request head is late or too large, or if the caller does
/// not read its responses.
///
/// actix-http limits the time of a connection's first head only. Its timer of an idle connection
/// stops at the first byte of the next head. It does not limit the time of a response.
///
/// actix-http parses all requests that it has received, and each of them takes about 7 KiB. A
/// connection therefore keeps the requests behind an unfinished response.
pub(super) struct Connection {
    stream: TcpStream,
    exchange: Exchange,
    /// Received bytes that actix-http must not parse yet. It has at most the bytes of one read.
    kept: BytesMut,
    /// The deadline of the current wait for a request. It does not apply during a response.
    deadline: Pin<Box<Sleep>>,
    state: State,
    idle_timeout: Duration,
    head_ends: HeadEnds,
    /// True if actix-http has received a whole request head and has not parsed it.
    has_unparsed_head: bool,
    /// The bytes that actix-http has received since it parsed its input.
    unparsed: usize,
    /// True after a response to a head that is too large.
    is_rejected: bool,
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
            kept: BytesMut::new(),
            deadline,
            state: State::Idle,
            idle_timeout,
            head_ends: HeadEnds::default(),
            has_unparsed_head: false,
            unparsed: 0,
            is_rejected: false,
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
        if self.exchange.is_active() {
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

    /// Reads the stream, and keeps the part of the input that actix-http must not parse yet.
    fn read_stream(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let is_waiting = self.unparsed > 0 || self.exchange.is_active();
        if is_waiting && self.exchange.is_full() {
            return self.wait_for_acceptance(context);
        }
        let filled = buffer.filled().len();
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) else {
            return self.end_turn();
        };
        read?;
        let input = &buffer.filled()[filled..];
        if input.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let accepted = self.accept_part(input, context);
        self.kept.extend_from_slice(&input[accepted..]);
        buffer.set_filled(filled + accepted);
        if accepted == 0 { self.wait_for_acceptance(context) } else { Poll::Ready(Ok(())) }
    }

    /// Reads the next part of the kept input.
    fn read_kept(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut kept = std::mem::take(&mut self.kept);
        let accepted = self.accept_part(&kept[..kept.len().min(buffer.remaining())], context);
        buffer.put_slice(&kept.split_to(accepted));
        // An idle connection holds no memory for it.
        if !kept.is_empty() {
            self.kept = kept;
        }
        if accepted == 0 { self.wait_for_acceptance(context) } else { Poll::Ready(Ok(())) }
    }

    /// Returns the length of the part of `input` that actix-http may receive now, and counts it.
    fn accept_part(&mut self, input: &[u8], context: &mut Context<'_>) -> usize {
        if self.must_parse() {
            return 0;
        }
        let length = if self.exchange.is_active() {
            self.exchange.receive_body(input)
        } else {
            let end = self.head_ends.find(input);
            self.has_unparsed_head = end.is_some();
            let length = end.unwrap_or(input.len());
            self.exchange.receive_head(length);
            if self.state == State::Idle {
                self.wait_for(State::Head, context);
            }
            length
        };
        self.unparsed += length;
        length
    }

    /// Returns true if actix-http must parse its input before it may receive more.
    fn must_parse(&self) -> bool {
        self.has_unparsed_head || self.unparsed >= MAX_UNPARSED_BYTES
    }

    /// Waits until actix-http may receive more input.
    fn wait_for_acceptance(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.exchange.is_active() && !self.must_parse() {
            self.exchange.pause(context.waker().clone());
        } else {
            context.waker().wake_by_ref();
        }
        self.end_turn()
    }

    /// Returns pending. actix-http parses its input after it has read all that is there.
    fn end_turn(&mut self) -> Poll<io::Result<()>> {
        self.has_unparsed_head = false;
        self.unparsed = 0;
        Poll::Pending
    }

    /// Returns true if the first part of a request head, which actix-http has parsed, has the
    /// maximum size.
    fn is_head_too_large(&self) -> bool {
        self.exchange.is_full() && self.unparsed == 0 && !self.exchange.is_active()
    }

    /// Rejects a request head that is too large.
    fn reject_head(&mut self, context: &mut Context<'_>) {
        self.is_rejected = true;
        // If the kernel's send buffer is full, the caller sees only the close.
        let _ = self.stream.try_write(HEAD_TOO_LARGE);
        let _ = Pin::new(&mut self.stream).poll_shutdown(context);
        self.deadline.as_mut().reset(Instant::now() + LINGER_TIMEOUT);
    }

    /// Reads and drops the rest of a rejected request head, until the caller closes the connection.
    ///
    /// Otherwise the kernel would reset the connection, and the response could be lost.
    fn drop_input(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        loop {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
            if buffer.filled().len() == filled {
                return Poll::Ready(Ok(()));
            }
            buffer.set_filled(filled);
        }
    }

    /// Counts the caller's progress. Each request begins with a new allowance.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if the caller reads too slowly.
    fn after_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        if self.exchange.take_allowance() {
            self.send_rate = SendRate::new();
        }
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
        Poll::Ready(Ok(written))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Reports the end of the input. actix-http then closes the connection.
        if self.poll_deadline(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if self.exchange.discards_input() {
            self.kept.clear();
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        if self.is_head_too_large() {
            // The response to an earlier request may still be in the buffer of actix-http.
            if self.exchange.has_begun() {
                return Poll::Ready(Ok(()));
            }
            self.reject_head(context);
        }
        if self.is_rejected {
            return self.drop_input(context, buffer);
        }
        if self.kept.is_empty() { self.read_stream(context, buffer) } else { self.read_kept(context, buffer) }
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

    /// actix-http flushes when its buffer is empty.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.exchange.end_flushed() {
            self.wait_for(State::Idle, context);
        }
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
