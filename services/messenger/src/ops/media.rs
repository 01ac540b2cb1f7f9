//! Use cases of LiveKit: commands, webhooks, access, and the comparison with its rooms.

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

use super::conference::{self, ConferenceContext};
use crate::clients::{LiveKit, MediaAccess, parse_participant};
use crate::db;
use crate::domain::{Action, Conference, ConferenceId, ConnectedParticipant, Entry, MediaCommand, Timing};
use crate::error::Error;

/// The job that sends a command to LiveKit. Its key is a [`RoomCommand`].
pub const MEDIA_COMMAND_JOB: &str = "media-order";
/// Time after the end of a conference in which its commands are retried.
const MAX_RETRY_AGE: Duration = Duration::from_hours(24);

/// A command for one room, as the key of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomCommand {
    room: ConferenceId,
    command: MediaCommand,
}

impl Display for RoomCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.command {
            MediaCommand::DeleteRoom => write!(f, "{}", self.room),
            MediaCommand::RemoveParticipant(user) => write!(f, "{}/{user}", self.room),
        }
    }
}

impl FromStr for RoomCommand {
    type Err = anyhow::Error;

    fn from_str(key: &str) -> anyhow::Result<Self> {
        let (room, command) = match key.split_once('/') {
            Some((room, user)) => (room, MediaCommand::RemoveParticipant(user.parse()?)),
            None => (key, MediaCommand::DeleteRoom),
        };
        Ok(Self { room: room.parse()?, command })
    }
}

/// Schedules commands that are sent after the commit.
pub async fn schedule_commands(
    tx: &mut Tx,
    room: ConferenceId,
    commands: &[MediaCommand],
    now: OffsetDateTime,
) -> Result<(), Error> {
    let commands = commands.iter().map(|command| RoomCommand { room, command: *command });
    Ok(jobs::schedule(tx, MEDIA_COMMAND_JOB, commands, now).await?)
}

/// Sends a command, unless it is obsolete or older than [`MAX_RETRY_AGE`].
///
/// # Errors
/// LiveKit did not accept the command. The job then repeats the command.
pub async fn send_command(
    db: &Db,
    livekit: &LiveKit,
    RoomCommand { room, command }: RoomCommand,
) -> anyhow::Result<()> {
    let found = db::conference::look_up(&*db.conn().await?, room).await?;
    let Some(conference) = found else { return Ok(()) };
    if conference.ended_at.is_some_and(|ended| ended + MAX_RETRY_AGE < runtime::clock::now()) {
        tracing::warn!(%room, "gave up on a LiveKit command after 24 h");
        return Ok(());
    }
    match command {
        MediaCommand::DeleteRoom => livekit.delete_room(room).await,
        // The user was invited or joined again since the command was scheduled.
        MediaCommand::RemoveParticipant(user) if conference.entry(user).is_some_and(Entry::is_seated) => {
            Ok(())
        }
        MediaCommand::RemoveParticipant(user) => livekit.remove_participant(room, user).await,
    }
}

/// A webhook of LiveKit about the room of a conference.
pub struct Webhook {
    /// SHA-256 of the webhook's id, which may be any text.
    id: Option<Vec<u8>>,
    room: ConferenceId,
    action: Action<'static>,
}

impl Webhook {
    /// Parses a webhook. Returns `None` if it does not concern a conference.
    /// A webhook without a time happened at `now`.
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

/// Returns the access of a Joined user to the room.
pub fn create_access(livekit: &LiveKit, conference: &Conference, user: UserId) -> Result<MediaAccess, Error> {
    let access = livekit.create_access(conference.id, user, conference.media, runtime::clock::now());
    access.map_err(|error| Problem::internal(&*error.into_boxed_dyn_error()).into())
}

/// Compares the participants of a conference with those of its room.
pub async fn reconcile(
    db: &Db,
    livekit: &LiveKit,
    room: ConferenceId,
    timing: &Timing,
) -> anyhow::Result<()> {
    let at = db::chat::read_clock(&*db.conn().await?).await?;
    let present = livekit.list_participants(room).await.context("failed to list the participants")?;
    let context = ConferenceContext { timing: Some(timing), livekit: None };
    let action = Action::Reconcile { present: &present, at };
    Ok(db.tx(async |tx| conference::apply_media_event(tx, room, action, context).await).await?)
}
