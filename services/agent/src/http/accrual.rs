//! Accruals as they are listed: an agent's own, and everybody's for the platform.

use ::web::{Both, Check, Fields, Filter, Page, Paging, Query, Several};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{CompanyId, Permitted, UserId};
use ids::Reference;
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;
use values::Currency;

use crate::app::App;
use crate::db;
use crate::db::accrual_view::{AccrualFilter, AccrualShown, AccrualSort};
use crate::domain::{AccrualKind, AccrualStatus, DealId, ManageCommissions, PayoutId, UseCabinet};
use crate::error::Error;

/// Whose things are listed.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct OfAgent {
    /// Whose; everybody's where nobody is named.
    #[param(value_type = Option<UserId>)]
    pub agent_user_id: Option<Reference<UserId>>,
}

/// Which accruals are listed. What is asked for is joined by "and".
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AskedAccruals {
    /// Separated by commas.
    #[param(value_type = Option<Vec<AccrualStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<Several<AccrualStatus>>,
    /// Separated by commas.
    #[param(value_type = Option<Vec<AccrualKind>>, inline, min_items = 1, style = Form, explode = false)]
    kind: Option<Several<AccrualKind>>,
    #[param(value_type = Option<DealId>)]
    deal_id: Option<Reference<DealId>>,
    #[param(value_type = Option<CompanyId>)]
    developer_company_id: Option<Reference<CompanyId>>,
    #[param(value_type = Option<PayoutId>)]
    payout_id: Option<Reference<PayoutId>>,
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

impl Check for AskedAccruals {
    fn check(&self, fields: &mut Fields) {
        fields.range("/To", self.from.as_ref(), self.to.as_ref());
    }
}

type Listed = Both<Filter<AskedAccruals>, Paging<AccrualSort>>;

async fn list(
    app: &App,
    agent_user_id: Option<UserId>,
    Both(Filter(asked), paging): Listed,
) -> Result<web::Json<Page<AccrualShown>>, Error> {
    let filter = AccrualFilter {
        agent_user_id,
        statuses: asked.status.map(|statuses| statuses.0),
        kinds: asked.kind.map(|kinds| kinds.0),
        deal_id: asked.deal_id.map(|id| id.0),
        developer_company_id: asked.developer_company_id.map(|id| id.0),
        payout_id: asked.payout_id.map(|id| id.0),
        currency: asked.currency,
        created_from: asked.from,
        created_to: asked.to,
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::accrual_view::list(&conn, &filter, &paging).await?))
}

/// List one's own accruals.
///
/// What sales have earned, with what corrects or undoes it.
#[utoipa::path(
    tag = "Cabinet", params(AskedAccruals, Paging<AccrualSort>),
    responses((status = 200, description = "One page", body = Page<AccrualShown>))
)]
#[get("/api/v1/my/commission-accruals")]
pub async fn list_own_accruals(
    app: Data<App>,
    permitted: Permitted<UseCabinet>,
    listed: Listed,
) -> Result<impl Responder, Error> {
    list(&app, Some(permitted.actor.user_id), listed).await
}

/// List accruals.
///
/// Of all agents, or of one.
#[utoipa::path(
    tag = "Commissions", params(OfAgent, AskedAccruals, Paging<AccrualSort>),
    responses((status = 200, description = "One page", body = Page<AccrualShown>))
)]
#[get("/api/platform-manager/agent/commission-accruals")]
pub async fn list_accruals(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(of), listed): Both<Query<OfAgent>, Listed>,
) -> Result<impl Responder, Error> {
    list(&app, of.agent_user_id.map(|id| id.0), listed).await
}
