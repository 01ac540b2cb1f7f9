//! Payouts as they are listed: an agent's own, and everybody's for the platform.

use ::web::{Both, Check, Fields, Filter, Page, Paging, Query, Several};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{Permitted, UserId};
use ids::Reference;
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;
use values::Currency;

use super::accrual::OfAgent;
use crate::app::App;
use crate::db;
use crate::db::payout_list::{PayoutFilter, PayoutSort};
use crate::domain::{ManagePayouts, PayoutRunId, PayoutShown, PayoutStatus, UseCabinet};
use crate::error::Error;

/// Which payouts are listed. What is asked for is joined by "and".
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AskedPayouts {
    /// Separated by commas.
    #[param(value_type = Option<Vec<PayoutStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<Several<PayoutStatus>>,
    #[param(value_type = Option<String>, pattern = "^[A-Z]{3}$")]
    currency: Option<Currency>,
    /// Of `CreatedAt`.
    #[serde(default, deserialize_with = "::web::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<OffsetDateTime>,
    /// Exclusive.
    #[serde(default, deserialize_with = "::web::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<OffsetDateTime>,
}

impl Check for AskedPayouts {
    fn check(&self, fields: &mut Fields) {
        fields.range("/To", self.from.as_ref(), self.to.as_ref());
    }
}

/// Which run's payouts are listed.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct OfRun {
    #[param(value_type = Option<PayoutRunId>)]
    run_id: Option<Reference<PayoutRunId>>,
}

type Listed = Both<Filter<AskedPayouts>, Paging<PayoutSort>>;

async fn list(
    app: &App,
    agent_user_id: Option<UserId>,
    run_id: Option<PayoutRunId>,
    Both(Filter(asked), paging): Listed,
) -> Result<web::Json<Page<PayoutShown>>, Error> {
    let filter = PayoutFilter {
        agent_user_id,
        run_id,
        statuses: asked.status.map(|statuses| statuses.0),
        currency: asked.currency,
        created_from: asked.from,
        created_to: asked.to,
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::payout_list::list(&conn, &filter, &paging).await?))
}

/// List one's own payouts.
///
/// One is of one currency.
#[utoipa::path(
    tag = "Cabinet", params(AskedPayouts, Paging<PayoutSort>),
    responses((status = 200, description = "One page", body = Page<PayoutShown>))
)]
#[get("/api/v1/my/payouts")]
pub async fn list_own_payouts(
    app: Data<App>,
    permitted: Permitted<UseCabinet>,
    listed: Listed,
) -> Result<impl Responder, Error> {
    list(&app, Some(permitted.actor.user_id), None, listed).await
}

/// List payouts.
///
/// Of all agents and runs, or of one.
#[utoipa::path(
    tag = "Payouts", params(OfAgent, OfRun, AskedPayouts, Paging<PayoutSort>),
    responses((status = 200, description = "One page", body = Page<PayoutShown>))
)]
#[get("/api/platform-manager/agent/payouts")]
pub async fn list_payouts(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    Both(Both(Query(of), Query(made_by)), listed): Both<Both<Query<OfAgent>, Query<OfRun>>, Listed>,
) -> Result<impl Responder, Error> {
    list(&app, of.agent_user_id.map(|id| id.0), made_by.run_id.map(|id| id.0), listed).await
}
