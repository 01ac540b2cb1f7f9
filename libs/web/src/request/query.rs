//! Queries. Each member may occur once, and each refusal has a JSON pointer, as in a body.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use serde::de::DeserializeOwned;
use serde::de::value::Error;
use values::collect_errors;

use crate::request::diagnosis::{read_collecting_errors, to_field_error};
use crate::request::fields::Fields;
use crate::request::strict::Strict;
use crate::response::problem::Problem;

/// A value that is read from a query.
pub trait FromQuery: Sized {
    /// Reads the value from the query string.
    ///
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
        read_collecting_errors(|| read(query), to_field_error).map(Self)
    }
}

fn read<T: DeserializeOwned>(query: &str) -> Result<T, Error> {
    T::deserialize(Strict(serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()))))
}

/// A query with rules about several of its members.
pub trait Check {
    /// Records violations of these rules in `fields`.
    ///
    /// The query may have refused members, whose errors are already recorded. A refused member is
    /// `None` if `read_time`, `read_date` or `read_from_str` reads it.
    fn check(&self, fields: &mut Fields);
}

/// The query of a request, whose rules are [checked](Check) after it is read.
pub struct CheckedQuery<T>(pub T);

impl<T: DeserializeOwned + Check> FromQuery for CheckedQuery<T> {
    fn from_query(query: &str) -> Result<Self, Problem> {
        let (query, errors) = collect_errors(|| read::<T>(query), to_field_error);
        let mut fields = Fields::default();
        fields.refuse(errors);
        if let Some(query) = &query {
            query.check(&mut fields);
        }
        fields.finish(query.map(Self))
    }
}

/// Two values read from one query. The errors of both are reported together.
pub struct Both<A, B>(pub A, pub B);

impl<A: FromQuery, B: FromQuery> FromQuery for Both<A, B> {
    fn from_query(query: &str) -> Result<Self, Problem> {
        match (A::from_query(query), B::from_query(query)) {
            (Ok(first), Ok(second)) => Ok(Self(first, second)),
            (Err(first), Err(second)) => {
                let errors =
                    [first, second].iter().flat_map(|problem| problem.details().errors.clone()).collect();
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

impl<T: DeserializeOwned + Check> FromRequest for CheckedQuery<T> {
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

    use super::{Check, CheckedQuery, FromQuery, Query};
    use crate::request::fields::Fields;
    use crate::request::query_value::CommaSeparated;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Filter {
        query: Option<String>,
        #[serde(default)]
        mine: bool,
        limit: u32,
    }

    /// RULE-ALL-017: unknown query parameters are ignored.
    #[test]
    fn unknown_members_are_ignored() {
        let Query(filter) =
            Query::<Filter>::from_query("Limit=3&x=1&Mine=true&x=2&Query=a%20b+%D1%8F").unwrap();
        assert_eq!(filter, Filter { query: Some("a b я".to_owned()), mine: true, limit: 3 });
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Since {
        #[serde(default, deserialize_with = "crate::request::query_value::read_time")]
        since: Option<OffsetDateTime>,
    }

    #[test]
    fn time_that_rfc_3339_cannot_write_in_utc_is_refused() {
        let read =
            |time: &str| Query::<Since>::from_query(&format!("since={time}")).map(|Query(read)| read.since);
        assert_eq!(read("2026-11-22T07:30:00%2B03:00").unwrap(), Some(datetime!(2026-11-22 04:30 UTC)));
        assert!(read("9999-12-31T23:59:59Z").is_ok());
        for invalid in ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00%2B00:01", "2026-11-22", ""] {
            assert!(read(invalid).is_err(), "{invalid}");
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
        statuses: Option<CommaSeparated<Status>>,
    }

    /// RULE-ALL-018: an unknown or empty value is refused.
    #[test]
    fn comma_separated_values_are_read() {
        let Query(read) = Query::<Statuses>::from_query("Statuses=Published,Draft").unwrap();
        assert_eq!(read.statuses, Some(CommaSeparated(vec![Status::Published, Status::Draft])));
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
        #[serde(default, deserialize_with = "crate::request::query_value::read_time")]
        from: Option<OffsetDateTime>,
        #[serde(default, deserialize_with = "crate::request::query_value::read_time")]
        to: Option<OffsetDateTime>,
        #[expect(dead_code, reason = "only reading is tested")]
        statuses: Option<CommaSeparated<Status>>,
    }

    impl Check for Range {
        fn check(&self, fields: &mut Fields) {
            fields.check_range("/To", self.from.as_ref(), self.to.as_ref());
        }
    }

    /// RULE-ALL-019: an empty range is refused beside other errors.
    #[test]
    fn range_is_checked_beside_other_errors() {
        let errors = |query: &str| -> Vec<_> {
            let problem = CheckedQuery::<Range>::from_query(query).err().unwrap();
            let errors = problem.details().errors.iter();
            errors.map(|error| (error.field.clone(), error.invalid.code)).collect()
        };
        let range = "From=2026-11-22T00:00:00Z&To=2026-11-22T00:00:00Z";
        let empty = ("/To".to_owned(), "empty_range");
        assert_eq!(errors(range), std::slice::from_ref(&empty));
        let unknown = ("/Statuses".to_owned(), "unknown_value");
        assert_eq!(errors(&format!("{range}&Statuses=x")), [unknown, empty]);
        let invalid = ("/From".to_owned(), "invalid_type");
        assert_eq!(errors("From=x&To=2026-11-22T00:00:00Z"), [invalid]);
    }

    /// RULE-ALL-017: a refusal names its query parameter.
    #[test]
    fn refusal_names_the_member() {
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
