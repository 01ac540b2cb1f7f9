//! Publishing and unpublishing at a time.

use ::db::PipelinedConn;
use ::web::{Json, Problem};
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, put};
use auth::Actor;
use serde::Deserialize;
use utoipa::ToSchema;
use values::{FieldError, Invalid, Moment};

use super::post::run_change;
use super::post_view::PostView;
use crate::app::App;
use crate::domain::PostId;
use crate::error::Error;
use crate::ops;
use crate::ops::schedule::NewSchedule;

/// The times of the next moves of a post. An absent or null time means no move.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SchedulePost {
    /// Time at which the post is published. A time in the past publishes at once.
    publish_at: Option<Moment>,
    /// Time at which the post is unpublished, after `PublishAt`.
    unpublish_at: Option<Moment>,
    /// The version that the caller read. Another stored version returns 409, unless the caller has
    /// already set the same times.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Schedule the publication of a post.
///
/// Replaces both times. The service makes each move once, within seconds after its time by the
/// clock of the database. A move that is not possible by then clears the schedule: the post keeps
/// its status, and `ScheduleFailure` has the code of the problem. A publication by a user
/// who has lost access since then fails with `FORBIDDEN`. Idempotent: the same times of the same
/// user change nothing.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path)),
    responses((status = 200, description = "The post after the change", body = PostView))
)]
#[put("/api/v1/posts/{post_id}/schedule")]
pub async fn schedule_post(
    app: Data<App>,
    actor: Actor,
    id: Path<PostId>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
    body: Json<SchedulePost>,
) -> Result<HttpResponse, Error> {
    let Json(SchedulePost { publish_at, unpublish_at, version }) = body;
    if publish_at.zip(unpublish_at).is_some_and(|(publish, unpublish)| unpublish <= publish) {
        let error = FieldError { field: "/UnpublishAt".to_owned(), invalid: Invalid::new("empty_range") };
        return Err(Problem::validation_failed(vec![error]).into());
    }
    let time_of = |moment: Option<Moment>| moment.map(|moment| moment.0);
    let new = NewSchedule { publish_at: time_of(publish_at), unpublish_at: time_of(unpublish_at), version };
    run_change(&app, &lookups, &request, &actor, *id, async |tx| {
        ops::schedule::set_schedule(tx, &actor, *id, new).await
    })
    .await
}
