//! Members of a query in, each at most once, with each refusal named as in a body.

use std::future::{Ready, ready};
use std::str::FromStr;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

use crate::Problem;
use crate::json::{blame, gather};

/// The query of a request. Members that `T` does not have are ignored.
///
/// # Errors
/// `400 VALIDATION_FAILED`
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> Query<T> {
    pub(crate) fn parse(query: &str) -> Result<Self, Problem> {
        gather(|| {
            let members = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
            let parsed = serde_path_to_error::deserialize(members);
            parsed.map(Self).map_err(|error| blame(error.path(), &error.inner().to_string()))
        })
    }
}

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::parse(request.query_string()))
    }
}

/// Several values of one member, separated by commas: `?Statuses=Draft,Published`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several<T>(pub Vec<T>);

impl<'de, T: FromStr> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(words: D) -> Result<Self, D::Error> {
        let words = String::deserialize(words)?;
        let values = words.split(',').map(str::parse).collect::<Result<_, _>>();
        // As serde says of one value that is none of an enum's.
        values.map(Self).map_err(|_| D::Error::unknown_variant("", &[]))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{Query, Several};

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Filter {
        query: Option<String>,
        #[serde(default)]
        mine: bool,
        limit: u32,
    }

    #[test]
    fn members_are_read_whatever_stands_beside_them() {
        let Query(filter) = Query::<Filter>::parse("Limit=3&x=1&Mine=true&x=2&Query=a%20b+%D1%8F").unwrap();
        assert_eq!(filter, Filter { query: Some("a b я".to_owned()), mine: true, limit: 3 });
    }

    #[derive(Debug, PartialEq, Eq, strum::EnumString)]
    enum Status {
        Draft,
        Published,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Statuses {
        statuses: Option<Several<Status>>,
    }

    /// Paging: several values of an enum are separated by commas; an unknown or empty one is refused.
    #[test]
    fn several_values_are_separated_by_commas() {
        let Query(read) = Query::<Statuses>::parse("Statuses=Published,Draft").unwrap();
        assert_eq!(read.statuses, Some(Several(vec![Status::Published, Status::Draft])));
        assert_eq!(Query::<Statuses>::parse("").unwrap().0.statuses, None);
        for query in ["", ",", "Draft,", "draft", "Draft,,Published", "Draft, Published", "Draft;Published"] {
            let problem = Query::<Statuses>::parse(&format!("Statuses={query}")).err().unwrap();
            let error = &problem.details().errors[0];
            assert_eq!((error.field.as_str(), error.invalid.code), ("/Statuses", "unknown_value"), "{query}");
        }
    }

    #[test]
    fn a_refusal_names_the_member() {
        for (query, field, code) in [
            ("Limit=3&Query=a&Query=b", "/Query", "duplicate"),
            ("Limit=3&Limit=3", "/Limit", "duplicate"),
            ("Limit=3&Mine=True", "/Mine", "invalid_type"),
            ("Limit=3&Mine=", "/Mine", "invalid_type"),
            ("Limit=-1", "/Limit", "invalid_type"),
            ("limit=3", "/Limit", "required"),
        ] {
            let problem = Query::<Filter>::parse(query).err().unwrap();
            let error = &problem.details().errors[0];
            assert_eq!((error.field.as_str(), error.invalid.code), (field, code), "{query}");
        }
    }
}
