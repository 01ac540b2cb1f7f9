//! Frames of a stream, with the content at the time of sending, for readers who may still see it.

use std::collections::HashMap;
use std::time::Duration;

use ::db::Conn;
use actix_web::web::Bytes;
use auth::UserId;
use diesel::QueryResult;
use futures_util::future::try_join3;
use serde::Serialize;
use tokio::time::Instant;
use uuid::Uuid;

use crate::db;
use crate::db::stream::EventReference;
use crate::domain::{ChatId, ConferenceId, MessageId, StreamEventKind};
use crate::stream::event::{RaisedReadMarker, RemovedChat};

/// The time after which the content of a frame is read again before the frame is sent.
const MAX_FRAME_AGE: Duration = Duration::from_secs(5);

/// One event of a stream.
#[derive(Clone, Debug)]
pub struct Frame {
    pub id: i64,
    pub event: &'static str,
    /// One line of JSON.
    pub data: Bytes,
    pub loaded_at: Instant,
}

impl Frame {
    pub fn new(id: i64, event: &'static str, data: &impl Serialize) -> Option<Self> {
        Some(Self { id, event, data: serialize(data)?, loaded_at: Instant::now() })
    }

    /// Returns true if the frame has waited for its reader longer than [`MAX_FRAME_AGE`]. In that
    /// time the message may be deleted, or the reader removed from the chat.
    pub fn is_outdated(&self) -> bool {
        self.loaded_at.elapsed() > MAX_FRAME_AGE
    }

    /// Returns the frame in the format of Server-Sent Events.
    pub fn bytes(&self) -> Bytes {
        let Self { id, event, data, .. } = self;
        let head = format!("id: {id}\nevent: {event}\ndata: ");
        [head.as_bytes(), data, b"\n\n"].concat().into()
    }
}

/// The next events of a user, up to the limit of the query.
pub struct EventBatch {
    pub user_id: UserId,
    pub frames: Vec<Frame>,
    /// The last event found, even if it has no frame.
    pub last: i64,
    /// Number of events found.
    pub found: i64,
}

impl EventBatch {
    /// Returns true if no event between `last_sent` and this batch is missing.
    ///
    /// Events of a user are numbered without gaps. A gap means that events are no longer stored.
    pub fn follows(&self, last_sent: i64) -> bool {
        self.last - self.found <= last_sent
    }

    /// Keeps the first frames up to `max_bytes` in total, but at least one. Returns true if it
    /// dropped any.
    pub fn truncate(&mut self, max_bytes: usize) -> bool {
        let mut bytes = 0;
        let fits = |frame: &&Frame| {
            bytes += frame.data.len();
            bytes <= max_bytes
        };
        let kept = self.frames.iter().take_while(fits).count().max(1);
        if kept >= self.frames.len() {
            return false;
        }
        self.frames.truncate(kept);
        self.last = self.frames.last().map_or(self.last, |frame| frame.id);
        true
    }
}

fn serialize(data: &impl Serialize) -> Option<Bytes> {
    let serialized = serde_json::to_vec(data);
    serialized
        .inspect_err(|error| tracing::error!(%error, "failed to serialize a stream event"))
        .ok()
        .map(Bytes::from)
}

/// Returns the events of each user after the event at the same position of `last_sent`. Each batch
/// has up to `limit` events.
pub async fn load_batches(
    conn: &Conn,
    users: &[UserId],
    last_sent: &[i64],
    limit: i64,
) -> QueryResult<Vec<EventBatch>> {
    let references = db::stream::list_after(conn, users, last_sent, limit).await?;
    let contents = EventContents::load(conn, &references).await?;
    let loaded_at = Instant::now();
    let mut batches: Vec<EventBatch> = Vec::new();
    for reference in &references {
        let EventReference { user_id, event, .. } = *reference;
        if batches.last().is_none_or(|last| last.user_id != user_id) {
            batches.push(EventBatch { user_id, frames: Vec::new(), last: event, found: 0 });
        }
        if let Some(batch) = batches.last_mut() {
            batch.last = event;
            batch.found += 1;
            let name = <&'static str>::from(reference.kind);
            let frame = |data| Frame { id: event, event: name, data, loaded_at };
            batch.frames.extend(contents.data(reference).map(frame));
        }
    }
    Ok(batches)
}

/// The content of references, serialized once for all users who receive it.
struct EventContents {
    messages: HashMap<MessageId, Bytes>,
    conferences: HashMap<ConferenceId, Bytes>,
    chats: HashMap<(UserId, ChatId), Bytes>,
    /// Read markers of the present members.
    read_markers: HashMap<(UserId, ChatId), i64>,
}

impl EventContents {
    async fn load(conn: &Conn, references: &[EventReference]) -> QueryResult<Self> {
        let of = |kind| references.iter().filter(move |reference| reference.kind == kind);
        let subjects = |kind| of(kind).filter_map(|reference| reference.subject_id);
        let messages = distinct(subjects(StreamEventKind::Message).map(MessageId::from));
        let conferences = distinct(subjects(StreamEventKind::Conference).map(ConferenceId::from));
        let views =
            distinct(of(StreamEventKind::Chat).map(|reference| (reference.user_id, reference.chat_id)));
        let (viewers, chats): (Vec<_>, Vec<_>) = views.into_iter().unzip();
        let (messages, conferences, chats) = try_join3(
            db::message::list_by_ids(conn, &messages),
            db::conference::list_by_ids(conn, &conferences),
            db::chat_view::load_views(conn, &viewers, &chats),
        )
        .await?;
        // Membership is read last: a user who is still a member may see everything read before.
        let readers = subjects(StreamEventKind::Read).map(UserId::from);
        let users = distinct(references.iter().map(|reference| reference.user_id).chain(readers));
        let chat_ids = distinct(references.iter().map(|reference| reference.chat_id));
        let read_markers = db::stream::list_read_markers(conn, &users, &chat_ids).await?;
        let messages = messages.iter().filter_map(|message| Some((message.id, serialize(message)?)));
        let conferences =
            conferences.iter().filter_map(|conference| Some((conference.id, serialize(conference)?)));
        let chats = chats.iter().filter_map(|(user, view)| Some(((*user, view.id), serialize(view)?)));
        Ok(Self {
            messages: messages.collect(),
            conferences: conferences.collect(),
            chats: chats.collect(),
            read_markers: read_markers.into_iter().map(|(user, chat, read)| ((user, chat), read)).collect(),
        })
    }

    /// Returns the content, or `None` if the user may no longer see it.
    fn data(&self, reference: &EventReference) -> Option<Bytes> {
        let chat_id = reference.chat_id;
        if reference.kind == StreamEventKind::ChatRemoved {
            return serialize(&RemovedChat { chat_id });
        }
        self.read_markers.get(&(reference.user_id, chat_id))?;
        let subject: Uuid = reference.subject_id.unwrap_or_default();
        match reference.kind {
            StreamEventKind::Chat => self.chats.get(&(reference.user_id, chat_id)).cloned(),
            StreamEventKind::Message => self.messages.get(&subject.into()).cloned(),
            StreamEventKind::Conference => self.conferences.get(&subject.into()).cloned(),
            StreamEventKind::Read => {
                let read = self.read_markers.get(&(subject.into(), chat_id))?;
                serialize(&RaisedReadMarker { chat_id, read_sequence: *read, user_id: subject.into() })
            }
            StreamEventKind::ChatRemoved => None,
        }
    }
}

fn distinct<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all.dedup();
    all
}
