//! By whose terms agents are paid.

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
use crate::domain::{AgentShown, ManageCommissions};
use crate::error::Error;
use crate::ops::rate::Change;
use crate::{db, ops};

/// Whoever has an id may be an agent; the empty one is nobody's.
fn somebody(id: UserId) -> Result<UserId, Problem> {
    if Uuid::from(id).is_nil() { Err(Problem::not_found()) } else { Ok(id) }
}

/// Read by whose terms an agent is paid.
///
/// Nobody need be entered: who never was has no agency, and `Version` 0.
#[utoipa::path(
    tag = "Commissions", params(("agent_user_id" = UserId, Path)),
    responses((status = 200, description = "As it is entered", body = AgentShown))
)]
#[get("/api/platform-manager/agent/agents/{agent_user_id}")]
pub async fn get_agent(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    id: Path<UserId>,
) -> Result<impl Responder, Error> {
    let id = somebody(*id)?;
    let mut conn = app.db.conn().await?;
    let entered = db::agent::find(&mut conn, id).await?;
    Ok(web::Json(AgentShown::of(id, entered.as_ref())))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReplaceAgent {
    #[schema(value_type = Option<CompanyId>)]
    agency_company_id: Option<Reference<CompanyId>>,
    /// The one that it is entered over, 0 for none yet; any, where it is left out.
    version: Option<Whole<0, { i64::MAX }>>,
}

/// Enter by whose terms an agent is paid.
///
/// It counts for what is accrued from now on. The same again changes nothing.
#[utoipa::path(
    tag = "Commissions", params(("agent_user_id" = UserId, Path)),
    request_body(content = ReplaceAgent, description = "At most 256 KiB."),
    responses((status = 200, description = "As it is entered", body = AgentShown))
)]
#[put("/api/platform-manager/agent/agents/{agent_user_id}")]
pub async fn replace_agent(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<UserId>,
    body: Json<ReplaceAgent>,
) -> Result<impl Responder, Error> {
    let id = somebody(*id)?;
    let ReplaceAgent { agency_company_id, version } = body.0;
    let agency = agency_company_id.map(|id| id.0);
    let change = Change { by: permitted.actor.user_id, now: clock::now(), version: version.map(Whole::get) };
    let replace = async |tx: &mut _| ops::rate::replace_agent(tx, id, agency, &change).await;
    Ok(web::Json(app.db.tx(replace).await?))
}
