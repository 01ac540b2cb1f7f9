//! Operations on conferences in deal chats.

use ::db::PipelinedConn;
use ::web::{Both, Check, CheckedQuery, CommaSeparated, Fields, Json, Page, Paging, read_time};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, get, post, web};
use auth::{Actor, UserId};
use serde::Deserialize;
use service::{Idempotency, Reply};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};
use values::{Invalid, List};

use crate::app::App;
use crate::clients::MediaAccess;
use crate::db;
use crate::db::conference::{ConferenceFilter, ConferenceSort};
use crate::domain::limits::MAX_INVITATIONS;
use crate::domain::{Action, ChatId, Conference, ConferenceId, ConferenceStatus, Media};
use crate::error::{CHAT_NOT_FOUND, CONFERENCE_NOT_FOUND, Error};
use crate::ops;
use crate::ops::conference::is_moderator;

type Invitees = List<UserId, 1, MAX_INVITATIONS>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct StartConference {
    media: Media,
    /// Distinct users, not including the caller. `null` invites the other members of the chat, at
    /// most the first twenty by `JoinedAt`.
    invite_user_ids: Option<Invitees>,
    /// True if members without an invitation have to knock. The default is false.
    lobby: Option<bool>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct InviteToConference {
    /// Distinct users, not including the caller.
    user_ids: Invitees,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HandOverConference {
    /// The new host, who is Joined.
    user_id: UserId,
}

/// Checks that users are distinct and do not include the caller, and returns them.
///
/// # Errors
/// `400 VALIDATION_FAILED`: a user is repeated or is the caller.
fn check_invitees(member: &str, users: Invitees, caller: UserId) -> Result<Vec<UserId>, Error> {
    let (users, mut fields) = (users.into_inner(), Fields::default());
    for (at, user) in users.iter().enumerate() {
        let reason = match user {
            user if *user == caller => Some("oneself"),
            user if users[..at].contains(user) => Some("duplicate"),
            _ => None,
        };
        if let Some(reason) = reason {
            fields.check::<()>(&format!("{member}/{at}"), Err(Invalid::new(reason)));
        }
    }
    Ok(fields.finish(Some(users))?)
}

/// Start a conference.
///
/// The caller becomes the host and is Joined. The invited users are Invited, and their devices
/// ring. The response has no media access: call `join` next, also as the host. A user starts at
/// most ten conferences in a chat within ten minutes.
#[utoipa::path(
    tag = "Conferences", params(("chat_id" = ChatId, Path)), request_body = StartConference,
    responses((status = 201, description = "The ringing conference", body = Conference,
            headers(("Location" = String, description = "The conference"))))
)]
#[post("/api/messenger/chats/{chat_id}/conferences")]
pub async fn start_conference(
    app: Data<App>,
    actor: Actor,
    chat: Path<ChatId>,
    idempotency: Idempotency,
    Json(body): Json<StartConference>,
) -> Result<HttpResponse, Error> {
    let StartConference { media, invite_user_ids, lobby } = body;
    let host = actor.user_id;
    let requested = invite_user_ids.map(|users| check_invitees("/InviteUserIds", users, host)).transpose()?;
    let (has_lobby, context) = (lobby.unwrap_or_default(), app.conference_context());
    let start = async |tx: &mut _| {
        let invitees = requested.as_deref();
        let started =
            ops::conference::start_conference(tx, *chat, host, media, invitees, has_lobby, context).await?;
        let location = format!("/api/messenger/conferences/{}", started.id);
        Ok(Reply::created(started).at(location))
    };
    idempotency.run(&app.db, start).await
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListConferences {
    /// Statuses, separated by commas.
    #[param(value_type = Option<Vec<ConferenceStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<CommaSeparated<ConferenceStatus>>,
    /// Lower bound of `CreatedAt`, inclusive.
    #[serde(default, deserialize_with = "read_time")]
    #[param(value_type = Option<OffsetDateTime>)]
    from: Option<OffsetDateTime>,
    /// Upper bound of `CreatedAt`, exclusive.
    #[serde(default, deserialize_with = "read_time")]
    #[param(value_type = Option<OffsetDateTime>)]
    to: Option<OffsetDateTime>,
}

impl Check for ListConferences {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/To", self.from.as_ref(), self.to.as_ref());
    }
}

