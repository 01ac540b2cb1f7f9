//! External ids in paths, and the responses of upserts.
//!
//! The bodies of upserts repeat the members of an entity instead of flattening a shared struct. For
//! an error in a flattened struct, serde reports the whole object and not the member
//! (RULE-ALL-022).

use std::future::{Ready, ready};

use ::web::Problem;
use actix_web::dev::Payload;
use actix_web::http::header::LOCATION;
use actix_web::web::Path;
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use ids::Reference;
use serde::Serialize;
use values::{Code, FieldError, Invalid};

use crate::domain::{ExternalId, Parent, Upserted};

/// The error for a path segment that is not an external id. Only reads declare it, because
/// operations with a body declare `VALIDATION_FAILED` already.
pub const INVALID_EXTERNAL_ID: Code =
    Code::common(400, "VALIDATION_FAILED").at("/ExternalId", "forbidden_character");

/// The external id in a path that has no other parameter.
///
/// # Errors
/// `400 VALIDATION_FAILED` at `/ExternalId` for any other text.
pub struct PathExternalId(pub ExternalId);

impl FromRequest for PathExternalId {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let text = Path::<String>::from_request(request, payload).into_inner();
        let invalid = |invalid| vec![FieldError { field: "/ExternalId".to_owned(), invalid }];
        ready(match text.map(|text| ExternalId::parse(&text)) {
            Ok(Ok(id)) => Ok(Self(id)),
            Ok(Err(error)) => Err(Problem::validation_failed(invalid(error))),
            Err(_) => Err(Problem::not_found()),
        })
    }
}

/// Returns the parent that a request names by exactly one of its ids.
///
/// # Errors
/// `exactly_one` if the request has both ids or none.
pub fn parent<I>(id: Option<Reference<I>>, external_id: Option<ExternalId>) -> Result<Parent<I>, Invalid> {
    match (id, external_id) {
        (Some(Reference(id)), None) => Ok(Parent::Id(id)),
        (None, Some(id)) => Ok(Parent::ExternalId(id)),
        (Some(_), Some(_)) | (None, None) => Err(Invalid::new("exactly_one")),
    }
}

/// Responds with 201 and the path of the request as `Location` for a new entity, else with 200.
pub fn respond<T: Serialize>(request: &HttpRequest, upserted: Upserted<T>) -> HttpResponse {
    match upserted {
        Upserted::Created(entity) => {
            HttpResponse::Created().insert_header((LOCATION, request.path())).json(entity)
        }
        Upserted::Updated(entity) | Upserted::Unchanged(entity) => HttpResponse::Ok().json(entity),
    }
}
