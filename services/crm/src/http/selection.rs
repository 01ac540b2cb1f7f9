//! The selections of a deal's people, as selections shows them.

use ::db::Lookups;
use ::web::PathReference;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{Permitted, Reach};

use crate::app::App;
use crate::clients::PassedOn;
use crate::db;
use crate::db::deal_view::DealPeople;
use crate::domain::{DealId, ManageDeals, ReadDeals, ReadOwnDeals};
use crate::error::{DEAL_NOT_FOUND, Error, SELECTION_NOT_FOUND};

async fn people(lookups: &Lookups, reach: Reach, id: DealId) -> Result<DealPeople, Error> {
    let found = lookups.run(async |conn| db::deal_view::people(conn, id).await).await?;
    Ok(found.filter(|deal| reach.covers(deal.tenant_id)).ok_or(DEAL_NOT_FOUND)?)
}

/// The deal's selection, if it is its client's or its agent's.
async fn read(app: &App, lookups: &Lookups, reach: Reach, id: DealId) -> Result<web::Json<PassedOn>, Error> {
    let deal = people(lookups, reach, id).await?;
    let selection = deal.selection_id.ok_or(SELECTION_NOT_FOUND)?;
    let (owner, selection) = app.selections.find(selection).await?.ok_or(SELECTION_NOT_FOUND)?;
    let is_theirs = owner == deal.client_user_id || Some(owner) == deal.agent_user_id;
    if is_theirs { Ok(web::Json(selection)) } else { Err(SELECTION_NOT_FOUND.into()) }
}

/// Read the selection that a deal came from.
///
/// As selections shows it, deleted or not; only if it is the client's or the agent's.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "The selection", body = PassedOn))
)]
#[get("/api/platform-manager/crm/deals/{deal_id}/selection")]
pub async fn get_deal_selection(
    app: Data<App>,
    _: Permitted<ReadDeals>,
    PathReference(id): PathReference<DealId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    read(&app, &lookups, Reach::Platform, id).await
}

/// Read the selection that a deal of one's own company came from.
///
/// As selections shows it, deleted or not; only if it is the client's or the agent's.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "The selection", body = PassedOn))
)]
#[get("/api/v1/crm/deals/{deal_id}/selection")]
pub async fn get_own_deal_selection(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    PathReference(id): PathReference<DealId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    read(&app, &lookups, Reach::Company(permitted.granted), id).await
}

/// List the selections of a deal's client.
///
/// As selections lists them, all on one page.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "The selections", body = PassedOn))
)]
#[get("/api/platform-manager/crm/deals/{deal_id}/client-selections")]
pub async fn list_client_selections(
    app: Data<App>,
    _: Permitted<ManageDeals>,
    PathReference(id): PathReference<DealId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    let deal = people(&lookups, Reach::Platform, id).await?;
    Ok(web::Json(app.selections.of_owner(deal.client_user_id).await?))
}
