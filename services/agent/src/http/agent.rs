//! Agents and their agencies.

use ::web::{Json, Problem};
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, put, web};
use auth::{CompanyId, Permitted, UserId};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;
use values::Whole;

use crate::app::App;
use crate::domain::{AgentView, ManageCommissions};
use crate::error::Error;
use crate::ops::rate::Change;
use crate::{db, ops};

/// Returns the id unless it is the nil UUID, which no agent has.
///
/// # Errors
/// `404 NOT_FOUND` for the nil UUID.
fn require_agent_id(id: UserId) -> Result<UserId, Problem> {
    if Uuid::from(id).is_nil() { Err(Problem::not_found()) } else { Ok(id) }
}

/// Read an agent.
///
/// Returns the agency whose terms apply. An agent without an entry has no agency, and `Version` 0.
#[utoipa::path(
    tag = "Commissions", params(("agent_user_id" = UserId, Path)),
    responses((status = 200, description = "The agent", body = AgentView))
)]
#[get("/api/platform-manager/agent/agents/{agent_user_id}")]
pub async fn get_agent(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    id: Path<UserId>,
) -> Result<impl Responder, Error> {
    let id = require_agent_id(*id)?;
    let mut conn = app.db.conn().await?;
    let entry = db::agent::find(&mut conn, id).await?;
    Ok(web::Json(AgentView::of(id, entry.as_ref())))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReplaceAgent {
    /// Id of the agent's agency. Without it the agent has no agency.
    #[schema(value_type = Option<CompanyId>)]
    agency_company_id: Option<Reference<CompanyId>>,
    /// Expected version, 0 for no entry yet; any version if absent.
    version: Option<Whole<0, { i64::MAX }>>,
}

/// Replace an agent.
///
/// Sets the agency whose terms apply to later accruals.
/// An equal agency leaves the version unchanged.
#[utoipa::path(
    tag = "Commissions", params(("agent_user_id" = UserId, Path)),
    request_body = ReplaceAgent,
    responses((status = 200, description = "The agent", body = AgentView))
)]
#[put("/api/platform-manager/agent/agents/{agent_user_id}")]
pub async fn replace_agent(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<UserId>,
    body: Json<ReplaceAgent>,
) -> Result<impl Responder, Error> {
    let id = require_agent_id(*id)?;
    let ReplaceAgent { agency_company_id, version } = body.0;
    let agency = agency_company_id.map(|id| id.0);
    let expected_version = version.map(Whole::get);
    let change = Change { by: permitted.actor.user_id, now: clock::now(), expected_version };
    let replace = async |tx: &mut _| ops::rate::replace_agent(tx, id, agency, &change).await;
    Ok(web::Json(app.db.tx(replace).await?))
}
