//! Changes of conferences by members, moderators, LiveKit and timers.
//! The lock of a chat's row serializes the changes of its conferences.

use ::db::Tx;
use auth::{Actor, UserId};
use messaging::outbox;
use time::OffsetDateTime;
use web::Problem;

use super::message::post_card;
use super::room;
use super::stream::notify_members;
use crate::clients::{LiveKit, MediaAccess};
use crate::db;
use crate::domain::limits::{CONFERENCE_STARTS_WINDOW, MAX_CONFERENCE_STARTS};
use crate::domain::{
    Action, Card, Chat, ChatId, Conference, ConferenceCard, ConferenceChange, ConferenceId, DealChatIds,
    Media, ParticipantState, StreamEvent, Timing, moderator_reach, select_invitees,
};
use crate::error::{
    CHAT_NOT_DEAL, CHAT_NOT_FOUND, CONFERENCE_ALREADY_ACTIVE, CONFERENCE_NOT_FOUND,
    CONFERENCES_LIMIT_EXCEEDED, Error, FORBIDDEN, MEDIA_UNAVAILABLE,
};
use crate::events::{ConferenceEnded, ConferenceHostChanged, ConferenceInvited, ConferenceStarted};

/// The job of a conference's next deadline. Its key is the conference's id.
pub const CONFERENCE_DEADLINE_JOB: &str = "conference-deadline";

/// The settings and the media server that a change of a conference needs.
#[derive(Clone, Copy)]
pub struct ConferenceContext<'a> {
    /// The timeouts, or `None` where the caller does not know them.
    /// The job then runs at once and sets the deadline.
    pub timing: Option<&'a Timing>,
    /// LiveKit, or `None` while it is not available. Only a start, a join and a new media token
    /// need it.
    pub livekit: Option<&'a LiveKit>,
}

impl<'a> ConferenceContext<'a> {
    /// # Errors
    /// [`MEDIA_UNAVAILABLE`]: LiveKit is not available.
    fn livekit(&self) -> Result<&'a LiveKit, Error> {
        Ok(self.livekit.ok_or(MEDIA_UNAVAILABLE)?)
    }
}

/// Starts a conference that rings the `requested` users, or the first other members.
///
/// # Errors
/// In this order:
/// - [`CHAT_NOT_FOUND`]: the host is not a member.
/// - [`CHAT_NOT_DEAL`]: the chat is a Direct chat.
/// - The errors of [`select_invitees`].
/// - [`CONFERENCE_ALREADY_ACTIVE`]: the chat has a live conference.
/// - [`CONFERENCES_LIMIT_EXCEEDED`]: the host has started too many conferences in this chat.
/// - [`MEDIA_UNAVAILABLE`]: LiveKit is not available.
pub async fn start_conference(
    tx: &mut Tx,
    chat: ChatId,
    host: UserId,
    media: Media,
    requested: Option<&[UserId]>,
    has_lobby: bool,
    context: ConferenceContext<'_>,
) -> Result<Conference, Error> {
    let chat = db::chat::lock(tx, chat).await?.filter(|chat| chat.member(host).is_some());
    let chat = chat.ok_or(CHAT_NOT_FOUND)?;
    let (deal_id, tenant_id) = chat.deal_id.zip(chat.tenant_id).ok_or(CHAT_NOT_DEAL)?;
    let invitees = select_invitees(host, requested, &chat.user_ids())?;
    if let Some(live) = db::conference::find_live(tx, chat.id).await? {
        return Err(Problem::from(CONFERENCE_ALREADY_ACTIVE).with_member(live.id.to_string()).into());
    }
    check_starts(tx, chat.id, host, chat.now).await?;
    context.livekit()?;
    let ids = DealChatIds { chat_id: chat.id, deal_id, tenant_id };
    let conference = Conference::start(ids, media, host, &invitees, has_lobby, chat.now);
    db::conference::insert(tx, &conference).await?;
    outbox::append(tx, &ConferenceStarted::of(&conference)).await?;
    notify_members(tx, &chat, StreamEvent::Conference(conference.id)).await?;
    set_deadline(tx, &conference, context, chat.now).await?;
    Ok(conference)
}

