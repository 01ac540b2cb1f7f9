//! Chats, for those who are in them and for those who supervise them.

use std::future::{Ready, ready};

use ::web::{Both, Fields, FromQuery, Json, Page, Paging, Problem, Query, Several};
use actix_web::dev::Payload;
use actix_web::web::{Data, Path};
use actix_web::{FromRequest, HttpRequest, HttpResponse, Responder, get, post, put, web};
use auth::{Actor, Permission, Reach, UserId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use values::{Invalid, Whole};

use crate::app::App;
use crate::db;
use crate::db::chat_view::{ChatFilter, ChatSort, ChatView, Unread};
use crate::domain::{ChatId, ChatKind, DealId, SuperviseChats, Viewer};
use crate::error::{CHAT_NOT_FOUND, Error};
use crate::ops;

values::text_enum! {
    /// Whose chats.
    pub enum ChatScope {
        /// Those that the caller supervises.
        Tenant,
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListChats {
    /// Separated by commas.
    #[param(value_type = Option<Vec<ChatKind>>, inline, min_items = 1, style = Form, explode = false)]
    kind: Option<Several<ChatKind>>,
    deal_id: Option<DealId>,
    /// `true`: with messages that the caller has not read.
    #[serde(default)]
    unread: bool,
    /// `true`: with a live conference.
    #[serde(default)]
    live: bool,
    /// `Tenant`: not those whose member the caller is, but those that the caller supervises.
    #[param(inline)]
    scope: Option<ChatScope>,
}

/// List my chats.
///
/// Supervisors list the deal chats that they supervise by `Scope=Tenant`.
#[utoipa::path(
    tag = "Chats", params(ListChats, Paging<ChatSort>),
    responses((status = 200, description = "One page", body = Page<ChatView>))
)]
#[get("/api/messenger/chats")]
pub async fn list_chats(
    app: Data<App>,
    Lister { user_id: user, supervised }: Lister,
    Both(Query(asked), paging): Both<Query<ListChats>, Paging<ChatSort>>,
) -> Result<impl Responder, Error> {
    let ListChats { kind, deal_id, unread, live, scope } = asked;
    let filter = ChatFilter { kinds: kind.map(|kinds| kinds.0), deal_id, unread, live };
    let conn = app.db.conn().await?;
    let page = match scope.and(supervised) {
        None => db::chat_view::list_own(&conn, user, &filter, &paging).await?,
        Some(reach) => db::chat_view::list_supervised(&conn, user, reach, &filter, &paging).await?,
    };
    Ok(web::Json(page))
}

/// Who lists chats, and how far they supervise, where that is asked for. Who does not is refused whatever else the query has.
pub struct Lister {
    user_id: UserId,
    supervised: Option<Reach>,
}

impl FromRequest for Lister {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Scoped {
            scope: Option<ChatScope>,
        }
        let actor = Actor::from_request(request, payload).into_inner();
        ready(actor.and_then(|actor| {
            // One that cannot be read is refused with the rest of the query.
            let scope =
                Query::<Scoped>::from_query(request.query_string()).ok().and_then(|query| query.0.scope);
            let supervised = match scope {
                Some(ChatScope::Tenant) => {
                    Some(SuperviseChats::granted(&actor).ok_or_else(Problem::forbidden)?)
                }
                None => None,
            };
            Ok(Self { user_id: actor.user_id, supervised })
        }))
    }
}

/// Count what I have not read.
///
/// In all of my chats together: how many of them have something new, and how much.
#[utoipa::path(tag = "Chats", responses((status = 200, description = "The badge", body = Unread)))]
#[get("/api/messenger/unread")]
pub async fn count_unread(app: Data<App>, actor: Actor) -> Result<impl Responder, Error> {
    Ok(web::Json(db::chat_view::unread(&mut *app.db.conn().await?, actor.user_id).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct OpenChat {
    /// With whom.
    user_id: UserId,
}

/// Open the chat with another person.
///
/// Of two who meet in some deal's chat; once it is there, it stays.
#[utoipa::path(
    tag = "Chats", request_body(content = OpenChat, description = "At most 256 KiB."),
    responses(
        (status = 200, description = "It was there already", body = ChatView),
        (status = 201, description = "Opened", body = ChatView),
    )
)]
#[post("/api/messenger/chats")]
pub async fn open_chat(
    app: Data<App>,
    actor: Actor,
    Json(OpenChat { user_id: with }): Json<OpenChat>,
) -> Result<HttpResponse, Error> {
    let by = actor.user_id;
    let mut fields = Fields::default();
    fields.check("/UserId", if with == by { Err(Invalid::new("oneself")) } else { Ok(()) });
    fields.finish(Some(()))?;
    let (id, is_new) = app.db.tx(async |tx| ops::chat::open_direct(tx, by, with).await).await?;
    let view = db::chat_view::view(&*app.db.conn().await?, by, id).await?.ok_or(CHAT_NOT_FOUND)?;
    let mut answer = if is_new { HttpResponse::Created() } else { HttpResponse::Ok() };
    Ok(answer.json(view))
}

/// Read a chat.
///
/// Supervisors who are no members see neither its last message nor its conference.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path)),
    responses((status = 200, description = "The chat", body = ChatView))
)]
#[get("/api/messenger/chats/{chat_id}")]
pub async fn get_chat(app: Data<App>, actor: Actor, id: Path<ChatId>) -> Result<impl Responder, Error> {
    let viewer = Viewer::of(&actor);
    let view = db::chat_view::view(&*app.db.conn().await?, viewer.user_id, *id).await?;
    let is_seen = |view: &ChatView| {
        view.members.iter().any(|member| member.user_id == viewer.user_id)
            || viewer.supervises(view.tenant_id)
    };
    Ok(web::Json(view.filter(is_seen).ok_or(CHAT_NOT_FOUND)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReadChat {
    /// Of the message up to which all was read.
    sequence: Whole<0, { i64::MAX }>,
}

/// How far somebody has read.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReadMarker {
    chat_id: ChatId,
    #[schema(minimum = 0)]
    read_sequence: i64,
    #[schema(minimum = 0)]
    unread_count: i64,
}

/// Say how far I have read.
///
/// The marker only rises, up to the last message.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path)),
    request_body(content = ReadChat, description = "At most 256 KiB."),
    responses((status = 200, description = "As it is now", body = ReadMarker))
)]
#[put("/api/messenger/chats/{chat_id}/read")]
pub async fn read_chat(
    app: Data<App>,
    actor: Actor,
    id: Path<ChatId>,
    body: Json<ReadChat>,
) -> Result<impl Responder, Error> {
    let (reader, sequence) = (actor.user_id, body.0.sequence.get());
    let read = async |tx: &mut _| ops::chat::read(tx, reader, *id, sequence).await;
    let marker = app.db.tx(read).await?;
    let (read_sequence, unread_count) = (marker.read_sequence, marker.last_sequence - marker.read_sequence);
    Ok(web::Json(ReadMarker { chat_id: *id, read_sequence, unread_count }))
}
