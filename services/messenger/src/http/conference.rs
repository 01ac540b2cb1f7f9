//! Calls in the chats of deals.

use ::db::Lookups;
use ::web::{Both, Check, Fields, Filter, Json, Page, Paging, Several, time as in_query};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, get, post, web};
use auth::{Actor, UserId};
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};
use values::{Invalid, List};

use crate::app::App;
use crate::clients::MediaAccess;
use crate::db;
use crate::db::conference::{ConferenceFilter, ConferenceSort};
use crate::domain::{
    Act, ChatId, Conference, ConferenceId, ConferenceStatus, MOST_INVITED, Media, ParticipantState,
};
use crate::error::{
    CHAT_NOT_FOUND, CONFERENCE_ENDED, CONFERENCE_NOT_FOUND, Error, MEDIA_UNAVAILABLE, PARTICIPANT_NOT_FOUND,
    PARTICIPANT_REMOVED,
};
use crate::ops;
use crate::ops::conference::{moderates, refuse_others};

type Invitees = List<UserId, 1, MOST_INVITED>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct StartConference {
    media: Media,
    /// Distinct, and not oneself. Null: all other members of the chat, the first twenty.
    invite_user_ids: Option<Invitees>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct InviteToConference {
    /// Distinct, and not oneself.
    user_ids: Invitees,
}

/// Others, each once.
///
/// # Errors
/// `400 VALIDATION_FAILED`
fn others(member: &str, users: Invitees, caller: UserId) -> Result<Vec<UserId>, Error> {
    let (users, mut fields) = (users.into_inner(), Fields::default());
    for (at, user) in users.iter().enumerate() {
        let wrong = match user {
            user if *user == caller => Some("oneself"),
            user if users[..at].contains(user) => Some("duplicate"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            fields.check::<()>(&format!("{member}/{at}"), Err(Invalid::new(wrong)));
        }
    }
    Ok(fields.finish(Some(users))?)
}

/// Start a conference.
///
/// It rings those who are invited.
#[utoipa::path(
    tag = "Conferences", params(("chat_id" = ChatId, Path)), request_body = StartConference,
    responses((status = 201, description = "It rings", body = Conference))
)]
#[post("/api/messenger/chats/{chat_id}/conferences")]
pub async fn start_conference(
    app: Data<App>,
    actor: Actor,
    chat: Path<ChatId>,
    Json(body): Json<StartConference>,
) -> Result<HttpResponse, Error> {
    let StartConference { media, invite_user_ids } = body;
    let asked = invite_user_ids.map(|users| others("/InviteUserIds", users, actor.user_id)).transpose()?;
    let (host, terms) = (actor.user_id, app.terms());
    let start = async |tx: &mut _| {
        ops::conference::start_conference(tx, *chat, host, media, asked.as_deref(), terms).await
    };
    Ok(HttpResponse::Created().json(app.db.tx(start).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListConferences {
    /// Separated by commas.
    #[param(value_type = Option<Vec<ConferenceStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<Several<ConferenceStatus>>,
    /// Started then or later.
    #[serde(default, deserialize_with = "in_query")]
    #[param(value_type = Option<OffsetDateTime>)]
    from: Option<OffsetDateTime>,
    /// Started before.
    #[serde(default, deserialize_with = "in_query")]
    #[param(value_type = Option<OffsetDateTime>)]
    to: Option<OffsetDateTime>,
}

impl Check for ListConferences {
    fn check(&self, fields: &mut Fields) {
        fields.range("/To", self.from.as_ref(), self.to.as_ref());
    }
}

/// List the conferences of a chat.
///
/// For its members.
#[utoipa::path(
    tag = "Conferences", params(("chat_id" = ChatId, Path), ListConferences, Paging<ConferenceSort>),
    responses((status = 200, description = "One page", body = Page<Conference>))
)]
#[get("/api/messenger/chats/{chat_id}/conferences")]
pub async fn list_conferences(
    app: Data<App>,
    actor: Actor,
    chat: Path<ChatId>,
    Both(Filter(asked), paging): Both<Filter<ListConferences>, Paging<ConferenceSort>>,
) -> Result<impl Responder, Error> {
    let ListConferences { status, from, to } = asked;
    let filter = ConferenceFilter { statuses: status.map(|statuses| statuses.0), from, to };
    let conn = app.db.conn().await?;
    db::chat::look_up_own(&conn, *chat, actor.user_id).await?.ok_or(CHAT_NOT_FOUND)?;
    Ok(web::Json(db::conference::list(&conn, *chat, &filter, &paging).await?))
}

/// Read a conference.
///
/// For members of its chat, and for moderators.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "The conference", body = Conference))
)]
#[get("/api/messenger/conferences/{conference_id}")]
pub async fn get_conference(
    actor: Actor,
    id: Path<ConferenceId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    let (conference, is_member) = find(&lookups, *id, &actor).await?;
    if !is_member && !moderates(&actor, &conference) {
        return Err(CONFERENCE_NOT_FOUND.into());
    }
    Ok(web::Json(conference))
}

