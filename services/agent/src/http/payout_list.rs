//! Lists of payouts: the caller's own, and those of all agents for the platform.

use ::web::{Both, Check, CheckedQuery, CommaSeparated, Fields, Page, Paging, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{Permitted, UserId};
use ids::Reference;
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;
use values::Currency;

use super::accrual::AgentParam;
use super::own::{Extent, Own};
use crate::app::App;
use crate::db;
use crate::db::payout_list::{PayoutFilter, PayoutSort};
use crate::domain::{ManagePayouts, PayoutRunId, PayoutStatus, PayoutView};
use crate::error::Error;

/// The filter of a list of payouts. A payout has to match every parameter.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct PayoutQuery {
    /// One or several values, separated by commas.
    #[param(value_type = Option<Vec<PayoutStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<CommaSeparated<PayoutStatus>>,
    #[param(value_type = Option<String>, pattern = "^[A-Z]{3}$")]
    currency: Option<Currency>,
    /// Lower bound of `CreatedAt`, inclusive.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<OffsetDateTime>,
    /// Upper bound of `CreatedAt`, exclusive.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<OffsetDateTime>,
}

impl Check for PayoutQuery {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/To", self.from.as_ref(), self.to.as_ref());
    }
}

/// The run of a list.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct RunParam {
    /// Payout run; all runs if absent.
    #[param(value_type = Option<PayoutRunId>)]
    run_id: Option<Reference<PayoutRunId>>,
}

type ListQuery = Both<CheckedQuery<PayoutQuery>, Paging<PayoutSort>>;

async fn list(
    app: &App,
    agent_user_id: Option<UserId>,
    run_id: Option<PayoutRunId>,
    extent: Extent,
    Both(CheckedQuery(query), paging): ListQuery,
) -> Result<web::Json<Page<PayoutView>>, Error> {
    let filter = PayoutFilter {
        agent_user_id,
        run_id,
        statuses: query.status.map(|statuses| statuses.0),
        is_owed: extent == Extent::Owed,
        currency: query.currency,
        created_from: query.from,
        created_to: query.to,
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::payout_list::list(&conn, &filter, &paging).await?))
}

/// List my payouts.
///
/// Returns a page of the caller's payouts. A payout has one currency.
/// A former agent gets the payouts that are `Scheduled` or `InTransit`.
#[utoipa::path(
    tag = "Cabinet", params(PayoutQuery, Paging<PayoutSort>),
    responses((status = 200, description = "One page", body = Page<PayoutView>))
)]
#[get("/api/v1/my/payouts")]
pub async fn list_own_payouts(app: Data<App>, own: Own<ListQuery>) -> Result<impl Responder, Error> {
    list(&app, Some(own.agent), None, own.extent, own.query).await
}

/// List payouts.
///
/// Returns a page of the payouts of all agents and runs, or of one agent or run.
#[utoipa::path(
    tag = "Payouts", params(AgentParam, RunParam, PayoutQuery, Paging<PayoutSort>),
    responses((status = 200, description = "One page", body = Page<PayoutView>))
)]
#[get("/api/platform-manager/agent/payouts")]
pub async fn list_payouts(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    Both(Both(Query(agent), Query(run)), query): Both<Both<Query<AgentParam>, Query<RunParam>>, ListQuery>,
) -> Result<impl Responder, Error> {
    list(&app, agent.agent_user_id.map(|id| id.0), run.run_id.map(|id| id.0), Extent::All, query).await
}
