//! Routes that create, move, reassign, cancel and complete deals.

use ::db::{PipelinedConn, Tx};
use ::web::{FieldError, Json, PathReference, Problem};
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse, Responder, post, put, web};
use auth::{Permitted, UserId};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use service::{Idempotency, Reply};
use utoipa::ToSchema;
use values::{Invalid, Private, Prose};

use crate::app::App;
use crate::db::deal_view::DealView;
use crate::domain::{
    Amount, ChangeOwnDeals, CreationRequest, Deal, DealCard, DealId, FreeText, ManageDeals, NewDeal,
    Operation, PropertyObjectId, RegistryRecordNumber, RequestId, SeenVersion, SelectionId, StepId,
};
use crate::error::{DEAL_NOT_FOUND, Error, PROPERTY_OBJECT_NOT_FOUND, SELECTION_NOT_OF_CLIENT};
use crate::ops::deal_command::{CommandCaller, DealCommand};
use crate::{db, ops};

type ObjectReference = Reference<PropertyObjectId>;
type UserReference = Reference<UserId>;
type SelectionReference = Reference<SelectionId>;
type RequestReference = Reference<RequestId>;
type StepReference = Reference<StepId>;
/// The reason of a move. An empty reason means no reason.
type MoveReason = Private<Prose<0, 2000>>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateDeal {
    property_object_id: ObjectReference,
    /// Another user than the caller.
    client_user_id: UserReference,
    /// Another user than the caller and the client. On company routes an active employee of an
    /// active agency.
    agent_user_id: Option<UserReference>,
    /// A selection of the client that is not deleted and that never had a collaborator.
    selection_id: Option<SelectionReference>,
    /// By default the price of the object. On company routes it must be close to that price.
    amount: Option<Amount>,
    /// An id that the caller chooses. A repeat with the same id returns the existing deal.
    request_id: Option<RequestReference>,
}

/// Create a deal.
///
/// A repeat with the same `RequestId` returns 200 with the deal as it is now.
#[utoipa::path(
    tag = "Deals", request_body = CreateDeal,
    responses(
        (status = 201, description = "Created", body = DealView, headers(("Location" = String, description = "The deal"))),
        (status = 200, description = "The existing deal with this `RequestId`", body = DealView)
    )
)]
#[post("/api/platform-manager/crm/deals")]
pub async fn create_deal(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
    idempotency: Idempotency,
    body: Json<CreateDeal>,
) -> Result<HttpResponse, Error> {
    // A repeat returns the stored response before any check, which the current state could fail.
    if let Some(response) = idempotency.find_response(&app.db).await? {
        return Ok(response);
    }
    let (creator, caller) = (permitted.actor.user_id, permitted.into());
    create(&app, &lookups, creator, caller, request.path(), &idempotency, &body.0).await
}

/// Create a deal of the own company.
///
/// A repeat with the same `RequestId` returns 200 with the deal as it is now.
#[utoipa::path(
    tag = "Own deals", request_body = CreateDeal,
    responses(
        (status = 201, description = "Created", body = DealView, headers(("Location" = String, description = "The deal"))),
        (status = 200, description = "The existing deal with this `RequestId`", body = DealView)
    )
)]
#[post("/api/v1/crm/deals")]
pub async fn create_own_deal(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
    idempotency: Idempotency,
    body: Json<CreateDeal>,
) -> Result<HttpResponse, Error> {
    // A repeat returns the stored response before any check, which the current state could fail.
    if let Some(response) = idempotency.find_response(&app.db).await? {
        return Ok(response);
    }
    let (creator, caller) = (permitted.actor.user_id, permitted.into());
    create(&app, &lookups, creator, caller, request.path(), &idempotency, &body.0).await
}

async fn create(
    app: &App,
    lookups: &PipelinedConn,
    creator: UserId,
    CommandCaller { author, reach }: CommandCaller,
    path: &str,
    idempotency: &Idempotency,
    body: &CreateDeal,
) -> Result<HttpResponse, Error> {
    let (object, agent) = (body.property_object_id.0, body.agent_user_id.map(|id| id.0));
    let request = body.request_id.map(|id| CreationRequest { id: id.0, reach });
    let (existing, offered) = lookups
        .run(async |conn| db::deal_state::look_up_creation(conn, object, agent, creator, request).await)
        .await?;
    if let Some(existing) = existing {
        return Reply::existing(read_view(lookups, existing).await?).respond();
    }
    let offered = offered.filter(|offered| reach.covers(offered.object.tenant_id));
    let new = NewDeal {
        client_user_id: body.client_user_id.0,
        agent_user_id: agent,
        selection_id: body.selection_id.map(|id| id.0),
        amount: body.amount,
        tolerance_percent: app.settings.amount_tolerance_percent,
    };
    let offered = offered.ok_or(PROPERTY_OBJECT_NOT_FOUND)?;
    let deal = offered.create_deal(new, creator, author.role, clock::now())?.ok_or_else(amount_required)?;
    check_selection(app, &deal).await?;
    let create = async |tx: &mut Tx| {
        let is_new = ops::deal::create(tx, &deal, request, author, app.settings.addition_limits).await?;
        // A concurrent repeat may have created the deal.
        let id = if is_new {
            deal.id
        } else {
            let existing = db::deal_state::find_by_request(tx.conn(), creator, request).await?;
            existing.ok_or(DEAL_NOT_FOUND)?
        };
        let view = db::deal_view::look_up(tx.conn(), id).await?.ok_or(DEAL_NOT_FOUND)?;
        if !is_new {
            return Ok(Reply::existing(view));
        }
        Ok(Reply::created(view).at(format!("{path}/{id}")))
    };
    idempotency.run(&app.db, create).await
}

