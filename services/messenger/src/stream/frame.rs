//! Events as they are sent: what a reference refers to is read at that moment, and shown to whom it may be shown then.

use std::collections::HashMap;

use ::db::Lookup;
use actix_web::web::Bytes;
use auth::UserId;
use diesel::QueryResult;
use futures_util::future::try_join3;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::hub::News;
use crate::db;
use crate::db::stream::Reference;
use crate::domain::{ChatId, ConferenceId, MessageId, ToldKind};

/// One event of a stream.
#[derive(Clone, Debug)]
pub struct Frame {
    pub id: i64,
    pub event: &'static str,
    /// One line of JSON.
    pub data: Bytes,
}

impl Frame {
    pub fn new(id: i64, event: &'static str, data: &impl Serialize) -> Option<Self> {
        Some(Self { id, event, data: write(data)? })
    }

    /// As Server-Sent Events have it.
    pub fn bytes(&self) -> Bytes {
        let Self { id, event, data } = self;
        let head = format!("id: {id}\nevent: {event}\ndata: ");
        [head.as_bytes(), data, b"\n\n"].concat().into()
    }
}

fn write(data: &impl Serialize) -> Option<Bytes> {
    let written = serde_json::to_vec(data);
    written.inspect_err(|error| tracing::error!(%error, "an event cannot be written")).ok().map(Bytes::from)
}

/// What came for each of these people after the event that stands beside them, of each so many references at most.
pub async fn page(conn: Lookup<'_>, people: &[UserId], told: &[i64], limit: i64) -> QueryResult<Vec<News>> {
    let references = db::stream::after(conn, people, told, limit).await?;
    let shown = Shown::read(conn, &references).await?;
    let mut all: Vec<News> = Vec::new();
    for reference in &references {
        let Reference { user_id, event, .. } = *reference;
        if all.last().is_none_or(|last| last.user_id != user_id) {
            all.push(News { user_id, frames: Vec::new(), last: event, found: 0 });
        }
        if let Some(news) = all.last_mut() {
            news.last = event;
            news.found += 1;
            let name = <&'static str>::from(reference.kind);
            news.frames.extend(shown.data(reference).map(|data| Frame { id: event, event: name, data }));
        }
    }
    Ok(all)
}

/// What references refer to, each written once for all who are told of it.
struct Shown {
    messages: HashMap<MessageId, Bytes>,
    conferences: HashMap<ConferenceId, Bytes>,
    chats: HashMap<(UserId, ChatId), Bytes>,
    /// Who is in which chat, and how far they have read.
    read: HashMap<(UserId, ChatId), i64>,
}

impl Shown {
    async fn read(conn: Lookup<'_>, references: &[Reference]) -> QueryResult<Self> {
        let of = |kind| references.iter().filter(move |reference| reference.kind == kind);
        let messages =
            distinct(of(ToldKind::Message).filter_map(|told| told.subject_id).map(MessageId::from));
        let conferences =
            distinct(of(ToldKind::Conference).filter_map(|told| told.subject_id).map(ConferenceId::from));
        let seen = distinct(of(ToldKind::Chat).map(|told| (told.user_id, told.chat_id)));
        let (people, chats): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
        let (messages, conferences, chats) = try_join3(
            db::message::of_ids(conn, &messages),
            db::conference::cards(conn, &conferences),
            db::chat_view::views(conn, &people, &chats),
        )
        .await?;
        // At last: who is still in a chat now may see all that was read until now.
        let readers = of(ToldKind::Read).filter_map(|told| told.subject_id).map(UserId::from);
        let users = distinct(references.iter().map(|told| told.user_id).chain(readers));
        let chats_told = distinct(references.iter().map(|told| told.chat_id));
        let read = db::stream::readers(conn, &users, &chats_told).await?;
        let messages = messages.iter().filter_map(|message| Some((message.id, write(message)?)));
        let conferences = conferences.iter().filter_map(|card| Some((card.id, write(card)?)));
        let chats = chats.iter().filter_map(|(user, view)| Some(((*user, view.id), write(view)?)));
        Ok(Self {
            messages: messages.collect(),
            conferences: conferences.collect(),
            chats: chats.collect(),
            read: read.into_iter().map(|(user, chat, read)| ((user, chat), read)).collect(),
        })
    }

    /// `None`: nobody is to be told of it any more.
    fn data(&self, told: &Reference) -> Option<Bytes> {
        let chat_id = told.chat_id;
        if told.kind == ToldKind::ChatRemoved {
            return write(&json!({"ChatId": chat_id}));
        }
        self.read.get(&(told.user_id, chat_id))?;
        let subject: Uuid = told.subject_id.unwrap_or_default();
        match told.kind {
            ToldKind::Chat => self.chats.get(&(told.user_id, chat_id)).cloned(),
            ToldKind::Message => self.messages.get(&subject.into()).cloned(),
            ToldKind::Conference => self.conferences.get(&subject.into()).cloned(),
            ToldKind::Read => {
                let read = self.read.get(&(subject.into(), chat_id))?;
                write(&json!({"ChatId": chat_id, "UserId": subject, "ReadSequence": read}))
            }
            ToldKind::ChatRemoved => None,
        }
    }
}

fn distinct<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all.dedup();
    all
}
