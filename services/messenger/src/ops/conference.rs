//! What members, moderators and time do with conferences. Those of one chat take turns on its row.

use ::db::Tx;
use auth::{Actor, UserId};
use messaging::outbox;
use time::OffsetDateTime;
use web::Problem;

use super::media;
use super::message::post_card;
use super::stream::tell;
use crate::clients::{LiveKit, MediaAccess};
use crate::db;
use crate::domain::{
    Act, Card, Chat, ChatId, Conference, ConferenceCard, ConferenceId, Media, ParticipantState, Place,
    Timing, Told, moderation, rung,
};
use crate::error::{
    CHAT_NOT_DEAL, CHAT_NOT_FOUND, CONFERENCE_ALREADY_ACTIVE, CONFERENCE_NOT_FOUND, Error, FORBIDDEN,
    MEDIA_UNAVAILABLE,
};
use crate::events::{ConferenceEnded, ConferenceInvited, ConferenceStarted};

/// The job that does to a conference what time does, by its id.
pub const CONFERENCE_DEADLINE: &str = "conference-deadline";

/// What a change of a conference is made under.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// `None`: not known here; the conference's job sets its deadline, at once.
    pub timing: Option<&'a Timing>,
    /// `None`: nobody could hear anybody.
    pub livekit: Option<&'a LiveKit>,
}

impl<'a> Terms<'a> {
    /// # Errors
    /// [`MEDIA_UNAVAILABLE`]
    fn livekit(&self) -> Result<&'a LiveKit, Error> {
        Ok(self.livekit.ok_or(MEDIA_UNAVAILABLE)?)
    }
}

/// # Errors
/// [`CHAT_NOT_FOUND`], [`CHAT_NOT_DEAL`], [`PARTICIPANT_NOT_FOUND`](crate::error::PARTICIPANT_NOT_FOUND),
/// [`CONFERENCE_ALREADY_ACTIVE`], [`MEDIA_UNAVAILABLE`]
pub async fn start_conference(
    tx: &mut Tx,
    chat: ChatId,
    host: UserId,
    media: Media,
    asked: Option<&[UserId]>,
    terms: Terms<'_>,
) -> Result<Conference, Error> {
    let chat = db::chat::lock(tx, chat).await?.filter(|chat| chat.member(host).is_some());
    let chat = chat.ok_or(CHAT_NOT_FOUND)?;
    let (deal_id, tenant_id) = chat.deal_id.zip(chat.tenant_id).ok_or(CHAT_NOT_DEAL)?;
    let rung = rung(host, asked, &chat.user_ids())?;
    if let Some(live) = db::conference::live(tx, chat.id).await? {
        return Err(Problem::from(CONFERENCE_ALREADY_ACTIVE).showing(live.id.to_string()).into());
    }
    terms.livekit()?;
    let place = Place { chat_id: chat.id, deal_id, tenant_id };
    let conference = Conference::start(place, media, host, &rung, chat.now);
    db::conference::insert(tx, &conference).await?;
    outbox::append(tx, &ConferenceStarted::of(&conference)).await?;
    tell(tx, &chat, Told::Conference(conference.id)).await?;
    set_deadline(tx, &conference, terms, chat.now).await?;
    Ok(conference)
}

/// What somebody does who has to be a member of the chat.
///
/// # Errors
/// [`CONFERENCE_NOT_FOUND`], [`FORBIDDEN`] to a moderator who is none, and those of
/// [`decide`](Conference::decide).
pub async fn act_as_member(
    tx: &mut Tx,
    id: ConferenceId,
    actor: &Actor,
    act: Act<'_>,
    terms: Terms<'_>,
) -> Result<Conference, Error> {
    let (mut chat, conference) = lock_for_member(tx, id, actor).await?;
    change(tx, &mut chat, &conference, act, terms).await
}

/// Asks people in: all of them or none.
///
/// # Errors
/// As [`act_as_member`].
pub async fn invite_to_conference(
    tx: &mut Tx,
    id: ConferenceId,
    actor: &Actor,
    users: &[UserId],
    terms: Terms<'_>,
) -> Result<Conference, Error> {
    let (mut chat, conference) = lock_for_member(tx, id, actor).await?;
    let members = chat.user_ids();
    let act = Act::Invite { by: actor.user_id, users, members: &members };
    change(tx, &mut chat, &conference, act, terms).await
}

/// # Errors
/// As [`act_as_member`], and [`MEDIA_UNAVAILABLE`].
pub async fn join_conference(
    tx: &mut Tx,
    id: ConferenceId,
    actor: &Actor,
    terms: Terms<'_>,
) -> Result<MediaAccess, Error> {
    let (mut chat, conference) = lock_for_member(tx, id, actor).await?;
    let act = Act::Join(actor.user_id);
    // Who cannot come in for another reason is told that one.
    conference.decide(act.clone(), chat.now)?;
    let livekit = terms.livekit()?;
    let joined = change(tx, &mut chat, &conference, act, terms).await?;
    media::access(livekit, &joined, actor.user_id)
}

/// What its host may do, and whoever moderates it.
///
/// # Errors
/// [`CONFERENCE_NOT_FOUND`], [`FORBIDDEN`], and those of [`decide`](Conference::decide).
pub async fn act_as_moderator(
    tx: &mut Tx,
    id: ConferenceId,
    actor: &Actor,
    act: Act<'_>,
    terms: Terms<'_>,
) -> Result<Conference, Error> {
    let (mut chat, conference) = lock(tx, id).await?.ok_or(CONFERENCE_NOT_FOUND)?;
    let is_member = chat.member(actor.user_id).is_some();
    if !moderates(actor, &conference) {
        if !is_member {
            return Err(CONFERENCE_NOT_FOUND.into());
        }
        if conference.started_by_user_id != actor.user_id {
            return Err(FORBIDDEN.into());
        }
    }
    change(tx, &mut chat, &conference, act, terms).await
}

