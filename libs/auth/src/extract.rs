//! Extractors. The types of a handler's arguments declare who may call the handler.

use std::future::{Ready, ready};
use std::marker::PhantomData;
use std::sync::Arc;

use ::web::{AuthenticatedCaller, Problem};
use actix_web::body::MessageBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::AUTHORIZATION;
use actix_web::middleware::Next;
use actix_web::{Error, FromRequest, HttpMessage, HttpRequest, web};
use time::OffsetDateTime;

use crate::grant::Grant;
use crate::id::{CompanyId, UserId};
use crate::revocations::Revocations;
use crate::verification_error::VerificationError;
use crate::verifier::{Claims, Verifier};

#[cfg(test)]
mod tests;

/// The result of the authentication, for the extractors.
#[derive(Clone)]
enum Authentication {
    Verified(Arc<Claims>),
    /// The token is invalid. Operations for guests treat the caller as a guest.
    Invalid,
    /// Operations for guests also reject the request, for one of two reasons.
    ///
    /// - The user has exceeded the rate limit. Treated as a guest, the user would evade it.
    /// - The token cannot be verified now. A guest's response could lack data of the user.
    Failed(Problem),
}

/// Verifies the token of each request before the extractors run.
///
/// The extractors of a handler run concurrently. If one of them verified the token, the extractor
/// of the body could read the body of an unknown caller.
pub async fn authenticate<B: MessageBody>(
    verifier: web::Data<Verifier>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    if let Some(token) = bearer(request.request()) {
        let authentication = match verifier.verify(token).await {
            Ok(claims) => match verifier.check_limit(&claims) {
                Ok(()) => {
                    request.extensions_mut().insert(AuthenticatedCaller(claims.sub.clone()));
                    Authentication::Verified(claims)
                }
                Err(limited) => Authentication::Failed(limited),
            },
            Err(VerificationError::Invalid) => Authentication::Invalid,
            Err(VerificationError::Unavailable(cause)) => {
                Authentication::Failed(Problem::unavailable(&cause))
            }
        };
        request.extensions_mut().insert(authentication);
    }
    next.call(request).await
}

/// Wraps a route that costs much more than others, such as a search or an export, as in
/// `#[get("…", wrap = "from_fn(auth::expensive)")]`.
///
/// A user has a rate limit for such requests beside the limit of all requests. This middleware does
/// not limit guests: the handler limits them by their address.
pub async fn expensive<B: MessageBody>(
    verifier: web::Data<Verifier>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let limited = match request.extensions().get::<Authentication>() {
        Some(Authentication::Verified(claims)) => verifier.check_expensive_limit(claims).err(),
        Some(Authentication::Invalid | Authentication::Failed(_)) | None => None,
    };
    if let Some(limited) = limited {
        request.extensions_mut().insert(Authentication::Failed(limited));
    }
    next.call(request).await
}

/// Returns the bearer token of a request.
fn bearer(request: &HttpRequest) -> Option<&str> {
    let (scheme, token) = request.headers().get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn claims(request: &HttpRequest) -> Result<Arc<Claims>, Problem> {
    match request.extensions().get::<Authentication>() {
        Some(Authentication::Verified(claims)) => Ok(Arc::clone(claims)),
        Some(Authentication::Failed(problem)) => Err(problem.clone()),
        Some(Authentication::Invalid) | None => Err(Problem::unauthorized()),
    }
}

/// The signed-in user of a request.
#[derive(Clone, Debug)]
pub struct Actor {
    pub user_id: UserId,
    /// The company that the user acts for.
    pub company_id: Option<CompanyId>,
    claims: Arc<Claims>,
}

impl Actor {
    /// Returns `None` if `sub` is not a user's id, as in machine tokens.
    pub(crate) fn from_claims(claims: Arc<Claims>) -> Option<Self> {
        Some(Self { user_id: claims.sub.parse().ok()?, company_id: claims.company_id, claims })
    }

    /// Returns the expiry time of the token.
    pub fn expires_at(&self) -> OffsetDateTime {
        // A verified token has a valid time, so only tests need the default.
        OffsetDateTime::from_unix_timestamp(self.claims.exp).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// Returns the time of the token's issue, in whole seconds since 1970.
    pub fn issued_at(&self) -> i64 {
        self.claims.iat
    }

    /// Returns the user with these grants instead of those of the token.
    #[must_use]
    pub fn with_grants(&self, permissions: Vec<Grant>) -> Self {
        let claims = Claims { permissions, ..(*self.claims).clone() };
        Self { claims: Arc::new(claims), ..*self }
    }

    /// Returns the grants of the token, in all scopes.
    pub fn grants(&self) -> &[Grant] {
        &self.claims.permissions
    }
}

impl Revocations {
    /// Returns true if the user's token has been revoked since its verification. The handler of an
    /// open stream then ends the stream.
    pub fn revokes(&self, actor: &Actor) -> bool {
        self.check(actor.user_id, actor.company_id, actor.issued_at()).is_err()
    }
}

impl FromRequest for Actor {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(claims(request).and_then(|claims| Self::from_claims(claims).ok_or_else(Problem::unauthorized)))
    }
}

/// Any caller: the operation is public.
///
/// A caller with an invalid token is a guest. A caller whose token cannot be verified now gets
/// status 503.
#[derive(Clone, Debug)]
pub struct AnyCaller {
    /// The user, if the request has a valid token.
    pub actor: Option<Actor>,
}

impl FromRequest for AnyCaller {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(match request.extensions().get::<Authentication>() {
            Some(Authentication::Verified(claims)) => {
                Ok(Self { actor: Actor::from_claims(Arc::clone(claims)) })
            }
            Some(Authentication::Failed(problem)) => Err(problem.clone()),
            Some(Authentication::Invalid) | None => Ok(Self { actor: None }),
        })
    }
}

/// A guest or a user, for an operation that shows some users more than guests.
///
/// A request without `Authorization` comes from a guest. An invalid token gets status 401.
/// Otherwise its user could mistake a guest's response for the complete one.
#[derive(Clone, Debug)]
pub struct OptionalActor {
    /// The user, if the request has a token.
    pub actor: Option<Actor>,
}

impl FromRequest for OptionalActor {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        if !request.headers().contains_key(AUTHORIZATION) {
            return ready(Ok(Self { actor: None }));
        }
        ready(Actor::from_request(request, payload).into_inner().map(|actor| Self { actor: Some(actor) }))
    }
}

/// A caller of internal operations, identified by the `client_id` of its machine token.
pub trait Client: 'static {
    const ID: &'static str;
}

pub enum News {}
pub enum Crm {}
/// The token issuer.
pub enum Issuer {}

impl Client for News {
    const ID: &'static str = "news";
}

impl Client for Crm {
    const ID: &'static str = "crm";
}

impl Client for Issuer {
    const ID: &'static str = "issuer";
}

/// The service `C`. Other services get status 403.
pub struct Caller<C>(PhantomData<C>);

impl<C: Client> FromRequest for Caller<C> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let caller = claims(request).and_then(|claims| match claims.client_id.as_deref() {
            Some(id) if id == C::ID => Ok(Self(PhantomData)),
            _ => Err(Problem::forbidden()),
        });
        ready(caller)
    }
}
