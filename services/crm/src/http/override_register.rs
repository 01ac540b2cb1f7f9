//! Routes of the register of overrides.

use ::web::{Both, Check, CheckedQuery, CursorPage, CursorPaging, Fields};
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{CompanyId, Permitted, UserId};
use ids::Reference;
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;

use crate::app::App;
use crate::db;
use crate::db::status_override::{OverrideFilter, OverrideKey, OverrideRecord};
use crate::domain::{DealId, ManageDeals};
use crate::error::Error;

/// The filters of the register.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct OverrideFilterParams {
    /// Inclusive lower bound of the time of the override.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_from: Option<OffsetDateTime>,
    /// Exclusive upper bound of the time of the override.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_to: Option<OffsetDateTime>,
    /// Id of the platform manager.
    #[param(value_type = Option<UserId>)]
    actor_user_id: Option<Reference<UserId>>,
    /// Company id of the developer. By default the overrides of all developers' deals.
    #[param(value_type = Option<CompanyId>)]
    tenant_id: Option<Reference<CompanyId>>,
    #[param(value_type = Option<DealId>)]
    deal_id: Option<Reference<DealId>>,
}

impl Check for OverrideFilterParams {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/CreatedTo", self.created_from.as_ref(), self.created_to.as_ref());
    }
}

impl From<OverrideFilterParams> for OverrideFilter {
    fn from(params: OverrideFilterParams) -> Self {
        Self {
            created_from: params.created_from,
            created_to: params.created_to,
            actor_user_id: params.actor_user_id.map(|id| id.0),
            tenant_id: params.tenant_id.map(|id| id.0),
            deal_id: params.deal_id.map(|id| id.0),
        }
    }
}

/// List overrides.
///
/// The register of all status overrides, newest first. An override must match all filters.
#[utoipa::path(
    tag = "Overrides", params(OverrideFilterParams, CursorPaging<OverrideKey>),
    responses((status = 200, description = "One page", body = CursorPage<OverrideRecord>))
)]
#[get("/api/platform-manager/crm/status-overrides", wrap = "from_fn(auth::expensive)")]
pub async fn list_status_overrides(
    app: Data<App>,
    _: Permitted<ManageDeals>,
    Both(CheckedQuery(filter), paging): Both<CheckedQuery<OverrideFilterParams>, CursorPaging<OverrideKey>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::status_override::list(&conn, filter.into(), &paging).await?))
}