/// What becomes of the live conference of a chat, which is locked, when somebody is no member of it any more.
///
/// # Errors
/// Those of the database.
pub async fn member_gone(
    tx: &mut Tx,
    chat: &mut Chat,
    user: UserId,
    by: Option<UserId>,
) -> Result<(), Error> {
    let terms = Terms { timing: None, livekit: None };
    if let Some(live) = db::conference::live(tx, chat.id).await? {
        change(tx, chat, &live, Act::Depart { user, by }, terms).await?;
    }
    Ok(())
}

/// Something that LiveKit has told of a conference, if it is one of ours.
///
/// # Errors
/// Those of the database.
pub async fn hear(tx: &mut Tx, id: ConferenceId, act: Act<'_>, terms: Terms<'_>) -> Result<(), Error> {
    if let Some((mut chat, conference)) = lock(tx, id).await? {
        change(tx, &mut chat, &conference, act, terms).await?;
    }
    Ok(())
}

/// What time does to a conference: by the clock by which its job is due.
///
/// # Errors
/// Those of the database.
pub async fn expire(tx: &mut Tx, id: ConferenceId, timing: &Timing) -> Result<(), Error> {
    if let Some((mut chat, conference)) = lock(tx, id).await? {
        let terms = Terms { timing: Some(timing), livekit: None };
        let left = change(tx, &mut chat, &conference, Act::Expire(timing), terms).await?;
        // Also where nothing was due yet: this run's job is done.
        set_deadline(tx, &left, terms, chat.now).await?;
    }
    Ok(())
}

/// Whether somebody may see and end any conference of this one's company.
pub fn moderates(actor: &Actor, conference: &Conference) -> bool {
    moderation(actor).is_some_and(|reach| reach.covers(conference.tenant_id))
}

/// A conference that nobody changes until the transaction ends, with its chat.
async fn lock(tx: &mut Tx, id: ConferenceId) -> Result<Option<(Chat, Conference)>, Error> {
    let Some(chat) = db::conference::chat_of(tx, id).await? else { return Ok(None) };
    let chat = db::chat::lock(tx, chat).await?;
    Ok(chat.zip(db::conference::read(tx, id).await?))
}

/// # Errors
/// [`CONFERENCE_NOT_FOUND`], [`FORBIDDEN`]
async fn lock_for_member(tx: &mut Tx, id: ConferenceId, actor: &Actor) -> Result<(Chat, Conference), Error> {
    let (chat, conference) = lock(tx, id).await?.ok_or(CONFERENCE_NOT_FOUND)?;
    refuse_others(actor, &conference, chat.member(actor.user_id).is_some())?;
    Ok((chat, conference))
}

/// What is for members of the chat alone.
///
/// # Errors
/// [`FORBIDDEN`] to whoever may see it, else [`CONFERENCE_NOT_FOUND`]
pub fn refuse_others(actor: &Actor, conference: &Conference, is_member: bool) -> Result<(), Error> {
    match (is_member, moderates(actor, conference)) {
        (true, _) => Ok(()),
        (false, true) => Err(FORBIDDEN.into()),
        (false, false) => Err(CONFERENCE_NOT_FOUND.into()),
    }
}

/// Decides, writes, and tells all who have to hear of it.
async fn change(
    tx: &mut Tx,
    chat: &mut Chat,
    before: &Conference,
    act: Act<'_>,
    terms: Terms<'_>,
) -> Result<Conference, Error> {
    let by = match act {
        Act::Invite { by, .. } => Some(by),
        _ => None,
    };
    let (timing, now) = (terms.timing, chat.now);
    let decision = before.decide(act, now)?;
    let (is_seen, ends) = (decision.is_seen(before), decision.ends(before));
    let after = decision.conference;
    if after != *before {
        db::conference::save(tx, &after).await?;
    }
    if let Some(by) = by.filter(|_| !decision.invited.is_empty()) {
        outbox::append(tx, &ConferenceInvited::of(&after, decision.invited, by, now)).await?;
    }
    if let Some(ended) = ConferenceEnded::of(&after).filter(|_| ends) {
        outbox::append(tx, &ended).await?;
        let card = ConferenceCard {
            conference_id: after.id,
            media: after.media,
            end_reason: ended.end_reason,
            duration_seconds: after.duration_seconds(),
        };
        post_card(tx, chat, Card::ConferenceEnded(card), &before.users(ParticipantState::Joined)).await?;
    }
    if is_seen {
        tell(tx, chat, Told::Conference(after.id)).await?;
    }
    media::order(tx, after.id, &decision.orders, now).await?;
    let is_moved = timing.is_none_or(|timing| after.deadline(timing) != before.deadline(timing));
    if is_moved && is_seen {
        set_deadline(tx, &after, terms, now).await?;
    }
    Ok(after)
}

/// When time is to look at it next. Comes after all other locks.
async fn set_deadline(
    tx: &mut Tx,
    conference: &Conference,
    terms: Terms<'_>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let at = terms.timing.map_or(Some(now), |timing| conference.deadline(timing));
    match at.filter(|_| conference.is_live()) {
        Some(at) => jobs::schedule(tx, CONFERENCE_DEADLINE, [conference.id], at).await?,
        None => jobs::cancel(tx, CONFERENCE_DEADLINE, conference.id).await?,
    }
    Ok(())
}
