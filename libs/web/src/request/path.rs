//! Ids in paths.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::web::Path;
use actix_web::{FromRequest, HttpRequest};
use serde::de::DeserializeOwned;
use uuid::Uuid;
use values::Code;

use crate::response::problem::Problem;

/// The refusal of the nil UUID.
///
/// The document of an operation with a query or a body has `VALIDATION_FAILED` anyway. Every other
/// operation declares this refusal.
pub const EMPTY_ID: Code = Code::common(400, "VALIDATION_FAILED").at("/Id", "empty_id");

/// The only id in a path, and never the nil UUID. Bodies use `ids::Reference` instead.
///
/// # Errors
/// `404 NOT_FOUND` for a malformed id, `400 VALIDATION_FAILED` for the nil UUID.
#[derive(Clone, Copy, Debug)]
pub struct PathReference<T>(pub T);

impl<T: DeserializeOwned + Copy + Into<Uuid>> FromRequest for PathReference<T> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let id = Path::<T>::from_request(request, payload).into_inner();
        ready(match id.map(Path::into_inner) {
            Ok(id) if id.into().is_nil() => Err(Problem::from(EMPTY_ID).at(&member_pointer(request))),
            Ok(id) => Ok(Self(id)),
            Err(_) => Err(Problem::not_found()),
        })
    }
}

/// Returns the pointer of the id with its name in bodies: `/DealId` for `{deal_id}`.
fn member_pointer(request: &HttpRequest) -> String {
    let name = request.match_info().iter().next().map_or("id", |(name, _)| name);
    let words = name.split('_').filter_map(|word| word.split_at_checked(1));
    words.fold("/".to_owned(), |member, (first, rest)| member + &first.to_uppercase() + rest)
}

#[cfg(test)]
mod tests {
    use actix_web::FromRequest;
    use actix_web::dev::Payload;
    use actix_web::test::TestRequest;
    use uuid::Uuid;

    use super::PathReference;
    use crate::response::problem::Problem;

    fn read(id: &'static str) -> Result<Uuid, (u16, Option<String>)> {
        let request = TestRequest::default().param("deal_id", id).to_http_request();
        let read = PathReference::<Uuid>::from_request(&request, &mut Payload::None).into_inner();
        let first_field =
            |problem: &Problem| problem.details().errors.first().map(|error| error.field.clone());
        read.map(|id| id.0).map_err(|problem| (problem.code().status, first_field(&problem)))
    }

    /// RULE-ALL-073: a malformed id is 404, and the nil UUID is 400 with the pointer of its member.
    #[test]
    fn nil_id_is_refused_and_malformed_id_is_not_found() {
        let id = "01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3";
        assert_eq!(read(id), Ok(id.parse().unwrap()));
        for nil in ["00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000"] {
            assert_eq!(read(nil), Err((400, Some("/DealId".to_owned()))), "{nil}");
        }
        for malformed in ["x", "", "01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e"] {
            assert_eq!(read(malformed), Err((404, None)), "{malformed}");
        }
    }
}