/// List the conferences of a chat.
///
/// Only members of the chat see the list. It is empty for a Direct chat.
#[utoipa::path(
    tag = "Conferences", params(("chat_id" = ChatId, Path), ListConferences, Paging<ConferenceSort>),
    responses((status = 200, description = "One page", body = Page<Conference>))
)]
#[get("/api/messenger/chats/{chat_id}/conferences")]
pub async fn list_conferences(
    app: Data<App>,
    actor: Actor,
    chat: Path<ChatId>,
    Both(CheckedQuery(query), paging): Both<CheckedQuery<ListConferences>, Paging<ConferenceSort>>,
) -> Result<impl Responder, Error> {
    let ListConferences { status, from, to } = query;
    let filter = ConferenceFilter { statuses: status.map(|statuses| statuses.0), from, to };
    let conn = app.db.conn().await?;
    db::chat::look_up_last_sequence(&conn, *chat, actor.user_id).await?.ok_or(CHAT_NOT_FOUND)?;
    Ok(web::Json(db::conference::list(&conn, *chat, &filter, &paging).await?))
}

/// Read a conference.
///
/// Members of the chat and moderators see a conference.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "The conference", body = Conference))
)]
#[get("/api/messenger/conferences/{conference_id}")]
pub async fn get_conference(
    actor: Actor,
    id: Path<ConferenceId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let (conference, is_member) = find(&lookups, *id, &actor).await?;
    if !is_member && !is_moderator(&actor, &conference) {
        return Err(CONFERENCE_NOT_FOUND.into());
    }
    Ok(web::Json(conference))
}

/// Invite to a conference.
///
/// Invites all users or none. Users who are Invited or Joined, and the host, keep their state.
/// Only the host can invite a Removed participant, or a user whose admission was denied.
/// In a conference with a lobby, the caller needs an invitation or an admission.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)), request_body = InviteToConference,
    responses((status = 200, description = "The conference after the request", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/invite")]
pub async fn invite_to_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
    Json(body): Json<InviteToConference>,
) -> Result<impl Responder, Error> {
    let users = check_invitees("/UserIds", body.user_ids, actor.user_id)?;
    let context = app.conference_context();
    let invite =
        async |tx: &mut _| ops::conference::invite_to_conference(tx, *id, &actor, &users, context).await;
    Ok(web::Json(app.db.tx(invite).await?))
}

/// Join a conference.
///
/// The caller is Joined. The response has the address, the room and the token for an SDK of
/// LiveKit. A repeat returns a new token and changes nothing. In a conference with a lobby, a
/// caller without an invitation knocks first.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "The access to the room", body = MediaAccess))
)]
#[post("/api/messenger/conferences/{conference_id}/join")]
pub async fn join_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
) -> Result<impl Responder, Error> {
    let context = app.conference_context();
    let join = async |tx: &mut _| ops::conference::join_conference(tx, *id, &actor, context).await;
    Ok(web::Json(app.db.tx(join).await?))
}

/// Refresh the media token.
///
/// Returns a new token, for a connection after `ExpiresAt` of the last one. The caller is Joined,
/// or is Left because a connection broke. The state does not change: the caller is Joined when the
/// connection begins.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "The access to the room", body = MediaAccess))
)]
#[post("/api/messenger/conferences/{conference_id}/media-token")]
pub async fn refresh_media_token(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
) -> Result<impl Responder, Error> {
    let context = app.conference_context();
    let refresh = async |tx: &mut _| ops::conference::refresh_media_token(tx, *id, &actor, context).await;
    Ok(web::Json(app.db.tx(refresh).await?))
}

