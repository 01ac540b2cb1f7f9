//! The commission summary of an agent.

use ::db::PipelinedConn;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use futures_util::future::try_join;
use serde::Serialize;
use utoipa::ToSchema;
use values::{Currency, Money};

use super::own::{Extent, Own};
use crate::db;
use crate::domain::Account;
use crate::error::Error;

/// The sums of an agent's accruals in one currency.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Balance {
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    currency: Currency,
    /// Sum of the Pending accruals.
    pending: Money,
    /// Sum of the Approved accruals without a payout; negative for a debt.
    approved: Money,
    /// Sum of the Approved accruals in a payout.
    in_payout: Money,
    /// Sum of the Paid accruals.
    paid: Money,
    /// Sum of all amounts.
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
    /// Number of adjustment requests without a decision.
    open_adjustment_requests_count: i64,
}

impl Balance {
    /// Creates the balance of an account. For `Extent::Owed` all sums leave out the paid amounts.
    fn of(account: &Account, extent: Extent) -> Self {
        let paid = if extent == Extent::All { account.paid } else { 0 };
        let account = Account { paid, ..account.clone() };
        let Account { currency, pending, approved, in_payout, .. } = account;
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
/// For a former agent the sums cover what is still owed, so `Paid` is 0.
#[utoipa::path(
    tag = "Cabinet", responses((status = 200, description = "The balances", body = Summary))
)]
#[get("/api/v1/my/commission-summary")]
pub async fn get_summary(own: Own<()>, lookups: Data<PipelinedConn>) -> Result<impl Responder, Error> {
    let agent = own.agent;
    let read = lookups.run(async |conn| {
        try_join(db::account::look_up(conn, agent), db::adjustment::count_open(conn, agent)).await
    });
    let (accounts, open_adjustment_requests_count) = read.await?;
    let is_shown = |account: &&Account| own.extent == Extent::All || account.outstanding() != Some(0);
    let balances = accounts.iter().filter(is_shown).map(|account| Balance::of(account, own.extent)).collect();
    Ok(web::Json(Summary { balances, open_adjustment_requests_count }))
}
