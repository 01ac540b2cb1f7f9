//! Lists without end: `?PageSize=20&Cursor=…` in, `{Items, NextCursor}` out. Each page begins where the last one ended, however
//! deep that is.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};
use values::Invalid;

use crate::request::fields::Fields;
use crate::request::paging::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, in_query, number, page_size_in_query};
use crate::request::query::{FromQuery, Query};
use crate::response::problem::{FieldError, Problem};

/// A longer text is no cursor of ours: names of 256 characters, each six bytes of JSON, and an id beside.
const LONGEST: usize = 4096;

/// Which part of a list is asked for: what comes after the item with the key `K`, by which the list is sorted. A page has
/// `SIZE` items unless the caller asks for another size, of `LARGEST` at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorPaging<K, const SIZE: u32 = DEFAULT_PAGE_SIZE, const LARGEST: u32 = MAX_PAGE_SIZE> {
    pub page_size: u32,
    pub after: Option<K>,
}

/// One page of a list that has no end.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CursorPage<T> {
    pub items: Vec<T>,
    /// For `Cursor` of the next page; `null` at the end.
    pub next_cursor: Option<String>,
}

impl<K: Serialize, const SIZE: u32, const LARGEST: u32> CursorPaging<K, SIZE, LARGEST> {
    /// How many to read: one more than are shown, which tells whether there is a next page.
    pub fn limit(&self) -> i64 {
        i64::from(self.page_size) + 1
    }

    /// The same where the page is of the size that most ask for.
    pub fn usual_limit(&self) -> Option<u32> {
        (self.page_size == SIZE).then_some(SIZE + 1)
    }

    /// The answer, of so many as were read.
    pub fn page<T>(&self, mut items: Vec<T>, key: impl FnOnce(&T) -> K) -> CursorPage<T> {
        let page_size = self.page_size as usize;
        let more = items.len() > page_size;
        items.truncate(page_size);
        let last = items.last().filter(|_| more);
        // A key is written as JSON without fail: ids, times and numbers are.
        let cursor = last.and_then(|last| serde_json::to_vec(&key(last)).ok());
        CursorPage { items, next_cursor: cursor.map(|key| BASE64_URL_SAFE_NO_PAD.encode(key)) }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Raw {
    page_size: Option<String>,
    cursor: Option<String>,
}

impl<K: DeserializeOwned, const SIZE: u32, const LARGEST: u32> CursorPaging<K, SIZE, LARGEST> {
    fn parse(raw: &Raw) -> Result<Self, Problem> {
        let mut fields = Fields::default();
        let page_size = fields.check("/PageSize", number(raw.page_size.as_deref(), SIZE, LARGEST));
        let after = fields.check("/Cursor", raw.cursor.as_deref().map(key).transpose());
        fields.finish(page_size.zip(after).map(|(page_size, after)| Self { page_size, after }))
    }
}

/// The refusal of a cursor that was not given out for such a walk.
pub fn unknown_cursor() -> Problem {
    let invalid = Invalid::new("unknown_value");
    Problem::validation_failed(vec![FieldError { field: "/Cursor".to_owned(), invalid }])
}

fn key<K: DeserializeOwned>(cursor: &str) -> Result<K, Invalid> {
    let json = (cursor.len() <= LONGEST).then(|| BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()).flatten();
    let key = json.and_then(|json| serde_json::from_slice(&json).ok());
    key.ok_or_else(|| Invalid::new("unknown_value"))
}

impl<K: DeserializeOwned, const SIZE: u32, const LARGEST: u32> FromQuery for CursorPaging<K, SIZE, LARGEST> {
    fn from_query(query: &str) -> Result<Self, Problem> {
        Query::from_query(query).and_then(|Query(raw)| Self::parse(&raw))
    }
}

impl<K: DeserializeOwned, const SIZE: u32, const LARGEST: u32> FromRequest
    for CursorPaging<K, SIZE, LARGEST>
{
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::from_query(request.query_string()))
    }
}

impl<K, const SIZE: u32, const LARGEST: u32> IntoParams for CursorPaging<K, SIZE, LARGEST> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let cursor = ObjectBuilder::new().schema_type(Type::String).max_length(Some(LONGEST));
        vec![page_size_in_query(SIZE, LARGEST), in_query("Cursor", cursor)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CursorPaging, Raw};

    fn parse(page_size: u32, cursor: Option<String>) -> Option<CursorPaging<(i64, String)>> {
        CursorPaging::parse(&Raw { page_size: Some(page_size.to_string()), cursor }).ok()
    }

    proptest! {
        /// Paging: whoever follows the cursors meets each item once, in order.
        #[test]
        fn cursors_lead_through_the_whole_list(count in 0_i64..60, page_size in 1_u32..20) {
            let all: Vec<(i64, String)> = (0..count).map(|n| (n, format!("{}{n}", "№".repeat(250)))).collect();
            let (mut met, mut cursor) = (Vec::new(), None);
            loop {
                let paging = parse(page_size, cursor).unwrap();
                let after = all.iter().filter(|item| paging.after.as_ref().is_none_or(|after| *item > after));
                let page = paging.page(after.take(usize::try_from(paging.limit()).unwrap()).cloned().collect(), Clone::clone);
                prop_assert!(page.items.len() <= page_size as usize);
                met.extend(page.items);
                cursor = page.next_cursor;
                if cursor.is_none() { break }
            }
            prop_assert_eq!(met, all);
        }

        /// Paging: a cursor that was not given out is refused, and nothing panics over it.
        #[test]
        fn a_cursor_that_was_not_given_out_is_refused(cursor in "\\PC{1,40}") {
            prop_assert_eq!(parse(20, Some(cursor)), None);
        }
    }

    #[test]
    fn a_cursor_without_end_is_refused() {
        assert_eq!(parse(20, Some("A".repeat(100_000))), None);
    }
}