/// Refuses a start above the limit of the host in a locked chat. Otherwise a user could ring the
/// others without end, since a start and an end are two requests.
async fn check_starts(tx: &mut Tx, chat: ChatId, host: UserId, now: OffsetDateTime) -> Result<(), Error> {
    let (max, window_start) = (MAX_CONFERENCE_STARTS, now - CONFERENCE_STARTS_WINDOW);
    let starts = db::conference::list_starts(tx, chat, host, window_start, max.into()).await?;
    // The start after which the window has room again.
    let Some(earliest) = starts.last().filter(|_| starts.len() >= max as usize) else { return Ok(()) };
    Err(CONFERENCES_LIMIT_EXCEEDED.retry_at(*earliest + CONFERENCE_STARTS_WINDOW, now).into())
}

/// Applies an action of a member of the chat.
///
/// # Errors
/// - [`CONFERENCE_NOT_FOUND`]: the actor is neither member nor moderator.
/// - [`FORBIDDEN`]: the actor is a moderator but not a member.
/// - The errors of [`Conference::decide`].
pub async fn act_as_member(
    tx: &mut Tx,
    id: ConferenceId,
    actor: &Actor,
    action: Action<'_>,
    context: ConferenceContext<'_>,
) -> Result<Conference, Error> {
    let (mut chat, conference) = lock_for_member(tx, id, actor).await?;
    change(tx, &mut chat, &conference, action, context).await
}

/// Invites all users or none.
///
/// # Errors
/// The errors of [`act_as_member`].
pub async fn invite_to_conference(
    tx: &mut Tx,
    id: ConferenceId,
    actor: &Actor,
    users: &[UserId],
    context: ConferenceContext<'_>,
) -> Result<Conference, Error> {
    let (mut chat, conference) = lock_for_member(tx, id, actor).await?;
    let members = chat.user_ids();
    let action = Action::Invite { by: actor.user_id, users, members: &members };
    change(tx, &mut chat, &conference, action, context).await
}

/// Makes the actor Joined, and returns the access to the room.
///
/// # Errors
/// - The errors of [`act_as_member`].
/// - [`MEDIA_UNAVAILABLE`]: LiveKit is not available.
pub async fn join_conference(
    tx: &mut Tx,
    id: ConferenceId,
    actor: &Actor,
    context: ConferenceContext<'_>,
) -> Result<MediaAccess, Error> {
    let (mut chat, conference) = lock_for_member(tx, id, actor).await?;
    let action = Action::Join(actor.user_id);
    // Other refusals precede `MEDIA_UNAVAILABLE`, so the join is decided before LiveKit is checked.
    conference.decide(action.clone(), chat.now)?;
    let livekit = context.livekit()?;
    let joined = change(tx, &mut chat, &conference, action, context).await?;
    room::create_access(livekit, &joined, actor.user_id)
}

/// Returns the access to the room, without a change.
///
/// The lock of the chat serializes this decision and a concurrent removal.
///
/// # Errors
/// - [`CONFERENCE_NOT_FOUND`]: the actor is neither member nor moderator.
/// - [`FORBIDDEN`]: the actor is a moderator but not a member.
/// - The errors of [`Conference::require_media_access`].
/// - [`MEDIA_UNAVAILABLE`]: LiveKit is not available.
pub async fn refresh_media_token(
    tx: &mut Tx,
    id: ConferenceId,
    actor: &Actor,
    context: ConferenceContext<'_>,
) -> Result<MediaAccess, Error> {
    let (_, conference) = lock_for_member(tx, id, actor).await?;
    conference.require_media_access(actor.user_id)?;
    room::create_access(context.livekit()?, &conference, actor.user_id)
}