/// Leave a conference.
///
/// Only a Joined caller becomes Left. A Ringing conference ends when its host leaves.
/// A caller who waits in the lobby waits no longer.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "The conference after the request", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/leave")]
pub async fn leave_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
) -> Result<impl Responder, Error> {
    apply_as_member(&app, *id, &actor, Action::Leave(actor.user_id)).await
}

/// Decline an invitation.
///
/// Only an Invited caller becomes Declined. Any other state stays.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "The conference after the request", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/decline")]
pub async fn decline_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
) -> Result<impl Responder, Error> {
    apply_as_member(&app, *id, &actor, Action::Decline(actor.user_id)).await
}

/// Remove a participant.
///
/// The host and moderators can remove participants. Only the host can invite a Removed participant
/// again.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path), ("user_id" = UserId, Path)),
    responses((status = 200, description = "The conference after the request", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/participants/{user_id}/remove")]
pub async fn remove_participant(
    app: Data<App>,
    actor: Actor,
    path: Path<(ConferenceId, UserId)>,
) -> Result<impl Responder, Error> {
    let (id, user) = path.into_inner();
    apply_as_host_or_moderator(&app, id, &actor, Action::Remove(user)).await
}

/// End a conference.
///
/// The host and moderators can end a conference. A repeat changes nothing.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "The conference after the request", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/end")]
pub async fn end_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
) -> Result<impl Responder, Error> {
    apply_as_host_or_moderator(&app, *id, &actor, Action::End(actor.user_id)).await
}

/// Hand over a conference.
///
/// Only the host can hand over the conference, to a Joined participant. The caller stays a
/// participant.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)), request_body = HandOverConference,
    responses((status = 200, description = "The conference after the request", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/hand-over")]
pub async fn hand_over_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
    Json(body): Json<HandOverConference>,
) -> Result<impl Responder, Error> {
    let mut fields = Fields::default();
    if body.user_id == actor.user_id {
        fields.check::<()>("/UserId", Err(Invalid::new("oneself")));
    }
    let to = fields.finish(Some(body.user_id))?;
    apply_as_host(&app, *id, &actor, Action::HandOver { from: actor.user_id, to }).await
}

pub(super) async fn apply_as_member(
    app: &App,
    id: ConferenceId,
    actor: &Actor,
    action: Action<'_>,
) -> Result<web::Json<Conference>, Error> {
    let context = app.conference_context();
    let apply = async |tx: &mut _| ops::conference::act_as_member(tx, id, actor, action, context).await;
    Ok(web::Json(app.db.tx(apply).await?))
}

async fn apply_as_host_or_moderator(
    app: &App,
    id: ConferenceId,
    actor: &Actor,
    action: Action<'_>,
) -> Result<web::Json<Conference>, Error> {
    let context = app.conference_context();
    let apply =
        async |tx: &mut _| ops::conference::act_as_host_or_moderator(tx, id, actor, action, context).await;
    Ok(web::Json(app.db.tx(apply).await?))
}

pub(super) async fn apply_as_host(
    app: &App,
    id: ConferenceId,
    actor: &Actor,
    action: Action<'_>,
) -> Result<web::Json<Conference>, Error> {
    let context = app.conference_context();
    let apply = async |tx: &mut _| ops::conference::act_as_host(tx, id, actor, action, context).await;
    Ok(web::Json(app.db.tx(apply).await?))
}

/// Returns a conference, and true if the actor is a member of its chat.
///
/// # Errors
/// [`CONFERENCE_NOT_FOUND`]: the conference does not exist.
async fn find(lookups: &PipelinedConn, id: ConferenceId, actor: &Actor) -> Result<(Conference, bool), Error> {
    let found = lookups.run(async |conn| db::conference::look_up(conn, id).await).await?;
    let conference = found.ok_or(CONFERENCE_NOT_FOUND)?;
    let (chat, user) = (conference.chat_id, actor.user_id);
    let own = lookups.run(async |conn| db::chat::look_up_last_sequence(conn, chat, user).await).await?;
    Ok((conference, own.is_some()))
}
