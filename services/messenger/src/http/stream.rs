//! The stream of Server-Sent Events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use ::db::PipelinedConn;
use ::web::Problem;
use actix_web::web::{Bytes, Data};
use actix_web::{HttpRequest, HttpResponse, get};
use auth::{Actor, Revocations};
use futures_util::stream;
use runtime::clock;
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep};

use crate::app::App;
use crate::db;
use crate::error::Error;
use crate::stream::{EventStream, Frame, OpenStream, READY, RESET, Ready, Reset, load_batches};

const LAST_EVENT_ID: &str = "last-event-id";
/// Missed events that one query reads for a stream.
const CATCH_UP_BATCH: i64 = 32;
/// Size of the missed events that a stream keeps for its reader.
const MAX_CATCH_UP_BYTES: usize = 64 * 1024;
/// The `Retry-After` of a stream above the limit of its user. Until then the connections of readers
/// that do not read are closed.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// Interval at which a stream without events checks whether its token is revoked.
const REVOCATION_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Follow the stream.
///
/// Sends Server-Sent Events of all own chats.
///
/// Token: the stream needs `Authorization: Bearer` like every operation. The `EventSource` of
/// browsers cannot send a header, so a page reads the stream with `fetch`.
///
/// Events: the first event is `ready` or `reset`. The events `chat`, `chat-removed`, `message`,
/// `read` and `conference` follow. Each has one line of JSON, which `StreamEvent` describes. A
/// client skips events that it does not know. A line that begins with `:` is no event.
///
/// Resume: a client that connects again sends the `id` of the last event in `Last-Event-ID`, and
/// receives the events after it. `reset` means that they are no longer stored, or that the id was
/// never issued or is no number: the client reads its lists again, and later events follow.
///
/// End: the stream ends when the token expires or is revoked, when its reader is too slow or has
/// missed an event that is no longer stored, after a limited time and at a shutdown. A sixth stream
/// of the user at one replica ends the oldest one, so the tabs of a browser share a stream. The
/// client then connects again, with a new token if needed. A client that does not read
/// its ended streams gets 429.
#[utoipa::path(
    tag = "Stream",
    params(("Last-Event-ID" = Option<String>, Header, description = "Id of the last event received")),
    responses((status = 200, description = "Events until the stream ends", body = EventStream, content_type = "text/event-stream"))
)]
#[get("/api/messenger/stream")]
pub async fn open_stream(
    app: Data<App>,
    actor: Actor,
    revocations: Data<Revocations>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let (user, now, settings) = (actor.user_id, clock::now(), &app.settings.stream);
    let header = request.headers().get(LAST_EVENT_ID);
    let requested = header.and_then(|header| parse_event_id(header.to_str().ok()?));
    let after = requested.unwrap_or(0);
    let found = lookups
        .run(async |conn| db::stream::find_position(conn, user, after, settings.retention).await)
        .await?;
    let resumed = requested.filter(|requested| *requested <= found.last_event && found.is_resumable);
    let position = resumed.unwrap_or(found.last_event);
    let first = if header.is_some() && resumed.is_none() {
        Frame::new(position, RESET, &Reset {})
    } else {
        Frame::new(position, READY, &Ready { resumed: resumed.is_some() })
    };

    let stream = app.streams.open(user).ok_or_else(|| Problem::rate_limited(RETRY_AFTER))?;
    let is_behind = position < found.last_event;
    if !is_behind {
        app.streams.start_sending(&stream, position);
    }
    // Streams that were opened together, as after a restart, must not end together.
    let max_duration = settings.max_duration.mul_f64(rand::random_range(0.9..=1.0));
    let token_lifetime = Duration::try_from(actor.expires_at() - now).unwrap_or_default();
    let reader = StreamReader {
        actor,
        revocations,
        stream,
        first: first.map(|first| first.bytes()),
        pending: VecDeque::new(),
        last_sent: position,
        catch_up_after: is_behind.then_some(position),
        catch_up_batch: CATCH_UP_BATCH,
        heartbeat: ticks(settings.heartbeat_interval),
        revocation_check: ticks(REVOCATION_CHECK_INTERVAL),
        end: Box::pin(sleep(token_lifetime.min(max_duration))),
        app: app.clone(),
    };
    let events = stream::unfold(reader, async |mut reader| {
        let next = reader.next().await?;
        Some((Ok::<_, Infallible>(next), reader))
    });
    let mut response = HttpResponse::Ok();
    // The header stops nginx from buffering the stream.
    response.content_type("text/event-stream").insert_header(("X-Accel-Buffering", "no"));
    Ok(response.streaming(events))
}

