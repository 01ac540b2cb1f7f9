//! The internal port: claims for the token issuer.

use ::db::PipelinedConn;
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, web};
use auth::{Caller, Issuer, UserId};

use crate::app::App;
use crate::db;
use crate::domain::TokenClaims;
use crate::error::Error;

/// Read the claims of a user.
///
/// Accepts any user id. The response reflects every change that was committed before the call.
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
    let (_, record) = lookups.run(async |conn| db::employment::find_record(conn, *id).await).await?;
    Ok(web::Json(TokenClaims::of(*id, record.employment.as_ref(), &app.baseline)))
}
