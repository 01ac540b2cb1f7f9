//! Machine accounts of any tenant, for administrators of the platform.

use ::db::PipelinedConn;
use ::web::{Both, Page, Paging, Query};
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, post, web};
use auth::{CompanyId, Permitted, UserId};

use super::machine_account::ListMachineAccounts;
use super::permitted_now::PermittedNow;
use crate::app::App;
use crate::db;
use crate::db::machine_account::MachineAccountSort;
use crate::domain::{MachineAccount, ManageTenants, ReadTenants};
use crate::error::{Error, MACHINE_ACCOUNT_NOT_FOUND};
use crate::ops;

/// List the machine accounts of a tenant.
///
/// The list includes revoked accounts. The list of an unknown tenant is empty.
#[utoipa::path(
    tag = "Tenants",
    params(("tenant_id" = CompanyId, Path), ListMachineAccounts, Paging<MachineAccountSort>),
    responses((status = 200, description = "One page", body = Page<MachineAccount>))
)]
#[get("/api/identity/admin/tenants/{tenant_id}/machine-accounts")]
pub async fn list_tenant_machine_accounts(
    app: Data<App>,
    _: PermittedNow<ReadTenants>,
    id: Path<CompanyId>,
    Both(Query(query), paging): Both<Query<ListMachineAccounts>, Paging<MachineAccountSort>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::machine_account::list(&conn, *id, query.statuses(), &paging).await?))
}

/// Read a machine account of a tenant.
///
/// Returns 404 for a machine account of another tenant.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path), ("account_id" = UserId, Path, description = "Id of the machine account.")),
    responses((status = 200, description = "The machine account", body = MachineAccount))
)]
#[get("/api/identity/admin/tenants/{tenant_id}/machine-accounts/{account_id}")]
pub async fn get_tenant_machine_account(
    _: PermittedNow<ReadTenants>,
    ids: Path<(CompanyId, UserId)>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let (tenant, id) = ids.into_inner();
    let found = lookups.run(async |conn| db::machine_account::look_up(conn, id).await).await?;
    let account = found.filter(|account| account.company_id == tenant);
    Ok(web::Json(account.ok_or(MACHINE_ACCOUNT_NOT_FOUND)?))
}

/// Revoke a machine account of a tenant.
///
/// Applies to a tenant of any status.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path), ("account_id" = UserId, Path, description = "Id of the machine account.")),
    responses((status = 200, description = "The machine account after the change", body = MachineAccount))
)]
#[post("/api/identity/admin/tenants/{tenant_id}/machine-accounts/{account_id}/revoke")]
pub async fn revoke_tenant_machine_account(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    ids: Path<(CompanyId, UserId)>,
) -> Result<impl Responder, Error> {
    let ((tenant, id), context) = (ids.into_inner(), app.actor_context(&permitted.actor));
    let revoke = async |tx: &mut _| {
        ops::machine_account::revoke_machine_account_of_tenant(tx, &context, tenant, id).await
    };
    Ok(web::Json(app.db.tx(revoke).await?))
}