/// Invite to a conference.
///
/// All of them or none. Only the host asks somebody back who was removed.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)), request_body = InviteToConference,
    responses((status = 200, description = "As it is now", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/invite")]
pub async fn invite_to_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
    Json(body): Json<InviteToConference>,
) -> Result<impl Responder, Error> {
    let users = others("/UserIds", body.user_ids, actor.user_id)?;
    let terms = app.terms();
    let invite =
        async |tx: &mut _| ops::conference::invite_to_conference(tx, *id, &actor, &users, terms).await;
    Ok(web::Json(app.db.tx(invite).await?))
}

/// Join a conference.
///
/// A repeat gives a new token and changes nothing.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "The way into its room", body = MediaAccess))
)]
#[post("/api/messenger/conferences/{conference_id}/join")]
pub async fn join_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
) -> Result<impl Responder, Error> {
    let terms = app.terms();
    let join = async |tx: &mut _| ops::conference::join_conference(tx, *id, &actor, terms).await;
    Ok(web::Json(app.db.tx(join).await?))
}

/// Refresh the token for a room.
///
/// For those who are Joined.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "The way into its room", body = MediaAccess))
)]
#[post("/api/messenger/conferences/{conference_id}/media-token")]
pub async fn refresh_media_token(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    let (conference, is_member) = find(&lookups, *id, &actor).await?;
    refuse_others(&actor, &conference, is_member)?;
    let entry = conference.entry(actor.user_id);
    if entry.is_some_and(|entry| entry.is(ParticipantState::Removed)) {
        return Err(PARTICIPANT_REMOVED.into());
    }
    if !conference.is_live() {
        return Err(CONFERENCE_ENDED.into());
    }
    if entry.is_none_or(|entry| !entry.is(ParticipantState::Joined)) {
        return Err(PARTICIPANT_NOT_FOUND.into());
    }
    let livekit = app.reachable_livekit().ok_or(MEDIA_UNAVAILABLE)?;
    Ok(web::Json(ops::media::access(livekit, &conference, actor.user_id)?))
}

/// Leave a conference.
///
/// A call that rings ends when its host leaves.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "As it is now", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/leave")]
pub async fn leave_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
) -> Result<impl Responder, Error> {
    as_member(&app, *id, &actor, Act::Leave(actor.user_id)).await
}

/// Decline an invitation.
///
/// Who has answered already stays where they are.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "As it is now", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/decline")]
pub async fn decline_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
) -> Result<impl Responder, Error> {
    as_member(&app, *id, &actor, Act::Decline(actor.user_id)).await
}

/// Remove a participant.
///
/// By the host or a moderator. Only the host's invitation brings them back.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path), ("user_id" = UserId, Path)),
    responses((status = 200, description = "As it is now", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/participants/{user_id}/remove")]
pub async fn remove_participant(
    app: Data<App>,
    actor: Actor,
    path: Path<(ConferenceId, UserId)>,
) -> Result<impl Responder, Error> {
    let (id, user) = path.into_inner();
    as_moderator(&app, id, &actor, Act::Remove(user)).await
}

/// End a conference for everybody.
///
/// By the host or a moderator.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "As it is now", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/end")]
pub async fn end_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
) -> Result<impl Responder, Error> {
    as_moderator(&app, *id, &actor, Act::End(actor.user_id)).await
}

async fn as_member(
    app: &App,
    id: ConferenceId,
    actor: &Actor,
    act: Act<'_>,
) -> Result<web::Json<Conference>, Error> {
    let terms = app.terms();
    let done = async |tx: &mut _| ops::conference::act_as_member(tx, id, actor, act, terms).await;
    Ok(web::Json(app.db.tx(done).await?))
}

async fn as_moderator(
    app: &App,
    id: ConferenceId,
    actor: &Actor,
    act: Act<'_>,
) -> Result<web::Json<Conference>, Error> {
    let terms = app.terms();
    let done = async |tx: &mut _| ops::conference::act_as_moderator(tx, id, actor, act, terms).await;
    Ok(web::Json(app.db.tx(done).await?))
}

/// A conference, and whether somebody is a member of its chat.
///
/// # Errors
/// [`CONFERENCE_NOT_FOUND`]
async fn find(lookups: &Lookups, id: ConferenceId, actor: &Actor) -> Result<(Conference, bool), Error> {
    let found = lookups.run(async |conn| db::conference::look_up(conn, id).await).await?;
    let conference = found.ok_or(CONFERENCE_NOT_FOUND)?;
    let (chat, user) = (conference.chat_id, actor.user_id);
    let own = lookups.run(async |conn| db::chat::look_up_own(conn, chat, user).await).await?;
    Ok((conference, own.is_some()))
}
