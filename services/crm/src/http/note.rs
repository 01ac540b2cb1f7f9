//! Routes of notes.

use ::web::{Json, PathReference};
use actix_web::web::Data;
use actix_web::{HttpResponse, post};
use auth::Permitted;
use runtime::clock;
use serde::Deserialize;
use service::{Idempotency, Reply};
use utoipa::ToSchema;

use super::{ALL_DEALS, OWN_DEALS};
use crate::app::App;
use crate::domain::{
    CareForDeals, ChangeOwnDeals, DealId, FreeText, NoteAudience, TimelineEntry, TimelineRow,
};
use crate::error::Error;
use crate::ops;
use crate::ops::deal_command::CommandCaller;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct AddNote {
    text: FreeText,
    /// Readers of the note. `Platform` hides it on company routes; by default everyone reads it.
    audience: Option<NoteAudience>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct AddOwnNote {
    text: FreeText,
}

/// Add a note to a deal.
///
/// Possible in every status. The deal and its `RowVersion` stay unchanged.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body = AddNote,
    responses((status = 201, description = "The new row of the timeline", body = TimelineRow,
            headers(("Location" = String, description = "The timeline"))))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/notes")]
pub async fn add_note(
    app: Data<App>,
    permitted: Permitted<CareForDeals>,
    id: PathReference<DealId>,
    idempotency: Idempotency,
    body: Json<AddNote>,
) -> Result<HttpResponse, Error> {
    let AddNote { text, audience } = body.0;
    let note = (TimelineEntry::ManualNote { text }, audience.unwrap_or(NoteAudience::Everyone));
    add(&app, permitted.into(), ALL_DEALS, id.0, &idempotency, &note).await
}

/// Add a note to a deal of the own company.
///
/// Possible in every status. The deal and its `RowVersion` stay unchanged.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body = AddOwnNote,
    responses((status = 201, description = "The new row of the timeline", body = TimelineRow,
            headers(("Location" = String, description = "The timeline"))))
)]
#[post("/api/v1/crm/deals/{deal_id}/notes")]
pub async fn add_own_note(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    idempotency: Idempotency,
    body: Json<AddOwnNote>,
) -> Result<HttpResponse, Error> {
    let note = (TimelineEntry::CompanyNote { text: body.0.text }, NoteAudience::Everyone);
    add(&app, permitted.into(), OWN_DEALS, id.0, &idempotency, &note).await
}

async fn add(
    app: &App,
    CommandCaller { author, reach }: CommandCaller,
    deals: &str,
    id: DealId,
    idempotency: &Idempotency,
    note: &(TimelineEntry, NoteAudience),
) -> Result<HttpResponse, Error> {
    let (now, limits) = (clock::now(), app.settings.addition_limits);
    let add = async |tx: &mut _| {
        let row = ops::deal::add_note(tx, id, reach, note, author, limits, now).await?;
        Ok(Reply::created(row).at(format!("{deals}/{id}/timeline")))
    };
    idempotency.run(&app.db, add).await
}
