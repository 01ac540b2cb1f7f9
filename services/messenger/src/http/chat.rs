//! Operations on chats, for members and supervisors.

use std::future::{Ready, ready};

use ::db::Tx;
use ::web::{Both, CommaSeparated, Fields, FromQuery, Json, Page, Paging, Problem, Query};
use actix_web::dev::Payload;
use actix_web::web::{Data, Path};
use actix_web::{FromRequest, HttpRequest, HttpResponse, Responder, get, post, put, web};
use auth::{Actor, Permission, Reach, UserId};
use serde::{Deserialize, Serialize};
use service::{Idempotency, Reply};
use utoipa::{IntoParams, ToSchema};
use values::{Invalid, Whole};

use crate::app::App;
use crate::db;
use crate::db::chat_view::{ChatFilter, ChatSort, ChatView, Unread};
use crate::domain::{ChatId, ChatKind, DealId, SuperviseChats, Viewer};
use crate::error::{CHAT_NOT_FOUND, Error};
use crate::ops;

values::text_enum! {
    /// The chats of a list, if they are not the caller's own chats.
    pub enum ChatScope {
        /// The deal chats that the caller supervises.
        Tenant,
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListChats {
    /// Kinds of chats, separated by commas.
    #[param(value_type = Option<Vec<ChatKind>>, inline, min_items = 1, style = Form, explode = false)]
    kind: Option<CommaSeparated<ChatKind>>,
    deal_id: Option<DealId>,
    /// `true` keeps chats with unread messages. `false` does not filter.
    #[serde(default)]
    unread: bool,
    /// `true` keeps chats with a live conference. `false` does not filter.
    #[serde(default)]
    live: bool,
    /// `Tenant` lists the deal chats that the caller supervises instead of the caller's own chats.
    #[param(inline)]
    scope: Option<ChatScope>,
}

/// List own chats.
///
/// With `Scope=Tenant` the list has the deal chats that the caller supervises.
#[utoipa::path(
    tag = "Chats", params(ListChats, Paging<ChatSort>),
    responses((status = 200, description = "One page", body = Page<ChatView>))
)]
#[get("/api/messenger/chats")]
pub async fn list_chats(
    app: Data<App>,
    ChatListCaller { user_id: user, supervised }: ChatListCaller,
    Both(Query(query), paging): Both<Query<ListChats>, Paging<ChatSort>>,
) -> Result<impl Responder, Error> {
    let ListChats { kind, deal_id, unread, live, scope } = query;
    let filter = ChatFilter { kinds: kind.map(|kinds| kinds.0), deal_id, unread, live };
    let conn = app.db.conn().await?;
    let page = match scope.and(supervised) {
        None => db::chat_view::list_own(&conn, user, &filter, &paging).await?,
        Some(reach) => db::chat_view::list_supervised(&conn, user, reach, &filter, &paging).await?,
    };
    Ok(web::Json(page))
}

/// The caller of a list of chats, with the supervised companies if the query has `Scope=Tenant`.
/// A caller who supervises nothing is refused before the rest of the query is checked.
pub struct ChatListCaller {
    user_id: UserId,
    supervised: Option<Reach>,
}

impl FromRequest for ChatListCaller {
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
            // An invalid scope is refused later, with the rest of the query.
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

/// Count unread messages.
///
/// Counts the unread messages of all own chats, and the chats that have some.
#[utoipa::path(tag = "Chats", responses((status = 200, description = "The counts", body = Unread)))]
#[get("/api/messenger/unread")]
pub async fn count_unread(app: Data<App>, actor: Actor) -> Result<impl Responder, Error> {
    Ok(web::Json(db::chat_view::count_unread(&mut *app.db.conn().await?, actor.user_id).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct OpenChat {
    /// The other user.
    user_id: UserId,
}

/// Open a Direct chat.
///
/// Both users have to be members of one deal chat. A Direct chat stays when they no longer share
/// one.
/// A caller who left the chat becomes a member again, if the users share a deal chat now.
#[utoipa::path(
    tag = "Chats", request_body = OpenChat,
    responses(
        (status = 200, description = "The existing chat", body = ChatView),
        (status = 201, description = "The new chat", body = ChatView,
            headers(("Location" = String, description = "The chat"))),
    )
)]
#[post("/api/messenger/chats")]
pub async fn open_chat(
    app: Data<App>,
    actor: Actor,
    idempotency: Idempotency,
    Json(OpenChat { user_id: other }): Json<OpenChat>,
) -> Result<HttpResponse, Error> {
    let by = actor.user_id;
    let mut fields = Fields::default();
    fields.check("/UserId", if other == by { Err(Invalid::new("oneself")) } else { Ok(()) });
    fields.finish(Some(()))?;
    let open = async |tx: &mut Tx| {
        let (id, is_new) = ops::direct::open_direct(tx, by, other).await?;
        let view = db::chat_view::load_view(tx.conn(), by, id).await?.ok_or(CHAT_NOT_FOUND)?;
        let location = format!("/api/messenger/chats/{id}");
        Ok(if is_new { Reply::created(view).at(location) } else { Reply::existing(view) })
    };
    idempotency.run(&app.db, open).await
}

/// Read a chat.
///
/// A supervisor who is not a member sees neither `LastMessage` nor `LiveConferenceId`.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path)),
    responses((status = 200, description = "The chat", body = ChatView))
)]
#[get("/api/messenger/chats/{chat_id}")]
pub async fn get_chat(app: Data<App>, actor: Actor, id: Path<ChatId>) -> Result<impl Responder, Error> {
    let viewer = Viewer::of(&actor);
    let view = db::chat_view::load_view(&*app.db.conn().await?, viewer.user_id, *id).await?;
    let is_visible = |view: &ChatView| {
        view.members.iter().any(|member| member.user_id == viewer.user_id)
            || viewer.supervises(view.tenant_id)
    };
    Ok(web::Json(view.filter(is_visible).ok_or(CHAT_NOT_FOUND)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReadChat {
    /// `Sequence` of the newest message that the caller has read.
    sequence: Whole<0, { i64::MAX }>,
}

/// The caller's read marker.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReadMarker {
    chat_id: ChatId,
    /// `Sequence` of the last message that the user has read.
    #[schema(minimum = 0)]
    read_sequence: i64,
    /// Number of messages after the marker.
    #[schema(minimum = 0)]
    unread_count: i64,
}

/// Set the read marker.
///
/// The marker only rises. A `Sequence` above the newest message counts as the newest message.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path)),
    request_body = ReadChat,
    responses((status = 200, description = "The marker after the request", body = ReadMarker))
)]
#[put("/api/messenger/chats/{chat_id}/read")]
pub async fn read_chat(
    app: Data<App>,
    actor: Actor,
    id: Path<ChatId>,
    body: Json<ReadChat>,
) -> Result<impl Responder, Error> {
    let (reader, sequence) = (actor.user_id, body.0.sequence.get());
    let read = async |tx: &mut _| ops::chat::raise_read_marker(tx, reader, *id, sequence).await;
    let marker = app.db.tx(read).await?;
    let (read_sequence, unread_count) = (marker.read_sequence, marker.last_sequence - marker.read_sequence);
    Ok(web::Json(ReadMarker { chat_id: *id, read_sequence, unread_count }))
}
