//! What LiveKit is told and asked, and who is let in.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use ::db::{Db, Tx};
use anyhow::Context;
use auth::UserId;
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value;
use time::OffsetDateTime;
use web::Problem;

use super::conference::{self, Terms};
use crate::clients::{LiveKit, MediaAccess, present};
use crate::db;
use crate::domain::{Act, Conference, ConferenceId, Entry, Order, Present, Timing};
use crate::error::Error;

/// The job that tells LiveKit something.
pub const MEDIA_ORDER: &str = "media-order";
/// Nobody is told of what ended so long ago.
const REPEATED: Duration = Duration::from_hours(24);

/// Something that LiveKit has to be told, as the key of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaOrder {
    room: ConferenceId,
    order: Order,
}

impl Display for MediaOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.order {
            Order::Close => write!(f, "{}", self.room),
            Order::Remove(user) => write!(f, "{}/{user}", self.room),
        }
    }
}

impl FromStr for MediaOrder {
    type Err = anyhow::Error;

    fn from_str(key: &str) -> anyhow::Result<Self> {
        let (room, order) = match key.split_once('/') {
            Some((room, user)) => (room, Order::Remove(user.parse()?)),
            None => (key, Order::Close),
        };
        Ok(Self { room: room.parse()?, order })
    }
}

/// Has LiveKit told, once this transaction has committed.
pub async fn order(
    tx: &mut Tx,
    room: ConferenceId,
    orders: &[Order],
    now: OffsetDateTime,
) -> Result<(), Error> {
    let orders = orders.iter().map(|order| MediaOrder { room, order: *order });
    Ok(jobs::schedule(tx, MEDIA_ORDER, orders, now).await?)
}

/// Tells LiveKit, unless it need not hear of it any more.
///
/// # Errors
/// When it does not answer: tell it again.
pub async fn tell(db: &Db, livekit: &LiveKit, MediaOrder { room, order }: MediaOrder) -> anyhow::Result<()> {
    let found = db::conference::look_up(&*db.conn().await?, room).await?;
    let Some(conference) = found else { return Ok(()) };
    if conference.ended_at.is_some_and(|ended| ended + REPEATED < runtime::clock::now()) {
        tracing::warn!(%room, "LiveKit could not be told for a day");
        return Ok(());
    }
    match order {
        Order::Close => livekit.delete_room(room).await,
        // Asked back, or there again since.
        Order::Remove(user) if conference.entry(user).is_some_and(Entry::is_seated) => Ok(()),
        Order::Remove(user) => livekit.remove_participant(room, user).await,
    }
}

/// What a webhook of LiveKit's tells of a room that may be a conference's.
pub struct Webhook {
    /// SHA-256 of what it is called.
    id: Option<Vec<u8>>,
    room: ConferenceId,
    act: Act<'static>,
}

impl Webhook {
    /// `None`: nothing that concerns a conference. What it does not say of its time happened `now`.
    pub fn read(told: &Value, now: OffsetDateTime) -> Option<Self> {
        let room = told["room"]["name"].as_str()?.parse().ok()?;
        let at = seconds(&told["createdAt"]).unwrap_or(now);
        let act = match told["event"].as_str()? {
            "participant_joined" => {
                let Present { user_id: user, sid } = present(&told["participant"])?;
                Act::Connect { user, sid, at }
            }
            "participant_left" => {
                let Present { user_id: user, sid } = present(&told["participant"])?;
                Act::Disconnect { user, sid, at }
            }
            "room_finished" => Act::FinishRoom { at },
            _ => return None,
        };
        let id = told["id"].as_str().map(|id| digest(&SHA256, id.as_bytes()).as_ref().to_vec());
        Some(Self { id, room, act })
    }
}

/// Seconds since 1970, which LiveKit writes as a text.
fn seconds(value: &Value) -> Option<OffsetDateTime> {
    let seconds = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    // A later time than in 2106 is none.
    let seconds = u32::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
    OffsetDateTime::from_unix_timestamp(seconds.into()).ok()
}

/// Does what a webhook's news asks for, once.
///
/// # Errors
/// Those of the database.
pub async fn hear(tx: &mut Tx, webhook: Webhook, terms: Terms<'_>, now: OffsetDateTime) -> Result<(), Error> {
    if let Some(id) = &webhook.id
        && !db::webhook::hear(tx, id, now).await?
    {
        return Ok(());
    }
    conference::hear(tx, webhook.room, webhook.act, terms).await
}

/// What lets somebody who is Joined into the room.
///
/// # Errors
/// `500` when a token cannot be signed.
pub fn access(livekit: &LiveKit, conference: &Conference, user: UserId) -> Result<MediaAccess, Error> {
    let access = livekit.access(conference.id, user, conference.media, runtime::clock::now());
    access.map_err(|error| Problem::internal(&*error.into_boxed_dyn_error()).into())
}

/// Compares who is in a conference with who is in its room.
///
/// # Errors
/// When LiveKit does not answer, and those of the database.
pub async fn reconcile(
    db: &Db,
    livekit: &LiveKit,
    room: ConferenceId,
    timing: &Timing,
) -> anyhow::Result<()> {
    let at = db::chat::clock(&*db.conn().await?).await?;
    let present = livekit.list_participants(room).await.context("ListParticipants")?;
    let terms = Terms { timing: Some(timing), livekit: None };
    let act = Act::Compare { present: &present, at };
    Ok(db.tx(async |tx| conference::hear(tx, room, act, terms).await).await?)
}
