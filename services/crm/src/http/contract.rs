//! Routes of contract data. No other response shows escrow account number and fixation data.

use ::db::PipelinedConn;
use ::web::{Json, PathReference};
use actix_web::web::Data;
use actix_web::{Responder, get, put, web};
use auth::{Permitted, Reach};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::db;
use crate::domain::{
    Amount, ChangeOwnDeals, Contract, ContractChange, ContractNumber, ContractType, DealCard, DealId,
    EscrowAccountNumber, FixationData, ManageDeals, Operation, PaymentMethod, SeenVersion,
};
use crate::error::{DEAL_NOT_FOUND, Error};
use crate::ops::deal_command::DealCommand;

/// The contract data of a deal.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ContractView {
    deal_id: DealId,
    contract_type: Option<ContractType>,
    payment_method: Option<PaymentMethod>,
    contract_number: Option<ContractNumber>,
    escrow_account_number: Option<EscrowAccountNumber>,
    fixation_data: Option<FixationData>,
    amount: Amount,
    /// Send it as `RowVersion` of the next change.
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    row_version: i64,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateContract {
    /// Required in Sale.
    contract_type: Option<ContractType>,
    /// Required in Sale.
    payment_method: Option<PaymentMethod>,
    contract_number: Option<ContractNumber>,
    escrow_account_number: Option<EscrowAccountNumber>,
    fixation_data: Option<FixationData>,
    /// Without it the amount stays. On company routes a new amount must be close to the object's
    /// price.
    amount: Option<Amount>,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_DEAL_CONFLICT`.
    row_version: Option<SeenVersion>,
}

impl UpdateContract {
    fn operation(self, tolerance_percent: u8) -> (Option<SeenVersion>, Operation) {
        let Self {
            contract_type,
            payment_method,
            contract_number,
            escrow_account_number,
            fixation_data,
            amount,
            row_version,
        } = self;
        let contract =
            Contract { contract_type, payment_method, contract_number, escrow_account_number, fixation_data };
        let change = ContractChange { contract, amount, tolerance_percent };
        (row_version, Operation::ReplaceContract(change))
    }
}

/// Read the contract data of a deal.
///
/// No other response shows the escrow account number and the fixation data.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "The contract data", body = ContractView))
)]
#[get("/api/platform-manager/crm/deals/{deal_id}/contract")]
pub async fn get_deal_contract(
    _permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read(&lookups, id.0, Reach::Platform).await.map(web::Json)
}

/// Read the contract data of a deal of the own company.
///
/// No other response shows the escrow account number and the fixation data.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "The contract data", body = ContractView))
)]
#[get("/api/v1/crm/deals/{deal_id}/contract")]
pub async fn get_own_deal_contract(
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read(&lookups, id.0, Reach::Company(permitted.granted)).await.map(web::Json)
}

async fn read(lookups: &PipelinedConn, id: DealId, reach: Reach) -> Result<ContractView, Error> {
    let found = lookups.run(async |conn| db::deal_state::find_deal(conn, id).await).await?;
    let deal = found.filter(|deal| reach.covers(deal.tenant_id)).ok_or(DEAL_NOT_FOUND)?;
    let Contract { contract_type, payment_method, contract_number, escrow_account_number, fixation_data } =
        deal.contract;
    Ok(ContractView {
        deal_id: deal.id,
        contract_type,
        payment_method,
        contract_number,
        escrow_account_number,
        fixation_data,
        amount: deal.amount,
        row_version: deal.row_version,
    })
}

/// Replace the contract data of a deal.
///
/// An omitted member is cleared, except `Amount`. An identical body changes nothing.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body = UpdateContract,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[put("/api/platform-manager/crm/deals/{deal_id}/contract")]
pub async fn update_deal_contract(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<UpdateContract>,
) -> Result<impl Responder, Error> {
    let (seen_version, operation) = body.0.operation(app.settings.amount_tolerance_percent);
    let command = DealCommand::new(permitted, id.0, seen_version, operation);
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}

/// Replace the contract data of a deal of the own company.
///
/// An omitted member is cleared, except `Amount`. An identical body changes nothing.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body = UpdateContract,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[put("/api/v1/crm/deals/{deal_id}/contract")]
pub async fn update_own_deal_contract(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<UpdateContract>,
) -> Result<impl Responder, Error> {
    let (seen_version, operation) = body.0.operation(app.settings.amount_tolerance_percent);
    let command = DealCommand::new(permitted, id.0, seen_version, operation);
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}
