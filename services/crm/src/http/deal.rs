//! Deals: made, moved on the board, given an agent, and brought to their end.

use ::db::Lookups;
use ::web::{FieldError, Json, PathReference, Problem};
use actix_web::http::header::LOCATION;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse, Responder, post, put, web};
use auth::{Permitted, UserId};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use utoipa::ToSchema;
use values::{Invalid, Private, Prose};

use super::order::{Manager, Order};
use crate::app::App;
use crate::db::deal_view::DealView;
use crate::domain::{
    Amount, Application, ChangeOwnDeals, DealCard, DealId, ManageDeals, Operation, PropertyObjectId,
    RegistryRecordNumber, Request, RequestId, SeenVersion, SelectionId, StepId, Words,
};
use crate::error::{DEAL_NOT_FOUND, Error, PROPERTY_OBJECT_NOT_FOUND};
use crate::{db, ops};

type ObjectReference = Reference<PropertyObjectId>;
type UserReference = Reference<UserId>;
type SelectionReference = Reference<SelectionId>;
type RequestReference = Reference<RequestId>;
type StepReference = Reference<StepId>;
/// It may be empty, which is none.
type MoveReason = Private<Prose<0, 2000>>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateDeal {
    property_object_id: ObjectReference,
    client_user_id: UserReference,
    agent_user_id: Option<UserReference>,
    selection_id: Option<SelectionReference>,
    /// Left out, it is the object's price.
    amount: Option<Amount>,
    /// What the caller calls this, so that it can be repeated.
    request_id: Option<RequestReference>,
}

/// Make a deal of an object.
///
/// With a `RequestId` it may be repeated: 200 with the deal as it is now.
#[utoipa::path(
    tag = "Deals", request_body(content = CreateDeal, description = "At most 256 KiB."),
    responses(
        (status = 201, description = "Created", body = DealView, headers(("Location" = String, description = "The deal"))),
        (status = 200, description = "It was made before", body = DealView)
    )
)]
#[post("/api/platform-manager/crm/deals")]
pub async fn create_deal(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    lookups: Data<Lookups>,
    request: HttpRequest,
    body: Json<CreateDeal>,
) -> Result<HttpResponse, Error> {
    create(&app, &lookups, permitted.actor.user_id, permitted.into(), &request, &body.0).await
}

/// Make a deal of an object of one's own company.
///
/// With a `RequestId` it may be repeated: 200 with the deal as it is now.
#[utoipa::path(
    tag = "Own deals", request_body(content = CreateDeal, description = "At most 256 KiB."),
    responses(
        (status = 201, description = "Created", body = DealView, headers(("Location" = String, description = "The deal"))),
        (status = 200, description = "It was made before", body = DealView)
    )
)]
#[post("/api/v1/crm/deals")]
pub async fn create_own_deal(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    lookups: Data<Lookups>,
    request: HttpRequest,
    body: Json<CreateDeal>,
) -> Result<HttpResponse, Error> {
    create(&app, &lookups, permitted.actor.user_id, permitted.into(), &request, &body.0).await
}

async fn create(
    app: &App,
    lookups: &Lookups,
    user: UserId,
    Manager { by, reach }: Manager,
    http: &HttpRequest,
    body: &CreateDeal,
) -> Result<HttpResponse, Error> {
    let object = body.property_object_id.0;
    let request = body.request_id.map(|id| Request { id: id.0, reach });
    let (made, prospect) =
        lookups.run(async |conn| db::situation::prospect(conn, object, user, request).await).await?;
    if let Some(made) = made {
        return Ok(HttpResponse::Ok().json(view(lookups, made).await?));
    }
    let prospect = prospect.filter(|prospect| reach.covers(prospect.object.tenant_id));
    let application = Application {
        client_user_id: body.client_user_id.0,
        agent_user_id: body.agent_user_id.map(|id| id.0),
        selection_id: body.selection_id.map(|id| id.0),
        amount: body.amount,
    };
    let deal = prospect.ok_or(PROPERTY_OBJECT_NOT_FOUND)?.apply(application, user, clock::now())?;
    let deal = deal.ok_or_else(amount_required)?;
    if app.db.tx(async |tx| ops::deal::create(tx, &deal, request, by).await).await? {
        let location = format!("{}/{}", http.path(), deal.id);
        let view = view(lookups, deal.id).await?;
        return Ok(HttpResponse::Created().insert_header((LOCATION, location)).json(view));
    }
    // A repeat was first.
    let made = lookups.run(async |conn| db::situation::made(conn, user, request).await).await?;
    Ok(HttpResponse::Ok().json(view(lookups, made.ok_or(DEAL_NOT_FOUND)?).await?))
}

/// The object has no price that a deal could have.
fn amount_required() -> Problem {
    let invalid = Invalid::new("required");
    Problem::validation_failed(vec![FieldError { field: "/Amount".to_owned(), invalid }])
}

