//! The room of a conference in LiveKit: commands for it, and the access to it.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use ::db::{Db, Tx};
use auth::UserId;
use time::OffsetDateTime;
use web::Problem;

use crate::clients::{LiveKit, MediaAccess};
use crate::db;
use crate::domain::{Conference, ConferenceId, MediaCommand, ParticipantEntry};
use crate::error::Error;

/// The job that sends a command to LiveKit. Its key is a [`RoomCommand`].
pub const MEDIA_COMMAND_JOB: &str = "media-command";
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

/// Sends a command, unless it is obsolete, or the conference ended more than [`MAX_RETRY_AGE`] ago.
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
        tracing::warn!(%room, "gave up on a LiveKit command 24 h after the end of the conference");
        return Ok(());
    }
    match command {
        MediaCommand::DeleteRoom => livekit.delete_room(room).await,
        // The user was invited or joined again since the command was scheduled.
        MediaCommand::RemoveParticipant(user)
            if conference.entry(user).is_some_and(ParticipantEntry::is_seated) =>
        {
            Ok(())
        }
        MediaCommand::RemoveParticipant(user) => livekit.remove_participant(room, user).await,
    }
}

/// Returns the access of a user to the room. The caller has checked that the user may enter.
pub fn create_access(livekit: &LiveKit, conference: &Conference, user: UserId) -> Result<MediaAccess, Error> {
    let access = livekit.create_access(conference.id, user, conference.media, runtime::clock::now());
    access.map_err(|error| Problem::internal(&*error.into_boxed_dyn_error()).into())
}
