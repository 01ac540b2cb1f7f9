//! Callers who read their own data.

use ::db::PipelinedConn;
use ::web::Problem;
use actix_web::dev::Payload;
use actix_web::web::Data;
use actix_web::{Error, FromRequest, HttpRequest};
use auth::{Actor, Permission, UserId};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use crate::db;
use crate::domain::UseCabinet;

/// The part of their own data that callers may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything, with the permission of the cabinet.
    All,
    /// Without the permission: the accruals and payouts that are not settled yet (INV-AGT-11).
    Owed,
}

/// A caller who reads their own data: an agent, or a former agent who is still owed money.
///
/// Other callers get status 403 before `Q` is read from the request.
pub struct Own<Q> {
    pub agent: UserId,
    pub extent: Extent,
    pub query: Q,
}

impl<Q: FromRequest + 'static> FromRequest for Own<Q> {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self, Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        async move {
            let actor = Actor::extract(&request).await?;
            let agent = actor.user_id;
            let extent = match UseCabinet::granted(&actor) {
                Some(()) => Extent::All,
                None if is_owed(&request, agent).await? => Extent::Owed,
                None => return Err(Problem::forbidden().into()),
            };
            Ok(Self { agent, extent, query: Q::extract(&request).await.map_err(Into::into)? })
        }
        .boxed_local()
    }
}

async fn is_owed(request: &HttpRequest, agent: UserId) -> Result<bool, Error> {
    let lookups: Data<PipelinedConn> = Data::extract(request).await?;
    let is_owed = lookups.run(async |conn| db::account::is_owed(conn, agent).await).await;
    Ok(is_owed.map_err(crate::error::Error::from)?)
}