/// Applies an action of the host or of a moderator.
///
/// # Errors
/// - [`CONFERENCE_NOT_FOUND`]: the actor is neither member nor moderator.
/// - [`FORBIDDEN`]: the actor is neither the host nor a moderator.
/// - The errors of [`Conference::decide`].
pub async fn act_as_host_or_moderator(
    tx: &mut Tx,
    id: ConferenceId,
    actor: &Actor,
    action: Action<'_>,
    context: ConferenceContext<'_>,
) -> Result<Conference, Error> {
    let (mut chat, conference) = lock(tx, id).await?.ok_or(CONFERENCE_NOT_FOUND)?;
    let is_member = chat.member(actor.user_id).is_some();
    if !is_moderator(actor, &conference) {
        if !is_member {
            return Err(CONFERENCE_NOT_FOUND.into());
        }
        if !conference.is_host(actor.user_id) {
            return Err(FORBIDDEN.into());
        }
    }
    change(tx, &mut chat, &conference, action, context).await
}

/// Applies an action of the host alone.
///
/// # Errors
/// - [`CONFERENCE_NOT_FOUND`]: the actor is neither member nor moderator.
/// - [`FORBIDDEN`]: the actor is not the host.
/// - The errors of [`Conference::decide`].
pub async fn act_as_host(
    tx: &mut Tx,
    id: ConferenceId,
    actor: &Actor,
    action: Action<'_>,
    context: ConferenceContext<'_>,
) -> Result<Conference, Error> {
    let (mut chat, conference) = lock_for_member(tx, id, actor).await?;
    if !conference.is_host(actor.user_id) {
        return Err(FORBIDDEN.into());
    }
    change(tx, &mut chat, &conference, action, context).await
}

/// Ends the participation of a former member in the live conference of a locked chat.
pub async fn end_participation(
    tx: &mut Tx,
    chat: &mut Chat,
    user: UserId,
    by: Option<UserId>,
) -> Result<(), Error> {
    let context = ConferenceContext { timing: None, livekit: None };
    if let Some(live) = db::conference::find_live(tx, chat.id).await? {
        change(tx, chat, &live, Action::LeaveChat { user, by }, context).await?;
    }
    Ok(())
}

/// Applies an event of LiveKit. An unknown conference is ignored.
pub async fn apply_media_event(
    tx: &mut Tx,
    id: ConferenceId,
    action: Action<'_>,
    context: ConferenceContext<'_>,
) -> Result<(), Error> {
    if let Some((mut chat, conference)) = lock(tx, id).await? {
        change(tx, &mut chat, &conference, action, context).await?;
    }
    Ok(())
}

/// Applies the deadlines that have passed by the database's clock.
pub async fn apply_deadline(tx: &mut Tx, id: ConferenceId, timing: &Timing) -> Result<(), Error> {
    if let Some((mut chat, conference)) = lock(tx, id).await? {
        let context = ConferenceContext { timing: Some(timing), livekit: None };
        let after = change(tx, &mut chat, &conference, Action::Expire(timing), context).await?;
        // The present run ends the job, so the next deadline is set even if nothing has changed.
        set_deadline(tx, &after, context, chat.now).await?;
    }
    Ok(())
}

/// Returns true for a moderator of the conference's company.
pub fn is_moderator(actor: &Actor, conference: &Conference) -> bool {
    moderator_reach(actor).is_some_and(|reach| reach.covers(conference.tenant_id))
}

/// Locks the chat of a conference until the end of the transaction, and returns both.
async fn lock(tx: &mut Tx, id: ConferenceId) -> Result<Option<(Chat, Conference)>, Error> {
    let Some(chat) = db::conference::find_chat_id(tx, id).await? else { return Ok(None) };
    let chat = db::chat::lock(tx, chat).await?;
    Ok(chat.zip(db::conference::find(tx, id).await?))
}

/// Locks the chat of a conference for a member, and returns both.
///
/// # Errors
/// The errors of [`require_member`].
async fn lock_for_member(tx: &mut Tx, id: ConferenceId, actor: &Actor) -> Result<(Chat, Conference), Error> {
    let (chat, conference) = lock(tx, id).await?.ok_or(CONFERENCE_NOT_FOUND)?;
    require_member(actor, &conference, chat.member(actor.user_id).is_some())?;
    Ok((chat, conference))
}

