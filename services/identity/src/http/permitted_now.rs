//! The extractor of reads. Unless the token is recent, it checks the current claims of the actor.

use std::future::Future;
use std::io;
use std::pin::Pin;

use ::db::PipelinedConn;
use ::web::Problem;
use actix_web::dev::Payload;
use actix_web::web::Data;
use actix_web::{FromRequest, HttpRequest};
use auth::{Actor, Permission, Permitted};

use crate::app::App;
use crate::error::{Error, FORBIDDEN};
use crate::ops;

/// A user who meets the requirement `P` of a read, by the token and, unless the token is recent, by
/// the current claims. Other users get status 403.
pub struct PermittedNow<P: Permission>(pub P::Granted);

impl<P: Permission> FromRequest for PermittedNow<P> {
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Error>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let permitted = Permitted::<P>::from_request(request, payload).into_inner();
        let state = request.app_data::<Data<App>>().zip(request.app_data::<Data<PipelinedConn>>());
        let state = state.map(|(app, lookups)| (app.clone(), lookups.clone()));
        Box::pin(async move {
            let actor = permitted?.actor;
            let missing = || Problem::internal(&io::Error::other("the listener has no state"));
            let (app, lookups) = state.ok_or_else(missing)?;
            Ok(Self(check_permitted_now::<P>(&app, &lookups, &actor).await?))
        })
    }
}

/// Checks the requirement `P` of a read as [`PermittedNow`] does.
///
/// # Errors
/// [`FORBIDDEN`] if the actor does not meet `P`.
pub async fn check_permitted_now<P: Permission>(
    app: &App,
    lookups: &PipelinedConn,
    actor: &Actor,
) -> Result<P::Granted, Error> {
    let granted = ops::actor::permit_read::<P>(lookups, actor, &app.baseline, runtime::clock::now()).await?;
    granted.ok_or_else(|| FORBIDDEN.into())
}
