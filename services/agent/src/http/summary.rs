//! The commission summary of an agent.

use ::db::PipelinedConn;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::Permitted;
use futures_util::future::try_join;
use serde::Serialize;
use utoipa::ToSchema;
use values::{Currency, Money};

use crate::db;
use crate::domain::{Account, UseCabinet};
use crate::error::Error;

/// The sums of an agent's accruals in one currency.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Balance {
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    currency: Currency,
    pending: Money,
    /// Approved accruals without a payout; negative for a debt.
    approved: Money,
    /// Approved accruals in a payout.
    in_payout: Money,
    paid: Money,
    total: Money,
    /// Unpaid part of the total.
    outstanding: Money,
}

/// The balances of an agent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Summary {
    /// Balances sorted by currency.
    balances: Vec<Balance>,
    open_adjustment_requests_count: i64,
}

impl Balance {
    fn of(account: &Account) -> Self {
        let Account { currency, pending, approved, in_payout, paid, .. } = *account;
        let money = |amount_minor| Money { amount_minor, currency };
        Self {
            currency,
            pending: money(pending),
            approved: money(approved),
            in_payout: money(in_payout),
            paid: money(paid),
            // An account is stored only if these sums fit into 64 bits.
            total: money(account.total().unwrap_or_default()),
            outstanding: money(account.outstanding().unwrap_or_default()),
        }
    }
}

/// Read my commission summary.
///
/// Returns the caller's balances by currency, and the number of open adjustment requests.
#[utoipa::path(
    tag = "Cabinet", responses((status = 200, description = "The balances", body = Summary))
)]
#[get("/api/v1/my/commission-summary")]
pub async fn get_summary(
    permitted: Permitted<UseCabinet>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let agent = permitted.actor.user_id;
    let read = lookups.run(async |conn| {
        try_join(db::account::look_up(conn, agent), db::adjustment::count_open(conn, agent)).await
    });
    let (accounts, open_adjustment_requests_count) = read.await?;
    let balances = accounts.iter().map(Balance::of).collect();
    Ok(web::Json(Summary { balances, open_adjustment_requests_count }))
}