/// Refuses an actor who is not a member of the chat.
///
/// # Errors
/// - [`CONFERENCE_NOT_FOUND`]: the actor is neither member nor moderator.
/// - [`FORBIDDEN`]: the actor is a moderator but not a member.
fn require_member(actor: &Actor, conference: &Conference, is_member: bool) -> Result<(), Error> {
    match (is_member, is_moderator(actor, conference)) {
        (true, _) => Ok(()),
        (false, true) => Err(FORBIDDEN.into()),
        (false, false) => Err(CONFERENCE_NOT_FOUND.into()),
    }
}

/// Decides about an action, stores the outcome, publishes its events and schedules its commands.
async fn change(
    tx: &mut Tx,
    chat: &mut Chat,
    before: &Conference,
    action: Action<'_>,
    context: ConferenceContext<'_>,
) -> Result<Conference, Error> {
    let by = match action {
        Action::Invite { by, .. } | Action::Admit { by, .. } => Some(by),
        _ => None,
    };
    let (timing, now) = (context.timing, chat.now);
    let decision = before.decide(action.clone(), now)?;
    let (is_visible, is_end) = (decision.is_visible_change(before), decision.is_end(before));
    let after = decision.conference;
    if after != *before {
        db::conference::save(tx, &after).await?;
    }
    if let Some(by) = by.filter(|_| !decision.invited.is_empty()) {
        outbox::append(tx, &ConferenceInvited::of(&after, decision.invited, by, now)).await?;
    }
    if is_visible {
        record_change(tx, before, &after, &action, now).await?;
    }
    if let Some(ended) = ConferenceEnded::of(&after).filter(|_| is_end) {
        outbox::append(tx, &ended).await?;
        let card = ConferenceCard {
            conference_id: after.id,
            media: after.media,
            end_reason: ended.end_reason,
            duration_seconds: after.duration_seconds(),
        };
        post_card(tx, chat, Card::ConferenceEnded(card), &before.users_in(ParticipantState::Joined)).await?;
    }
    if is_visible {
        notify_members(tx, chat, StreamEvent::Conference(after.id)).await?;
    }
    room::schedule_commands(tx, after.id, &decision.media_commands, now).await?;
    let has_new_deadline = timing.is_none_or(|timing| after.deadline(timing) != before.deadline(timing));
    if has_new_deadline && is_visible {
        set_deadline(tx, &after, context, now).await?;
    }
    Ok(after)
}

/// Adds an admission, a denial or a change of the host to the log, and publishes a change of the
/// host.
async fn record_change(
    tx: &mut Tx,
    before: &Conference,
    after: &Conference,
    action: &Action<'_>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    match *action {
        Action::Admit { user, by } => {
            db::conference_log::insert(tx, after.id, ConferenceChange::Admitted, user, by, now).await?;
        }
        // The invitation of a user who knocked is an admission.
        Action::Invite { users, by, .. } => {
            for &user in users.iter().filter(|user| before.knock_state(**user).is_some()) {
                db::conference_log::insert(tx, after.id, ConferenceChange::Admitted, user, by, now).await?;
            }
        }
        Action::Deny { user, by } => {
            db::conference_log::insert(tx, after.id, ConferenceChange::Denied, user, by, now).await?;
        }
        Action::HandOver { from, to } => {
            outbox::append(tx, &ConferenceHostChanged::of(after, from, to, now)).await?;
            db::conference_log::insert(tx, after.id, ConferenceChange::HostChanged, to, from, now).await?;
        }
        _ => {}
    }
    Ok(())
}

/// Schedules or cancels the job of the next deadline.
/// The job's row is locked last, so that concurrent changes do not deadlock.
async fn set_deadline(
    tx: &mut Tx,
    conference: &Conference,
    context: ConferenceContext<'_>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let at = context.timing.map_or(Some(now), |timing| conference.deadline(timing));
    match at.filter(|_| conference.is_live()) {
        Some(at) => jobs::schedule(tx, CONFERENCE_DEADLINE_JOB, [conference.id], at).await?,
        None => jobs::cancel(tx, CONFERENCE_DEADLINE_JOB, conference.id).await?,
    }
    Ok(())
}
