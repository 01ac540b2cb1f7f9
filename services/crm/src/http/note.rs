//! Notes about deals.

use ::web::{Json, PathReference};
use actix_web::web::Data;
use actix_web::{HttpResponse, post};
use auth::Permitted;
use runtime::clock;
use serde::Deserialize;
use utoipa::ToSchema;

use super::order::Manager;
use crate::app::App;
use crate::domain::{CareForDeals, ChangeOwnDeals, DealId, Entry, TimelineRow, Words};
use crate::error::Error;
use crate::ops;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct AddNote {
    text: Words,
}

/// Add a note to a deal.
///
/// In whatever status; the deal stays as it is.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = AddNote, description = "At most 256 KiB."),
    responses((status = 201, description = "The row of the timeline", body = TimelineRow))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/notes")]
pub async fn add_note(
    app: Data<App>,
    permitted: Permitted<CareForDeals>,
    id: PathReference<DealId>,
    body: Json<AddNote>,
) -> Result<HttpResponse, Error> {
    let manager = Manager::of_platform(&permitted, permitted.granted);
    add(&app, manager, id.0, &Entry::ManualNote { text: body.0.text }).await
}

/// Add a note to a deal of one's own company.
///
/// In whatever status; the deal stays as it is.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body(content = AddNote, description = "At most 256 KiB."),
    responses((status = 201, description = "The row of the timeline", body = TimelineRow))
)]
#[post("/api/v1/crm/deals/{deal_id}/notes")]
pub async fn add_own_note(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    body: Json<AddNote>,
) -> Result<HttpResponse, Error> {
    add(&app, permitted.into(), id.0, &Entry::CompanyNote { text: body.0.text }).await
}

async fn add(
    app: &App,
    Manager { by, reach }: Manager,
    id: DealId,
    note: &Entry,
) -> Result<HttpResponse, Error> {
    let now = clock::now();
    let row = app.db.tx(async |tx| ops::deal::note(tx, id, reach, note, by, now).await).await?;
    Ok(HttpResponse::Created().json(row))
}
