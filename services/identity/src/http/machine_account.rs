//! Machine accounts of the caller's company.

use std::time::Duration;

use ::db::PipelinedConn;
use ::web::{Both, CommaSeparated, Json, Page, Paging, Problem, Query};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, get, post, put, web};
use auth::{Permitted, UserId};
use serde::{Deserialize, Serialize};
use service::{Idempotency, Reply};
use tokio::time::{Instant, sleep};
use utoipa::{IntoParams, ToSchema};

use super::body_limit::MAX_BODY_BYTES;
use super::permitted_now::PermittedNow;
use crate::app::App;
use crate::db;
use crate::db::machine_account::MachineAccountSort;
use crate::domain::{
    ClientSecret, MachineAccount, MachineAccountName, MachineAccountStatus, MachineRoles, ManageEmployees,
    RoleId,
};
use crate::error::{Error, ISSUER_UNAVAILABLE, MACHINE_ACCOUNT_NOT_FOUND, ROLE_ESCALATION_FORBIDDEN};
use crate::ops;
use crate::ops::machine_account::AccountDetails;

/// Maximum time that a request for a secret waits until the issuer has a new account.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);
const REGISTRATION_POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListMachineAccounts {
    /// Statuses, separated by commas.
    #[param(value_type = Option<Vec<MachineAccountStatus>>, inline, min_items = 1, style = Form, explode = false)]
    statuses: Option<CommaSeparated<MachineAccountStatus>>,
}

impl ListMachineAccounts {
    pub fn statuses(&self) -> Option<&[MachineAccountStatus]> {
        self.statuses.as_ref().map(|statuses| statuses.0.as_slice())
    }
}

/// List the machine accounts of my company.
///
/// The list includes revoked accounts.
#[utoipa::path(
    tag = "Machine accounts", params(ListMachineAccounts, Paging<MachineAccountSort>),
    responses((status = 200, description = "One page", body = Page<MachineAccount>))
)]
#[get("/api/identity/machine-accounts")]
pub async fn list_machine_accounts(
    app: Data<App>,
    permitted: PermittedNow<ManageEmployees>,
    Both(Query(query), paging): Both<Query<ListMachineAccounts>, Paging<MachineAccountSort>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::machine_account::list(&conn, permitted.0, query.statuses(), &paging).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateMachineAccount {
    name: MachineAccountName,
    /// Ids of the roles. The order and repetitions do not count.
    role_ids: MachineRoles,
}

/// Create a machine account.
///
/// A machine account is a program that acts for the company. The caller must hold every permission
/// of the roles. Request the secret of the account afterwards. A company has at most 20 active
/// accounts.
#[utoipa::path(
    tag = "Machine accounts", request_body(content = CreateMachineAccount, description = "At most 64 KiB."),
    responses((status = 201, description = "Created", body = MachineAccount,
            headers(("Location" = String, description = "The machine account"))))
)]
#[post("/api/identity/machine-accounts")]
pub async fn create_machine_account(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    idempotency: Idempotency,
    body: Json<CreateMachineAccount, MAX_BODY_BYTES>,
) -> Result<HttpResponse, Error> {
    let Json(CreateMachineAccount { name, role_ids }) = body;
    let (context, company) = (app.actor_context(&permitted.actor), permitted.granted);
    let details = AccountDetails { name, role_ids: sort_and_dedup(role_ids) };
    let mut refused = Vec::new();
    let create = async |tx: &mut _| {
        let created =
            ops::machine_account::create_machine_account(tx, &context, company, details, &mut refused)
                .await?;
        let location = format!("/api/identity/machine-accounts/{}", created.id);
        Ok(Reply::created(created).at(location))
    };
    let response = idempotency.run(&app.db, create).await;
    if response.as_ref().is_err_and(|error| error.is(ROLE_ESCALATION_FORBIDDEN)) {
        app.db
            .tx(async |tx| {
                ops::machine_account::record_refused_roles(tx, &context, company, None, &refused).await
            })
            .await?;
    }
    response
}

