//! The internal port: what goes into a token.

use ::db::PipelinedConn;
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, web};
use auth::{Caller, Issuer, UserId};

use crate::app::App;
use crate::db;
use crate::domain::TokenClaims;
use crate::error::Error;

/// What a person's token is to say.
///
/// Of anybody, also of nobody's employee. What was committed before the call is in the answer.
#[utoipa::path(
    tag = "Internal", params(("user_id" = UserId, Path)),
    responses((status = 200, description = "The claims", body = TokenClaims))
)]
#[get("/api/v1/internal/users/{user_id}/claims")]
pub async fn get_claims(
    app: Data<App>,
    _: Caller<Issuer>,
    id: Path<UserId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let (_, standing) = lookups.run(async |conn| db::standing::find(conn, *id).await).await?;
    Ok(web::Json(TokenClaims::of(*id, standing.as_ref(), &app.baseline)))
}
