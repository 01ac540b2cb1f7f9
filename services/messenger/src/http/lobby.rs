//! Operations on the lobby of a conference.

use actix_web::web::{Data, Path};
use actix_web::{Responder, post};
use auth::{Actor, UserId};

use super::conference::{apply_as_host, apply_as_member};
use crate::app::App;
use crate::domain::{Action, Conference, ConferenceId};
use crate::error::Error;

/// Knock at a conference.
///
/// The caller waits until the host decides. `Knocks` of the conference has the knock. The request
/// changes nothing for a caller who may join, or who waits already.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path)),
    responses((status = 200, description = "The conference after the request", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/knock")]
pub async fn knock_at_conference(
    app: Data<App>,
    actor: Actor,
    id: Path<ConferenceId>,
) -> Result<impl Responder, Error> {
    apply_as_member(&app, *id, &actor, Action::Knock(actor.user_id)).await
}

/// Admit a waiting user.
///
/// Only the host admits users. The user is Invited and can join. A participant does not change.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path), ("user_id" = UserId, Path)),
    responses((status = 200, description = "The conference after the request", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/participants/{user_id}/admit")]
pub async fn admit_participant(
    app: Data<App>,
    actor: Actor,
    path: Path<(ConferenceId, UserId)>,
) -> Result<impl Responder, Error> {
    let (id, user) = path.into_inner();
    apply_as_host(&app, id, &actor, Action::Admit { user, by: actor.user_id }).await
}

/// Deny the admission of a waiting user.
///
/// Only the host denies admissions. The user can neither knock nor join until the host invites
/// them. A participant does not change.
#[utoipa::path(
    tag = "Conferences", params(("conference_id" = ConferenceId, Path), ("user_id" = UserId, Path)),
    responses((status = 200, description = "The conference after the request", body = Conference))
)]
#[post("/api/messenger/conferences/{conference_id}/participants/{user_id}/deny")]
pub async fn deny_participant(
    app: Data<App>,
    actor: Actor,
    path: Path<(ConferenceId, UserId)>,
) -> Result<impl Responder, Error> {
    let (id, user) = path.into_inner();
    apply_as_host(&app, id, &actor, Action::Deny { user, by: actor.user_id }).await
}
