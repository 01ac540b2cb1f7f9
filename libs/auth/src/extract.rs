//! Extractors: a handler that takes one has said who may come in.

use std::future::{Ready, ready};
use std::marker::PhantomData;
use std::sync::Arc;

use ::web::{KnownCaller, Problem};
use actix_web::body::MessageBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::AUTHORIZATION;
use actix_web::middleware::Next;
use actix_web::{Error, FromRequest, HttpMessage, HttpRequest, web};
use time::OffsetDateTime;

use crate::verifier::{Claims, Refusal};
use crate::{CompanyId, Grant, UserId, Verifier};

/// What is known of the caller before any extractor runs.
#[derive(Clone)]
enum Authentication {
    Verified(Arc<Claims>),
    /// A token that does not hold: nobody's.
    Refused,
    /// Not to be answered now, as whomever: the person has used up their allowance (else they would get a
    /// guest's on top), or the token cannot be judged (else its bearer would be shown a guest's answer).
    Stopped(Problem),
}

/// Verifies the token of each request, so that the extractors can answer at once: extractors that
/// wait would be overtaken by those of the body.
///
/// # Errors
/// Those of the handler.
pub async fn authenticate<B: MessageBody>(
    verifier: web::Data<Verifier>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    if let Some(token) = bearer(request.request()) {
        let authentication = match verifier.verify(token).await {
            Ok(claims) => match verifier.check_limit(&claims) {
                Ok(()) => {
                    request.extensions_mut().insert(KnownCaller(claims.sub.clone()));
                    Authentication::Verified(claims)
                }
                Err(limited) => Authentication::Stopped(limited),
            },
            Err(Refusal::Invalid) => Authentication::Refused,
            Err(Refusal::Unavailable(cause)) => Authentication::Stopped(Problem::unavailable(&cause)),
        };
        request.extensions_mut().insert(authentication);
    }
    next.call(request).await
}

fn bearer(request: &HttpRequest) -> Option<&str> {
    let (scheme, token) = request.headers().get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn claims(request: &HttpRequest) -> Result<Arc<Claims>, Problem> {
    match request.extensions().get::<Authentication>() {
        Some(Authentication::Verified(claims)) => Ok(Arc::clone(claims)),
        Some(Authentication::Stopped(problem)) => Err(problem.clone()),
        Some(Authentication::Refused) | None => Err(Problem::unauthorized()),
    }
}

/// A signed-in person.
#[derive(Clone, Debug)]
pub struct Actor {
    pub user_id: UserId,
    /// The company that the person acts for.
    pub company_id: Option<CompanyId>,
    claims: Arc<Claims>,
}

impl Actor {
    /// `None` where `sub` is nobody's id: a machine's.
    pub(crate) fn of(claims: Arc<Claims>) -> Option<Self> {
        Some(Self { user_id: claims.sub.parse().ok()?, company_id: claims.company_id, claims })
    }

    /// Until when the token holds.
    pub fn expires_at(&self) -> OffsetDateTime {
        // A token of the far future has been refused; so this is one that was made by hand.
        OffsetDateTime::from_unix_timestamp(self.claims.exp).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// What the token gives, in whatever scope.
    pub fn grants(&self) -> &[Grant] {
        &self.claims.permissions
    }
}

impl FromRequest for Actor {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(claims(request).and_then(|claims| Self::of(claims).ok_or_else(Problem::unauthorized)))
    }
}

/// Anybody: a handler that takes it is open to the world, and says so. Holds who the caller is, if
/// that is known; a token that does not hold makes a guest, not an error. One that cannot be judged is 503.
#[derive(Clone, Debug)]
pub struct Guest {
    pub actor: Option<Actor>,
}

impl FromRequest for Guest {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(match request.extensions().get::<Authentication>() {
            Some(Authentication::Verified(claims)) => Ok(Self { actor: Actor::of(Arc::clone(claims)) }),
            Some(Authentication::Stopped(problem)) => Err(problem.clone()),
            Some(Authentication::Refused) | None => Ok(Self { actor: None }),
        })
    }
}

/// A service that calls others, by the `client_id` of its machine token.
pub trait Client: 'static {
    const ID: &'static str;
}

/// The news service.
pub enum News {}
/// The CRM service.
pub enum Crm {}
/// Whatever issues tokens.
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

/// The service `C`, and no other.
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
