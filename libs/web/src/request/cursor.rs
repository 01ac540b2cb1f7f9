//! Cursor pagination: `?PageSize=20&Cursor=…` in, `{Items, NextCursor}` out.
//!
//! Each page starts after the last item of the previous one, so a late page costs as much as the
//! first.

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
use values::{FieldError, Invalid};

use crate::request::fields::Fields;
use crate::request::paging::{
    DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, page_size_parameter, parse_number, query_parameter,
};
use crate::request::query::{FromQuery, Query};
use crate::response::problem::Problem;

/// The maximum length of a cursor.
///
/// The longest key has a name of 256 characters, up to six bytes each in JSON, and an id.
const MAX_CURSOR_BYTES: usize = 4096;

/// The requested page of a list that is sorted by the key `K`: the items after `after`.
///
/// A page has `SIZE` items by default and `MAX_SIZE` at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorPaging<K, const SIZE: u32 = DEFAULT_PAGE_SIZE, const MAX_SIZE: u32 = MAX_PAGE_SIZE> {
    pub page_size: u32,
    pub after: Option<K>,
}

/// One page of a list, with the cursor of the next one.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CursorPage<T> {
    /// The entries of this page.
    pub items: Vec<T>,
    /// The `Cursor` of the next page. `null` on the last page.
    pub next_cursor: Option<String>,
}

impl<K: Serialize, const SIZE: u32, const MAX_SIZE: u32> CursorPaging<K, SIZE, MAX_SIZE> {
    /// Returns the number of items to read: one more than the page has, to detect a next page.
    pub fn limit(&self) -> i64 {
        i64::from(self.page_size) + 1
    }

    /// Returns [`limit`](Self::limit) if the page has the default size. The SQL query can then
    /// contain the limit as a constant.
    pub fn default_limit(&self) -> Option<u32> {
        (self.page_size == SIZE).then_some(SIZE + 1)
    }

    /// Returns the page of `items`, which were read with [`limit`](Self::limit).
    pub fn page<T>(&self, mut items: Vec<T>, key: impl FnOnce(&T) -> K) -> CursorPage<T> {
        let page_size = self.page_size as usize;
        let has_next = items.len() > page_size;
        items.truncate(page_size);
        let last = items.last().filter(|_| has_next);
        // Serializing a key does not fail, because it consists of ids, times, numbers and texts.
        let cursor = last.and_then(|last| serde_json::to_vec(&key(last)).ok());
        CursorPage { items, next_cursor: cursor.map(|key| BASE64_URL_SAFE_NO_PAD.encode(key)) }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawPaging {
    page_size: Option<String>,
    cursor: Option<String>,
}

impl<K: DeserializeOwned, const SIZE: u32, const MAX_SIZE: u32> CursorPaging<K, SIZE, MAX_SIZE> {
    fn parse(raw: &RawPaging) -> Result<Self, Problem> {
        let mut fields = Fields::default();
        let page_size = fields.check("/PageSize", parse_number(raw.page_size.as_deref(), SIZE, MAX_SIZE));
        let after = fields.check("/Cursor", raw.cursor.as_deref().map(decode_key).transpose());
        fields.finish(page_size.zip(after).map(|(page_size, after)| Self { page_size, after }))
    }
}

/// Returns the refusal of a cursor that belongs to another list or order.
pub fn unknown_cursor() -> Problem {
    let invalid = Invalid::new("unknown_value");
    Problem::validation_failed(vec![FieldError { field: "/Cursor".to_owned(), invalid }])
}

fn decode_key<K: DeserializeOwned>(cursor: &str) -> Result<K, Invalid> {
    let json =
        (cursor.len() <= MAX_CURSOR_BYTES).then(|| BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()).flatten();
    let key = json.and_then(|json| serde_json::from_slice(&json).ok());
    key.ok_or_else(|| Invalid::new("unknown_value"))
}

impl<K: DeserializeOwned, const SIZE: u32, const MAX_SIZE: u32> FromQuery
    for CursorPaging<K, SIZE, MAX_SIZE>
{
    fn from_query(query: &str) -> Result<Self, Problem> {
        Query::from_query(query).and_then(|Query(raw)| Self::parse(&raw))
    }
}

impl<K: DeserializeOwned, const SIZE: u32, const MAX_SIZE: u32> FromRequest
    for CursorPaging<K, SIZE, MAX_SIZE>
{
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::from_query(request.query_string()))
    }
}

impl<K, const SIZE: u32, const MAX_SIZE: u32> IntoParams for CursorPaging<K, SIZE, MAX_SIZE> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let cursor = ObjectBuilder::new().schema_type(Type::String).max_length(Some(MAX_CURSOR_BYTES));
        vec![page_size_parameter(SIZE, MAX_SIZE), query_parameter("Cursor", cursor)]
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use proptest::prelude::*;

    use super::{CursorPaging, MAX_CURSOR_BYTES, RawPaging};

    fn parse(page_size: u32, cursor: Option<String>) -> Option<CursorPaging<(i64, String)>> {
        CursorPaging::parse(&RawPaging { page_size: Some(page_size.to_string()), cursor }).ok()
    }

    proptest! {
        /// RULE-ALL-021: a client that follows the cursors reads the whole list.
        #[test]
        fn following_cursors_visits_each_item_once(count in 0_i64..60, page_size in 1_u32..20) {
            let all: Vec<(i64, String)> = (0..count).map(|n| (n, format!("{}{n}", "№".repeat(250)))).collect();
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let paging = parse(page_size, cursor).unwrap();
                let after = all.iter().filter(|item| paging.after.as_ref().is_none_or(|after| *item > after));
                let page = paging.page(after.take(usize::try_from(paging.limit()).unwrap()).cloned().collect(), Clone::clone);
                prop_assert!(page.items.len() <= page_size as usize);
                seen.extend(page.items);
                cursor = page.next_cursor;
                if cursor.is_none() { break }
            }
            prop_assert_eq!(seen, all);
        }

        /// RULE-ALL-021: a cursor that was not issued is refused.
        #[test]
        fn unknown_cursor_is_refused(cursor in "\\PC{1,40}") {
            prop_assert_eq!(parse(20, Some(cursor)), None);
        }
    }

    /// RULE-ALL-021: an oversized cursor is refused.
    #[test]
    fn oversized_cursor_is_refused() {
        let cursor = |length: usize| {
            let key = serde_json::to_vec(&(1, "a".repeat(length))).unwrap();
            parse(20, Some(BASE64_URL_SAFE_NO_PAD.encode(key)))
        };
        assert!(cursor(MAX_CURSOR_BYTES / 2).is_some());
        assert_eq!(cursor(MAX_CURSOR_BYTES), None);
    }
}