/// Parses an event id, which consists of digits alone. The greatest number is not an id, because no
/// event could follow it.
fn parse_event_id(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse().ok().filter(|id| is_number && *id < i64::MAX)
}

/// Returns an interval whose first tick is one period from now.
fn ticks(period: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The state of one open stream, which returns the bytes to send.
struct StreamReader {
    app: Data<App>,
    actor: Actor,
    revocations: Data<Revocations>,
    stream: OpenStream,
    /// The frame that is sent before all others.
    first: Option<Bytes>,
    /// Frames that are sent before new events.
    pending: VecDeque<Frame>,
    last_sent: i64,
    /// The event after which missed events have to be read, or `None` for a live stream.
    catch_up_after: Option<i64>,
    /// Missed events that the next query reads.
    catch_up_batch: i64,
    heartbeat: Interval,
    revocation_check: Interval,
    /// The timer that ends the stream.
    end: Pin<Box<Sleep>>,
}

impl StreamReader {
    /// Returns the next bytes to send, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.revocations.revokes(&self.actor) || self.stream.has_ended() {
                return None;
            }
            if let Some(first) = self.first.take() {
                return Some(first);
            }
            if let Some(frame) = self.pending.pop_front() {
                if frame.is_outdated() {
                    self.pending.clear();
                    self.stream.stop_sending();
                    self.catch_up_after = Some(self.last_sent);
                    continue;
                }
                self.last_sent = frame.id;
                return Some(frame.bytes());
            }
            if let Some(last_sent) = self.catch_up_after {
                // A long catch-up does not reach the timer in the `select!` below.
                if self.end.is_elapsed() || self.end.deadline() <= Instant::now() {
                    return None;
                }
                let is_complete = self.catch_up(last_sent).await.inspect_err(|error| {
                    tracing::warn!(%error, "failed to read the missed events of a stream");
                });
                if !is_complete.ok()? {
                    return None;
                }
                continue;
            }
            tokio::select! {
                biased;
                () = &mut self.end => return None,
                _ = self.revocation_check.tick() => {}
                frame = self.stream.recv() => self.pending.push_back(frame?),
                _ = self.heartbeat.tick() => return Some(Bytes::from_static(b":\n\n")),
            }
        }
    }

    /// Reads one batch of missed events. The stream is live after the last batch.
    /// Returns false if an event was deleted before this reader received it.
    async fn catch_up(&mut self, last_sent: i64) -> Result<bool, ::db::Error> {
        let app = self.app.clone();
        // The semaphore is never closed.
        let _permit = app.catch_ups.acquire().await;
        let conn = app.db.conn().await?;
        let limit = self.catch_up_batch;
        let Some(mut batch) = load_batches(&conn, &[self.actor.user_id], &[last_sent], limit).await?.pop()
        else {
            self.go_live(last_sent);
            return Ok(true);
        };
        if !batch.follows(last_sent) {
            return Ok(false);
        }
        let is_truncated = batch.truncate(MAX_CATCH_UP_BYTES);
        let is_last = !is_truncated && batch.found < limit;
        // Events of several KiB are read in small batches, so that few of them are read twice.
        self.catch_up_batch = if is_truncated {
            i64::try_from(batch.frames.len()).unwrap_or(CATCH_UP_BATCH)
        } else {
            CATCH_UP_BATCH.min(2 * limit)
        };
        self.pending.extend(batch.frames);
        self.catch_up_after = Some(batch.last);
        if is_last {
            self.go_live(batch.last);
        }
        Ok(true)
    }

    /// Receives the events after `last` from now on.
    fn go_live(&mut self, last: i64) {
        self.catch_up_after = None;
        self.app.streams.start_sending(&self.stream, last);
    }
}
