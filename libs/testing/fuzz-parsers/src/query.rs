//! Queries of requests.

use form_urlencoded::Serializer;
use serde::Deserialize;
use strum::{EnumString, VariantNames};
use time::{Date, OffsetDateTime};
use values::{Decimal, Text, Whole};
use web::{Both, Check, CheckedQuery, CommaSeparated, Fields, FromQuery, Limit, Paging, SortKey};

/// The largest product of `Page` and `PageSize`, as in `web`.
const MAX_ITEM_POSITION: u32 = 10_000;

/// A filter with a member of each type that the services' filters have.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Filter {
    #[serde(default, deserialize_with = "web::read_time")]
    from: Option<OffsetDateTime>,
    #[serde(default, deserialize_with = "web::read_time")]
    to: Option<OffsetDateTime>,
    #[serde(default, deserialize_with = "web::read_date")]
    day: Option<Date>,
    #[serde(default, deserialize_with = "web::read_from_str")]
    area: Option<Decimal<2, 0, 100_000_000>>,
    #[serde(default, deserialize_with = "web::read_from_str")]
    floor: Option<Whole<-10, 200>>,
    #[serde(default)]
    limit: Limit,
    #[serde(default)]
    mine: bool,
    query: Option<Text<0, 200>>,
    statuses: Option<CommaSeparated<Status>>,
}

#[derive(Debug, PartialEq, EnumString)]
enum Status {
    Draft,
    Published,
}

#[derive(Clone, Copy, Debug, PartialEq, EnumString, VariantNames)]
enum Sort {
    CreatedAt,
    Name,
}

impl SortKey for Sort {
    const DEFAULT: &'static str = "-CreatedAt";
}

impl Check for Filter {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/To", self.from.as_ref(), self.to.as_ref());
    }
}

/// Reads the query of a list.
///
/// An accepted query has values within their limits. It is read the same after it is encoded again.
pub fn query(data: &[u8]) {
    let Ok(query) = std::str::from_utf8(data) else { return };
    let Some(list) = read(query) else { return };
    let (filter, paging) = &list;
    assert!(paging.page * paging.page_size <= MAX_ITEM_POSITION);
    if let (Some(from), Some(to)) = (filter.from, filter.to) {
        assert!(from < to);
    }
    let mut encoded = Serializer::new(String::new());
    let encoded = encoded.extend_pairs(form_urlencoded::parse(query.as_bytes())).finish();
    assert_eq!(read(&encoded).as_ref(), Some(&list), "{encoded}");
}

fn read(query: &str) -> Option<(Filter, Paging<Sort>)> {
    let Both(CheckedQuery(filter), paging) = Both::from_query(query).ok()?;
    Some((filter, paging))
}