async fn view(lookups: &Lookups, id: DealId) -> Result<DealView, Error> {
    let found = lookups.run(async |conn| db::deal_view::look_up(conn, id).await).await?;
    Ok(found.ok_or(DEAL_NOT_FOUND)?)
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MoveDeal {
    step_id: StepReference,
    reason: Option<MoveReason>,
    /// The version that the caller has seen; another one is a conflict.
    row_version: Option<SeenVersion>,
}

impl MoveDeal {
    fn operation(&self) -> Operation {
        let reason = self.reason.as_ref().and_then(|reason| Prose::parse(reason.expose().as_str()).ok());
        Operation::MoveStep { to: self.step_id.0, reason: reason.map(Private::new) }
    }
}

/// Move a deal to another step.
///
/// Its status follows. On the board a deal stays in its group or goes to a neighbour.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = MoveDeal, description = "At most 256 KiB."),
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/move-step")]
pub async fn move_deal(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<MoveDeal>,
) -> Result<impl Responder, Error> {
    let order = Order::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&order.carry_out(&app, &lookups).await?.deal)))
}

/// Move a deal of one's own company to another step.
///
/// Its status follows. On the board a deal stays in its group or goes to a neighbour.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body(content = MoveDeal, description = "At most 256 KiB."),
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/v1/crm/deals/{deal_id}/move-step")]
pub async fn move_own_deal(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<MoveDeal>,
) -> Result<impl Responder, Error> {
    let order = Order::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&order.carry_out(&app, &lookups).await?.deal)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SetAgent {
    /// Left out: nobody.
    agent_user_id: Option<UserReference>,
    /// The version that the caller has seen; another one is a conflict.
    row_version: Option<SeenVersion>,
}

impl SetAgent {
    fn operation(&self) -> Operation {
        Operation::Agent(self.agent_user_id.map(|id| id.0))
    }
}

/// Give a deal another agent, or none.
///
/// The same agent again changes nothing, whatever version was seen.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = SetAgent, description = "At most 256 KiB."),
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[put("/api/platform-manager/crm/deals/{deal_id}/agent")]
pub async fn set_deal_agent(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<SetAgent>,
) -> Result<impl Responder, Error> {
    let order = Order::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&order.carry_out(&app, &lookups).await?.deal)))
}

/// Give a deal of one's own company another agent, or none.
///
/// The same agent again changes nothing, whatever version was seen.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body(content = SetAgent, description = "At most 256 KiB."),
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[put("/api/v1/crm/deals/{deal_id}/agent")]
pub async fn set_own_deal_agent(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<SetAgent>,
) -> Result<impl Responder, Error> {
    let order = Order::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&order.carry_out(&app, &lookups).await?.deal)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CancelDeal {
    reason: Words,
    /// The version that the caller has seen; another one is a conflict.
    row_version: Option<SeenVersion>,
}

impl CancelDeal {
    fn operation(&self) -> Operation {
        Operation::Cancel { reason: self.reason.clone() }
    }
}

/// Cancel a deal.
///
/// Its booking ends with it. A deal that is cancelled keeps the reason that it has.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = CancelDeal, description = "At most 256 KiB."),
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/cancel")]
pub async fn cancel_deal(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<CancelDeal>,
) -> Result<impl Responder, Error> {
    let order = Order::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&order.carry_out(&app, &lookups).await?.deal)))
}

/// Cancel a deal of one's own company.
///
/// Its booking ends with it. A deal that is cancelled keeps the reason that it has.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body(content = CancelDeal, description = "At most 256 KiB."),
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/v1/crm/deals/{deal_id}/cancel")]
pub async fn cancel_own_deal(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<CancelDeal>,
) -> Result<impl Responder, Error> {
    let order = Order::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&order.carry_out(&app, &lookups).await?.deal)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CompleteDeal {
    /// Under which the state's registry has it.
    registry_record_number: RegistryRecordNumber,
    /// The version that the caller has seen; another one is a conflict.
    row_version: Option<SeenVersion>,
}

impl CompleteDeal {
    fn operation(&self) -> Operation {
        Operation::Complete { number: self.registry_record_number.clone() }
    }
}

/// Complete a deal.
///
/// Where its developer is not active; else that is the developer's.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = CompleteDeal, description = "At most 256 KiB."),
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/complete")]
pub async fn complete_deal(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<CompleteDeal>,
) -> Result<impl Responder, Error> {
    let order = Order::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&order.carry_out(&app, &lookups).await?.deal)))
}

/// Complete a deal of one's own company.
///
/// After the state's registry.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body(content = CompleteDeal, description = "At most 256 KiB."),
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/v1/crm/deals/{deal_id}/complete")]
pub async fn complete_own_deal(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<CompleteDeal>,
) -> Result<impl Responder, Error> {
    let order = Order::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&order.carry_out(&app, &lookups).await?.deal)))
}