/// Read a machine account of my company.
///
/// Returns 404 for a machine account of another company.
#[utoipa::path(
    tag = "Machine accounts", params(("account_id" = UserId, Path, description = "Id of the machine account.")),
    responses((status = 200, description = "The machine account", body = MachineAccount))
)]
#[get("/api/identity/machine-accounts/{account_id}")]
pub async fn get_machine_account(
    permitted: PermittedNow<ManageEmployees>,
    id: Path<UserId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found = lookups.run(async |conn| db::machine_account::look_up(conn, *id).await).await?;
    let own = found.filter(|account| account.company_id == permitted.0);
    Ok(web::Json(own.ok_or(MACHINE_ACCOUNT_NOT_FOUND)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateMachineAccount {
    name: MachineAccountName,
    /// Ids of the roles. The order and repetitions do not count.
    role_ids: MachineRoles,
    /// Version that the caller has read. Another stored version returns 409, unless the content is
    /// already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Update a machine account.
///
/// Replaces all members. An identical body changes nothing and keeps the version. The caller must
/// hold every permission of a new role. The loss of a role ends the rights of all tokens that the
/// account has.
#[utoipa::path(
    tag = "Machine accounts", params(("account_id" = UserId, Path, description = "Id of the machine account.")),
    request_body(content = UpdateMachineAccount, description = "At most 64 KiB."),
    responses((status = 200, description = "The machine account after the change", body = MachineAccount))
)]
#[put("/api/identity/machine-accounts/{account_id}")]
pub async fn update_machine_account(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
    body: Json<UpdateMachineAccount, MAX_BODY_BYTES>,
) -> Result<impl Responder, Error> {
    let Json(UpdateMachineAccount { name, role_ids, version }) = body;
    let (context, company) = (app.actor_context(&permitted.actor), permitted.granted);
    let details = AccountDetails { name, role_ids: sort_and_dedup(role_ids) };
    let mut refused = Vec::new();
    let update = async |tx: &mut _| {
        let refused = &mut refused;
        ops::machine_account::update_machine_account(tx, &context, company, *id, version, details, refused)
            .await
    };
    let updated = app.db.tx(update).await;
    if updated.as_ref().is_err_and(|error: &Error| error.is(ROLE_ESCALATION_FORBIDDEN)) {
        app.db
            .tx(async |tx| {
                ops::machine_account::record_refused_roles(tx, &context, company, Some(*id), &refused).await
            })
            .await?;
    }
    Ok(web::Json(updated?))
}

/// The client credentials of a machine account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MachineAccountSecret {
    /// Id of the machine account.
    client_id: UserId,
    /// The secret. No operation returns it again.
    #[schema(value_type = String, example = "vIGDNJtGOshoWRY54Rpt116A2PeyO5Wd")]
    client_secret: ClientSecret,
}

/// Create the secret of a machine account.
///
/// The token issuer creates a new secret and returns tokens for it with the grant
/// `client_credentials`. The previous secret ends at once, and so do the rights of all tokens that
/// the account has. The caller must hold every permission of the roles. Repeat the request if it
/// fails.
#[utoipa::path(
    tag = "Machine accounts", params(("account_id" = UserId, Path, description = "Id of the machine account.")),
    responses((status = 200, description = "The credentials", body = MachineAccountSecret))
)]
#[post("/api/identity/machine-accounts/{account_id}/secret")]
pub async fn create_machine_account_secret(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
) -> Result<impl Responder, Error> {
    let (context, company) = (app.actor_context(&permitted.actor), permitted.granted);
    app.db.tx(async |tx| ops::machine_account::request_secret(tx, &context, company, *id).await).await?;
    let created = create_secret(&app, *id).await;
    // The issuer may have replaced the secret even after an error.
    app.db.tx(async |tx| ops::machine_account::revoke_issued_tokens(tx, *id).await).await?;
    Ok(web::Json(MachineAccountSecret { client_id: *id, client_secret: created? }))
}

/// Requests a secret from the issuer. Waits while the job has not registered a new account yet.
async fn create_secret(app: &App, id: UserId) -> Result<ClientSecret, Error> {
    let clients = app.issuer_clients.as_ref().ok_or(ISSUER_UNAVAILABLE)?;
    let deadline = Instant::now() + REGISTRATION_TIMEOUT;
    loop {
        match clients.create_secret(id).await {
            Ok(Some(secret)) => return Ok(secret),
            Ok(None) if Instant::now() < deadline => sleep(REGISTRATION_POLL_INTERVAL).await,
            Ok(None) => return Err(ISSUER_UNAVAILABLE.into()),
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "failed to create the secret of a machine account"
                );
                return Err(Problem::from(ISSUER_UNAVAILABLE).into());
            }
        }
    }
}

/// Revoke a machine account.
///
/// Ends the rights of all its tokens and deletes its client at the token issuer. A revoked account
/// stays readable and cannot be activated again.
#[utoipa::path(
    tag = "Machine accounts", params(("account_id" = UserId, Path, description = "Id of the machine account.")),
    responses((status = 200, description = "The machine account after the change", body = MachineAccount))
)]
#[post("/api/identity/machine-accounts/{account_id}/revoke")]
pub async fn revoke_machine_account(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
) -> Result<impl Responder, Error> {
    let (context, company) = (app.actor_context(&permitted.actor), permitted.granted);
    let revoke =
        async |tx: &mut _| ops::machine_account::revoke_machine_account(tx, &context, company, *id).await;
    Ok(web::Json(app.db.tx(revoke).await?))
}

fn sort_and_dedup(role_ids: MachineRoles) -> Vec<RoleId> {
    let mut role_ids = role_ids.into_inner();
    role_ids.sort_unstable();
    role_ids.dedup();
    role_ids
}
