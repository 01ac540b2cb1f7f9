//! Members of a query in, each at most once, with each refusal named as in a body.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use serde::de::DeserializeOwned;

use crate::request::diagnosis::{blame, gather, gather_all};
use crate::request::fields::Fields;
use crate::response::problem::{FieldError, Problem};

/// What is made of members of a query.
pub trait FromQuery: Sized {
    /// # Errors
    /// `400 VALIDATION_FAILED`
    fn from_query(query: &str) -> Result<Self, Problem>;
}

/// The query of a request. Members that `T` does not have are ignored.
///
/// # Errors
/// `400 VALIDATION_FAILED`
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromQuery for Query<T> {
    fn from_query(query: &str) -> Result<Self, Problem> {
        gather(|| read(query)).map(Self)
    }
}

fn read<T: DeserializeOwned>(query: &str) -> Result<T, FieldError> {
    let members = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
    let parsed = serde_path_to_error::deserialize(members);
    parsed.map_err(|error| blame(error.path(), &error.inner().to_string()))
}

/// A query some of whose members go together.
pub trait Check {
    /// Also of a query of which other members are refused. One that `time`, `date` or `parsed` has refused is as if it had
    /// been left out, so that nothing is told of it twice.
    fn check(&self, fields: &mut Fields);
}

/// As [`Query`], where members must [go together](Check).
pub struct Filter<T>(pub T);

impl<T: DeserializeOwned + Check> FromQuery for Filter<T> {
    fn from_query(query: &str) -> Result<Self, Problem> {
        let (filter, refused) = gather_all(|| read::<T>(query));
        let mut fields = Fields::default();
        fields.refuse(refused);
        if let Some(filter) = &filter {
            filter.check(&mut fields);
        }
        fields.finish(filter.map(Self))
    }
}

/// Two views of one query. All that is wrong with either is told at once.
pub struct Both<A, B>(pub A, pub B);

impl<A: FromQuery, B: FromQuery> FromQuery for Both<A, B> {
    fn from_query(query: &str) -> Result<Self, Problem> {
        match (A::from_query(query), B::from_query(query)) {
            (Ok(one), Ok(other)) => Ok(Self(one, other)),
            (Err(one), Err(other)) => {
                let errors =
                    [one, other].iter().flat_map(|problem| problem.details().errors.clone()).collect();
                Err(Problem::validation_failed(errors))
            }
            (Err(problem), Ok(_)) | (Ok(_), Err(problem)) => Err(problem),
        }
    }
}

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::from_query(request.query_string()))
    }
}

impl<T: DeserializeOwned + Check> FromRequest for Filter<T> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::from_query(request.query_string()))
    }
}

impl<A: FromQuery, B: FromQuery> FromRequest for Both<A, B> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::from_query(request.query_string()))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use time::OffsetDateTime;
    use time::macros::datetime;

    use super::{Check, FromQuery, Query};
    use crate::request::fields::Fields;
    use crate::request::query_value::Several;

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
        let Query(filter) =
            Query::<Filter>::from_query("Limit=3&x=1&Mine=true&x=2&Query=a%20b+%D1%8F").unwrap();
        assert_eq!(filter, Filter { query: Some("a b я".to_owned()), mine: true, limit: 3 });
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Since {
        #[serde(default, deserialize_with = "crate::request::query_value::time")]
        since: Option<OffsetDateTime>,
    }

    #[test]
    fn a_time_is_one_that_utc_has() {
        let read =
            |time: &str| Query::<Since>::from_query(&format!("since={time}")).map(|Query(read)| read.since);
        assert_eq!(read("2026-11-22T07:30:00%2B03:00").unwrap(), Some(datetime!(2026-11-22 04:30 UTC)));
        assert!(read("9999-12-31T23:59:59Z").is_ok());
        for none in ["9999-12-31T23:59:59-00:01", "2026-11-22", ""] {
            assert!(read(none).is_err(), "{none}");
        }
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
        let Query(read) = Query::<Statuses>::from_query("Statuses=Published,Draft").unwrap();
        assert_eq!(read.statuses, Some(Several(vec![Status::Published, Status::Draft])));
        assert_eq!(Query::<Statuses>::from_query("").unwrap().0.statuses, None);
        for query in ["", ",", "Draft,", "draft", "Draft,,Published", "Draft, Published", "Draft;Published"] {
            let problem = Query::<Statuses>::from_query(&format!("Statuses={query}")).err().unwrap();
            let error = &problem.details().errors[0];
            assert_eq!((error.field.as_str(), error.invalid.code), ("/Statuses", "unknown_value"), "{query}");
        }
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Range {
        #[serde(default, deserialize_with = "crate::request::query_value::time")]
        from: Option<OffsetDateTime>,
        #[serde(default, deserialize_with = "crate::request::query_value::time")]
        to: Option<OffsetDateTime>,
        #[expect(dead_code, reason = "only reading is tested")]
        statuses: Option<Several<Status>>,
    }

    impl Check for Range {
        fn check(&self, fields: &mut Fields) {
            fields.range("/To", self.from.as_ref(), self.to.as_ref());
        }
    }

    #[test]
    fn what_goes_together_is_checked_whatever_else_is_wrong() {
        let told = |query: &str| -> Vec<_> {
            let problem = super::Filter::<Range>::from_query(query).err().unwrap();
            let told = problem.details().errors.iter();
            told.map(|error| (error.field.clone(), error.invalid.code)).collect()
        };
        let range = "From=2026-11-22T00:00:00Z&To=2026-11-22T00:00:00Z";
        let empty = ("/To".to_owned(), "empty_range");
        assert_eq!(told(range), std::slice::from_ref(&empty));
        let unknown = ("/Statuses".to_owned(), "unknown_value");
        assert_eq!(told(&format!("{range}&Statuses=x")), [unknown, empty]);
        let wrong = ("/From".to_owned(), "invalid_type");
        assert_eq!(told("From=x&To=2026-11-22T00:00:00Z"), [wrong]);
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
            let problem = Query::<Filter>::from_query(query).err().unwrap();
            let error = &problem.details().errors[0];
            assert_eq!((error.field.as_str(), error.invalid.code), (field, code), "{query}");
        }
    }
}
