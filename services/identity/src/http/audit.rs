//! The audit log of all companies, and of the caller's company.

use ::web::{Both, Check, CheckedQuery, CommaSeparated, CursorPage, CursorPaging, Fields, unknown_cursor};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{CompanyId, UserId};
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;

use super::permitted_now::PermittedNow;
use crate::app::App;
use crate::db;
use crate::db::audit::{AuditFilter, AuditKey};
use crate::domain::{AuditAction, AuditEntry, ManageEmployees, ReadTenants, SubjectId};
use crate::error::Error;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AuditParameters {
    /// Tenant, user or machine account that the action changed.
    subject_id: Option<SubjectId>,
    /// User who made the change.
    actor_user_id: Option<UserId>,
    /// Actions, separated by commas.
    #[param(value_type = Option<Vec<AuditAction>>, inline, min_items = 1, style = Form, explode = false)]
    actions: Option<CommaSeparated<AuditAction>>,
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<OffsetDateTime>,
    /// Upper bound of `At`, exclusive.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<OffsetDateTime>,
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AuditTenant {
    /// Company that the change concerns.
    tenant_id: Option<CompanyId>,
}

impl Check for AuditParameters {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/To", self.from.as_ref(), self.to.as_ref());
    }
}

impl AuditParameters {
    fn into_filter(self, tenant_id: Option<CompanyId>) -> AuditFilter {
        AuditFilter {
            tenant_id,
            subject_id: self.subject_id,
            actor_user_id: self.actor_user_id,
            actions: self.actions.map(|actions| actions.0),
            from: self.from,
            to: self.to,
        }
    }
}

type AuditQuery<F> = Both<Both<F, CheckedQuery<AuditParameters>>, CursorPaging<AuditKey>>;

/// Reads one page of the log.
///
/// Rejects a cursor of another company's log, unless `company` is `None`.
async fn read_page(
    app: &App,
    company: Option<CompanyId>,
    filter: AuditFilter,
    paging: CursorPaging<AuditKey>,
) -> Result<web::Json<CursorPage<AuditEntry>>, Error> {
    let conn = app.db.conn().await?;
    if let Some(after) = &paging.after
        && !db::audit::contains(&conn, company, after).await?
    {
        return Err(unknown_cursor().into());
    }
    Ok(web::Json(db::audit::list(&conn, filter, &paging).await?))
}

/// Read the audit log.
///
/// Returns a page of entries, newest first. A walk along the cursors returns each entry that was
/// committed before the walk began, exactly once.
#[utoipa::path(
    tag = "Audit", params(AuditTenant, AuditParameters, CursorPaging<AuditKey>),
    responses((status = 200, description = "One page", body = CursorPage<AuditEntry>))
)]
#[get("/api/identity/admin/audit")]
pub async fn list_audit(
    app: Data<App>,
    _: PermittedNow<ReadTenants>,
    Both(Both(tenant, CheckedQuery(query)), paging): AuditQuery<::web::Query<AuditTenant>>,
) -> Result<impl Responder, Error> {
    read_page(&app, None, query.into_filter(tenant.0.tenant_id), paging).await
}

/// Read the audit log of my company.
///
/// Returns a page of entries, newest first. The log includes changes by administrators of the
/// platform.
#[utoipa::path(
    tag = "Audit", params(AuditParameters, CursorPaging<AuditKey>),
    responses((status = 200, description = "One page", body = CursorPage<AuditEntry>))
)]
#[get("/api/identity/audit")]
pub async fn list_company_audit(
    app: Data<App>,
    permitted: PermittedNow<ManageEmployees>,
    Both(CheckedQuery(query), paging): Both<CheckedQuery<AuditParameters>, CursorPaging<AuditKey>>,
) -> Result<impl Responder, Error> {
    let own = Some(permitted.0);
    read_page(&app, own, query.into_filter(own), paging).await
}
