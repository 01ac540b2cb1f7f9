//! What happens, as it happens.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use ::db::Lookups;
use actix_web::web::{Bytes, Data};
use actix_web::{HttpRequest, HttpResponse, get};
use auth::{Actor, UserId};
use futures_util::stream;
use runtime::clock;
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep};

use crate::app::App;
use crate::db;
use crate::error::Error;
use crate::stream::{Frame, page};

const LAST_EVENT_ID: &str = "last-event-id";
/// Events that are read at once of what a reader has missed.
const MISSED: i64 = 32;

/// Follow my chats.
///
/// Server-Sent Events: `ready` or `reset` first, then `chat`, `chat-removed`, `message`, `read` and `conference`, each with
/// one line of JSON. `Last-Event-ID` goes on where another stream has ended; after `reset` the lists are to be read again.
#[utoipa::path(
    tag = "Stream",
    params(("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received")),
    responses((status = 200, description = "Events, until the stream ends", body = String, content_type = "text/event-stream"))
)]
#[get("/api/messenger/stream")]
pub async fn open_stream(
    app: Data<App>,
    actor: Actor,
    lookups: Data<Lookups>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let (user, now, settings) = (actor.user_id, clock::now(), &app.settings.stream);
    let asked = request.headers().get(LAST_EVENT_ID);
    let position = asked.and_then(|asked| number(asked.to_str().ok()?));
    let asked_position = position.unwrap_or(0);
    let found = lookups
        .run(async |conn| db::stream::position(conn, user, asked_position, settings.retention).await)
        .await?;
    let resumed = position.filter(|position| *position <= found.last_event && found.is_kept);
    let told = resumed.unwrap_or(found.last_event);
    let first = if asked.is_some() && resumed.is_none() {
        Frame::new(told, "reset", &json!({}))
    } else {
        Frame::new(told, "ready", &json!({"Resumed": resumed.is_some()}))
    };

    let (number, receiver) = app.streams.open(user);
    let is_behind = told < found.last_event;
    if !is_behind {
        app.streams.go_live(user, number, told);
    }
    let left = Duration::try_from(actor.expires_at() - now).unwrap_or_default();
    let mut heartbeat = interval_at(Instant::now() + settings.heartbeat, settings.heartbeat);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reader = Reader {
        user,
        number,
        receiver,
        waiting: first.into_iter().collect(),
        behind: is_behind.then_some(told),
        heartbeat,
        end: Box::pin(sleep(left.min(settings.longest))),
        app: app.clone(),
    };
    let events = stream::unfold(reader, async |mut reader| {
        let next = reader.next().await?;
        Some((Ok::<_, Infallible>(next), reader))
    });
    let mut answer = HttpResponse::Ok();
    // Proxies pass on what they have.
    answer.content_type("text/event-stream").insert_header(("X-Accel-Buffering", "no"));
    Ok(answer.streaming(events))
}

/// Digits alone.
fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Who reads a stream.
struct Reader {
    app: Data<App>,
    user: UserId,
    number: u64,
    receiver: Receiver<Frame>,
    /// What is sent before anything that comes.
    waiting: VecDeque<Frame>,
    /// The event after which the reader has missed some, until those have been read.
    behind: Option<i64>,
    heartbeat: Interval,
    end: Pin<Box<Sleep>>,
}

impl Reader {
    /// What is sent next. `None`: the stream has ended.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.waiting.pop_front() {
                return Some(frame.bytes());
            }
            if let Some(told) = self.behind {
                if self.end.is_elapsed() || self.end.deadline() <= Instant::now() {
                    return None;
                }
                let is_whole = self.catch_up(told).await.inspect_err(|error| {
                    tracing::warn!(%error, "what a stream has missed cannot be read");
                });
                if !is_whole.ok()? {
                    return None;
                }
                continue;
            }
            return tokio::select! {
                biased;
                () = &mut self.end => None,
                frame = self.receiver.recv() => frame.map(|frame| frame.bytes()),
                _ = self.heartbeat.tick() => Some(Bytes::from_static(b":\n\n")),
            };
        }
    }

    /// Reads some of what came after the event `told`; behind the last of it the stream is live. `false`: some of it was forgotten
    /// while this reader took its time.
    async fn catch_up(&mut self, told: i64) -> Result<bool, ::db::Error> {
        let conn = self.app.db.conn().await?;
        let news = page(&conn, &[self.user], &[told], MISSED).await?.pop();
        if news.as_ref().is_some_and(|news| !news.follows(told)) {
            return Ok(false);
        }
        let is_last = news.as_ref().is_none_or(|news| news.found < MISSED);
        let last = news.as_ref().map_or(told, |news| news.last);
        self.waiting.extend(news.into_iter().flat_map(|news| news.frames));
        self.behind = (!is_last).then_some(last);
        if is_last {
            self.app.streams.go_live(self.user, self.number, last);
        }
        Ok(true)
    }
}
