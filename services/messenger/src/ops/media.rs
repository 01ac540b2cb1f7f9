//! Use cases for what LiveKit reports: webhooks, and the participants of its rooms.

use ::db::{Db, Tx};
use anyhow::Context;
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value;
use time::OffsetDateTime;

use super::conference::{self, ConferenceContext};
use crate::clients::{LiveKit, parse_participant};
use crate::db;
use crate::domain::{Action, ConferenceId, ConnectedParticipant, Timing};
use crate::error::Error;

/// A webhook of LiveKit about the room of a conference.
pub struct Webhook {
    /// SHA-256 of the webhook's id, which may be any text.
    id: Option<Vec<u8>>,
    room: ConferenceId,
    action: Action<'static>,
}

impl Webhook {
    /// Parses a webhook. Returns `None` if it does not concern a conference. A webhook without a
    /// time counts as sent at `now`.
    pub fn parse(body: &Value, now: OffsetDateTime) -> Option<Self> {
        let room = body["room"]["name"].as_str()?.parse().ok()?;
        let at = parse_unix_seconds(&body["createdAt"]).unwrap_or(now);
        let action = match body["event"].as_str()? {
            "participant_joined" => {
                let ConnectedParticipant { user_id: user, sid } = parse_participant(&body["participant"])?;
                Action::Connect { user, sid, at }
            }
            "participant_left" => {
                let ConnectedParticipant { user_id: user, sid } = parse_participant(&body["participant"])?;
                Action::Disconnect { user, sid, at }
            }
            "room_finished" => Action::FinishRoom { at },
            _ => return None,
        };
        let id = body["id"].as_str().map(|id| digest(&SHA256, id.as_bytes()).as_ref().to_vec());
        Some(Self { id, room, action })
    }
}

/// Parses seconds since 1970, which LiveKit writes as a number or as a text.
fn parse_unix_seconds(value: &Value) -> Option<OffsetDateTime> {
    let seconds = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    // A time after 2106 is invalid.
    let seconds = u32::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
    OffsetDateTime::from_unix_timestamp(seconds.into()).ok()
}

/// Applies a webhook. A webhook that was received before has no effect.
pub async fn apply_webhook(
    tx: &mut Tx,
    webhook: Webhook,
    context: ConferenceContext<'_>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    if let Some(id) = &webhook.id
        && !db::webhook::record(tx, id, now).await?
    {
        return Ok(());
    }
    conference::apply_media_event(tx, webhook.room, webhook.action, context).await
}

/// Compares the participants of a conference with those of its room, and applies the differences.
pub async fn reconcile(
    db: &Db,
    livekit: &LiveKit,
    room: ConferenceId,
    timing: &Timing,
) -> anyhow::Result<()> {
    let at = db::clock::read(&*db.conn().await?).await?;
    let present = livekit.list_participants(room).await.context("failed to list the participants")?;
    let context = ConferenceContext { timing: Some(timing), livekit: None };
    let action = Action::Reconcile { present: &present, at };
    Ok(db.tx(async |tx| conference::apply_media_event(tx, room, action, context).await).await?)
}
