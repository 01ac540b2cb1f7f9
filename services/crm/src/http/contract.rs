//! Contract data of deals. They are shown here and nowhere else.

use ::db::Lookups;
use ::web::{Json, PathReference};
use actix_web::web::Data;
use actix_web::{Responder, get, put, web};
use auth::{Permitted, Reach};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::order::Order;
use crate::app::App;
use crate::db;
use crate::domain::{
    Amount, ChangeOwnDeals, Contract, ContractChange, ContractType, DealCard, DealId, EscrowAccountNumber,
    FixationData, ManageDeals, Operation, PaymentMethod, SeenVersion,
};
use crate::error::{DEAL_NOT_FOUND, Error};

/// What is known of a deal's contract.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ContractView {
    deal_id: DealId,
    contract_type: Option<ContractType>,
    payment_method: Option<PaymentMethod>,
    escrow_account_number: Option<EscrowAccountNumber>,
    fixation_data: Option<FixationData>,
    amount: Amount,
    /// For `RowVersion` of the next change.
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    row_version: i64,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateContract {
    /// Needed in Sale.
    contract_type: Option<ContractType>,
    /// Needed in Sale.
    payment_method: Option<PaymentMethod>,
    escrow_account_number: Option<EscrowAccountNumber>,
    fixation_data: Option<FixationData>,
    /// Left out, it stays.
    amount: Option<Amount>,
    /// The version that the caller has seen; another one is a conflict.
    row_version: Option<SeenVersion>,
}

impl UpdateContract {
    fn operation(self) -> (Option<SeenVersion>, Operation) {
        let Self { contract_type, payment_method, escrow_account_number, fixation_data, amount, row_version } =
            self;
        let contract = Contract { contract_type, payment_method, escrow_account_number, fixation_data };
        (row_version, Operation::Contract(ContractChange { contract, amount }))
    }
}

/// Read the contract data of a deal.
///
/// The escrow account number and the fixation data are in this answer and in no other.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "Its contract data", body = ContractView))
)]
#[get("/api/platform-manager/crm/deals/{deal_id}/contract")]
pub async fn get_deal_contract(
    _permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    read(&lookups, id.0, Reach::Platform).await.map(web::Json)
}

/// Read the contract data of a deal of one's own company.
///
/// The escrow account number and the fixation data are in this answer and in no other.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "Its contract data", body = ContractView))
)]
#[get("/api/v1/crm/deals/{deal_id}/contract")]
pub async fn get_own_deal_contract(
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    read(&lookups, id.0, Reach::Company(permitted.granted)).await.map(web::Json)
}

async fn read(lookups: &Lookups, id: DealId, reach: Reach) -> Result<ContractView, Error> {
    let found = lookups.run(async |conn| db::situation::deal(conn, id).await).await?;
    let deal = found.filter(|deal| reach.covers(deal.tenant_id)).ok_or(DEAL_NOT_FOUND)?;
    let Contract { contract_type, payment_method, escrow_account_number, fixation_data } = deal.contract;
    Ok(ContractView {
        deal_id: deal.id,
        contract_type,
        payment_method,
        escrow_account_number,
        fixation_data,
        amount: deal.amount,
        row_version: deal.row_version,
    })
}

/// Replace the contract data of a deal.
///
/// What is left out is cleared, but for the amount. What is the same already changes nothing.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = UpdateContract, description = "At most 256 KiB."),
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[put("/api/platform-manager/crm/deals/{deal_id}/contract")]
pub async fn update_deal_contract(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<UpdateContract>,
) -> Result<impl Responder, Error> {
    let (seen, operation) = body.0.operation();
    let changed = Order::new(permitted, id.0, seen, operation).carry_out(&app, &lookups).await?;
    Ok(web::Json(DealCard::from(&changed.deal)))
}

/// Replace the contract data of a deal of one's own company.
///
/// What is left out is cleared, but for the amount. What is the same already changes nothing.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body(content = UpdateContract, description = "At most 256 KiB."),
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[put("/api/v1/crm/deals/{deal_id}/contract")]
pub async fn update_own_deal_contract(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<UpdateContract>,
) -> Result<impl Responder, Error> {
    let (seen, operation) = body.0.operation();
    let changed = Order::new(permitted, id.0, seen, operation).carry_out(&app, &lookups).await?;
    Ok(web::Json(DealCard::from(&changed.deal)))
}