/// Checks that the selection of a new deal belongs to the client, is not deleted, and never had a
/// collaborator. A caller who has the id of such a selection has it from the client.
///
/// # Errors
/// [`SELECTION_NOT_OF_CLIENT`] if the check fails; `SERVICE_UNAVAILABLE` if selections does not
/// answer.
async fn check_selection(app: &App, deal: &Deal) -> Result<(), Error> {
    let Some(id) = deal.selection_id else { return Ok(()) };
    let found = app.selections.find_for_new_deal(id).await?;
    let is_of_client = found.is_some_and(|found| found.owner_user_id == deal.client_user_id);
    if is_of_client { Ok(()) } else { Err(SELECTION_NOT_OF_CLIENT.into()) }
}

/// Returns the problem for a request without `Amount` if the object's price is not a valid amount.
fn amount_required() -> Problem {
    let invalid = Invalid::new("required");
    Problem::validation_failed(vec![FieldError { field: "/Amount".to_owned(), invalid }])
}

async fn read_view(lookups: &PipelinedConn, id: DealId) -> Result<DealView, Error> {
    let found = lookups.run(async |conn| db::deal_view::look_up(conn, id).await).await?;
    Ok(found.ok_or(DEAL_NOT_FOUND)?)
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MoveDeal {
    step_id: StepReference,
    reason: Option<MoveReason>,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_DEAL_CONFLICT`.
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
/// The status follows the group of the step. A deal stays in its group or enters a neighbouring
/// one.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body = MoveDeal,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/move-step")]
pub async fn move_deal(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<MoveDeal>,
) -> Result<impl Responder, Error> {
    let command = DealCommand::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}

/// Move a deal of the own company to another step.
///
/// The status follows the group of the step. A deal stays in its group or enters a neighbouring
/// one.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body = MoveDeal,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/v1/crm/deals/{deal_id}/move-step")]
pub async fn move_own_deal(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<MoveDeal>,
) -> Result<impl Responder, Error> {
    let command = DealCommand::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SetAgent {
    /// Another user than the caller and the client. On company routes an active employee of an
    /// active agency. Without it the agent is removed.
    agent_user_id: Option<UserReference>,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_DEAL_CONFLICT`.
    row_version: Option<SeenVersion>,
}

impl SetAgent {
    fn operation(&self) -> Operation {
        Operation::ChangeAgent(self.agent_user_id.map(|id| id.0))
    }
}

/// Change or remove the agent of a deal.
///
/// A repeat with the same agent changes nothing, whatever `RowVersion` is.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body = SetAgent,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[put("/api/platform-manager/crm/deals/{deal_id}/agent")]
pub async fn set_deal_agent(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<SetAgent>,
) -> Result<impl Responder, Error> {
    let command = DealCommand::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}

/// Change or remove the agent of a deal of the own company.
///
/// A repeat with the same agent changes nothing, whatever `RowVersion` is.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body = SetAgent,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[put("/api/v1/crm/deals/{deal_id}/agent")]
pub async fn set_own_deal_agent(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<SetAgent>,
) -> Result<impl Responder, Error> {
    let command = DealCommand::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CancelDeal {
    reason: FreeText,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_DEAL_CONFLICT`.
    row_version: Option<SeenVersion>,
}

impl CancelDeal {
    fn operation(&self) -> Operation {
        Operation::Cancel { reason: self.reason.clone() }
    }
}

/// Cancel a deal.
///
/// Ends the Active booking. A repeated request changes nothing, and the deal keeps its reason.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body = CancelDeal,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/cancel")]
pub async fn cancel_deal(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<CancelDeal>,
) -> Result<impl Responder, Error> {
    let command = DealCommand::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}

/// Cancel a deal of the own company.
///
/// Ends the Active booking. A repeated request changes nothing, and the deal keeps its reason.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body = CancelDeal,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/v1/crm/deals/{deal_id}/cancel")]
pub async fn cancel_own_deal(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<CancelDeal>,
) -> Result<impl Responder, Error> {
    let command = DealCommand::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CompleteDeal {
    /// Number of the entry in the state property registry.
    registry_record_number: RegistryRecordNumber,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_DEAL_CONFLICT`.
    row_version: Option<SeenVersion>,
}

impl CompleteDeal {
    fn operation(&self) -> Operation {
        Operation::Complete { number: self.registry_record_number.clone() }
    }
}

/// Complete a deal of a developer that is not active.
///
/// An active developer completes its deals itself. A repeat changes nothing, also with another
/// registry number.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body = CompleteDeal,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/complete")]
pub async fn complete_deal(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<CompleteDeal>,
) -> Result<impl Responder, Error> {
    let command = DealCommand::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}

/// Complete a deal of the own company.
///
/// The deal must be in Sale and have an entry in the state property registry. A repeat changes
/// nothing, also with another registry number.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body = CompleteDeal,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/v1/crm/deals/{deal_id}/complete")]
pub async fn complete_own_deal(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<CompleteDeal>,
) -> Result<impl Responder, Error> {
    let command = DealCommand::new(permitted, id.0, body.0.row_version, body.0.operation());
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}
