//! Routes that return selections of a deal's client.

use ::db::PipelinedConn;
use ::web::PathReference;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{Permitted, Reach};

use crate::app::App;
use crate::clients::SelectionsResponse;
use crate::db;
use crate::db::deal_view::DealParties;
use crate::domain::{DealId, ManageDeals, ReadDeals, ReadOwnDeals};
use crate::error::{DEAL_NOT_FOUND, Error, SELECTION_NOT_FOUND};

async fn find_parties(lookups: &PipelinedConn, reach: Reach, id: DealId) -> Result<DealParties, Error> {
    let found = lookups.run(async |conn| db::deal_view::find_parties(conn, id).await).await?;
    Ok(found.filter(|deal| reach.covers(deal.tenant_id)).ok_or(DEAL_NOT_FOUND)?)
}

/// Returns the selection of a deal if its owner is the client.
async fn read(
    app: &App,
    lookups: &PipelinedConn,
    reach: Reach,
    id: DealId,
) -> Result<web::Json<SelectionsResponse>, Error> {
    let deal = find_parties(lookups, reach, id).await?;
    let selection = deal.selection_id.ok_or(SELECTION_NOT_FOUND)?;
    let found = app.selections.find(selection).await?.ok_or(SELECTION_NOT_FOUND)?;
    let is_of_client = found.owner_user_id == deal.client_user_id;
    if is_of_client { Ok(web::Json(found.response)) } else { Err(SELECTION_NOT_FOUND.into()) }
}

/// Read the selection that a deal originates from.
///
/// Returns the response of selections unchanged. A deleted selection is as it was when it was
/// deleted. The selection must belong to the client.
///
/// The members are `Id`, `OwnerUserId`, `PublicCode`, `Title`, `Description`, `Items` of
/// `{PropertyObjectId, SortOrder, AddedAt}`, `ItemsCount`, `CreatedAt`, `UpdatedAt`, `DeletedAt`
/// and `Version`.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "The selection", body = SelectionsResponse))
)]
#[get("/api/platform-manager/crm/deals/{deal_id}/selection")]
pub async fn get_deal_selection(
    app: Data<App>,
    _: Permitted<ReadDeals>,
    PathReference(id): PathReference<DealId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read(&app, &lookups, Reach::Platform, id).await
}

/// Read the selection that a deal of the own company originates from.
///
/// Returns the response of selections unchanged. A deleted selection is as it was when it was
/// deleted. The selection must belong to the client.
///
/// The members are `Id`, `OwnerUserId`, `PublicCode`, `Title`, `Description`, `Items` of
/// `{PropertyObjectId, SortOrder, AddedAt}`, `ItemsCount`, `CreatedAt`, `UpdatedAt`, `DeletedAt`
/// and `Version`.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "The selection", body = SelectionsResponse))
)]
#[get("/api/v1/crm/deals/{deal_id}/selection")]
pub async fn get_own_deal_selection(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    PathReference(id): PathReference<DealId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read(&app, &lookups, Reach::Company(permitted.granted), id).await
}

/// List the selections of a deal's client.
///
/// Returns the response of selections unchanged, with all selections on one page: `Items`, `Page`,
/// `PageSize` and `TotalCount`. Each item has the members of the selection of a deal.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "The selections", body = SelectionsResponse))
)]
#[get("/api/platform-manager/crm/deals/{deal_id}/client-selections")]
pub async fn list_client_selections(
    app: Data<App>,
    _: Permitted<ManageDeals>,
    PathReference(id): PathReference<DealId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let deal = find_parties(&lookups, Reach::Platform, id).await?;
    Ok(web::Json(app.selections.list_by_owner(deal.client_user_id).await?))
}
