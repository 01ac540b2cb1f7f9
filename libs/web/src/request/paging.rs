//! Pagination by page number: `?Page=1&PageSize=20&Sort=-CreatedAt` in,
//! `{Items, Page, PageSize, TotalCount}` out.

use std::future::{Ready, ready};
use std::str::FromStr;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use serde::{Deserialize, Serialize};
use strum::VariantNames;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::{IntoParams, ToSchema};
use values::Invalid;

use crate::request::fields::Fields;
use crate::request::query::{FromQuery, Query};
use crate::response::problem::Problem;

pub(crate) const MAX_PAGE_SIZE: u32 = 100;
pub(crate) const DEFAULT_PAGE_SIZE: u32 = 20;
/// The limit up to which the items of a list are counted. This count means "10,000 or more".
pub const MAX_TOTAL_COUNT: i64 = 10_000;
/// The largest product of `Page` and `PageSize`.
const MAX_ITEM_POSITION: u32 = 10_000;

/// The keys that a list can be sorted by, as an enum.
pub trait SortKey: FromStr + VariantNames + Copy + 'static {
    /// The default key, with `-` for descending order.
    const DEFAULT: &'static str;
}

/// The order of a list: `?Sort=-CreatedAt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorting<S> {
    pub key: S,
    pub descending: bool,
}

impl<S: SortKey> Sorting<S> {
    fn parse(raw: Option<&str>) -> Result<Self, Invalid> {
        let sort = raw.unwrap_or(S::DEFAULT);
        let (name, descending) = sort.strip_prefix('-').map_or((sort, false), |name| (name, true));
        name.parse().map(|key| Self { key, descending }).map_err(|_| Invalid::new("unknown_value"))
    }
}

/// The requested page of a list and its order. The SQL query breaks ties by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging<S> {
    pub page: u32,
    pub page_size: u32,
    pub sort: S,
    pub descending: bool,
}

impl<S> Paging<S> {
    pub fn limit(&self) -> i64 {
        self.page_size.into()
    }

    pub fn offset(&self) -> i64 {
        i64::from(self.page - 1) * i64::from(self.page_size)
    }

    /// Returns the page of `items`, from a list of `total_count` items.
    pub fn page<T>(&self, items: Vec<T>, total_count: i64) -> Page<T> {
        Page {
            items,
            page: self.page,
            page_size: self.page_size,
            total_count: total_count.min(MAX_TOTAL_COUNT),
        }
    }
}

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Page<T> {
    /// The entries of this page.
    pub items: Vec<T>,
    #[schema(minimum = 1)]
    pub page: u32,
    #[schema(minimum = 1, examples(20))]
    pub page_size: u32,
    /// The number of items in the whole list. 10,000 means "10,000 or more".
    #[schema(maximum = 10000)]
    pub total_count: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawPaging {
    page: Option<String>,
    page_size: Option<String>,
    sort: Option<String>,
}

impl<S: SortKey> Paging<S> {
    fn parse(raw: &RawPaging) -> Result<Self, Problem> {
        let mut fields = Fields::default();
        let page_size = parse_number(raw.page_size.as_deref(), DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE);
        let max_page = MAX_ITEM_POSITION / page_size.as_ref().unwrap_or(&1);
        let page = fields.check("/Page", parse_number(raw.page.as_deref(), 1, max_page));
        let page_size = fields.check("/PageSize", page_size);
        let sorting = fields.check("/Sort", Sorting::parse(raw.sort.as_deref()));
        let all = page.zip(page_size).zip(sorting);
        fields.finish(all.map(|((page, page_size), Sorting { key, descending })| Self {
            page,
            page_size,
            sort: key,
            descending,
        }))
    }
}

/// Parses a number from 1 to `max`.
pub(crate) fn parse_number(raw: Option<&str>, default: u32, max: u32) -> Result<u32, Invalid> {
    let Some(raw) = raw else { return Ok(default) };
    raw.parse()
        .ok()
        .filter(|number| (1..=max).contains(number))
        .ok_or_else(|| Invalid::new("out_of_range").with("min", 1).with("max", max as usize))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawSorting {
    sort: Option<String>,
}

impl<S: SortKey> FromQuery for Sorting<S> {
    fn from_query(query: &str) -> Result<Self, Problem> {
        let Query(RawSorting { sort }) = Query::from_query(query)?;
        let mut fields = Fields::default();
        let sorting = fields.check("/Sort", Self::parse(sort.as_deref()));
        fields.finish(sorting)
    }
}

impl<S: SortKey> FromQuery for Paging<S> {
    fn from_query(query: &str) -> Result<Self, Problem> {
        Query::from_query(query).and_then(|Query(raw)| Self::parse(&raw))
    }
}

impl<S: SortKey> FromRequest for Paging<S> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::from_query(request.query_string()))
    }
}

impl<S: SortKey> IntoParams for Paging<S> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let page_size = page_size_parameter(DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE);
        vec![
            query_parameter("Page", integer_from_one_to(MAX_ITEM_POSITION, 1)),
            page_size,
            sort_parameter::<S>(),
        ]
    }
}

impl<S: SortKey> IntoParams for Sorting<S> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![sort_parameter::<S>()]
    }
}

fn sort_parameter<S: SortKey>() -> Parameter {
    let keys = S::VARIANTS.iter().flat_map(|name| [(*name).to_owned(), format!("-{name}")]);
    let sort = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(keys));
    query_parameter("Sort", sort.default(Some(S::DEFAULT.into())))
}

pub(crate) fn page_size_parameter(default: u32, max: u32) -> Parameter {
    query_parameter("PageSize", integer_from_one_to(max, default))
}

pub(crate) fn query_parameter(name: &str, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).schema(Some(schema)).build()
}

fn integer_from_one_to(max: u32, default: u32) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
        .minimum(Some(1))
        .maximum(Some(max))
        .default(Some(default.into()))
}

#[cfg(test)]
mod tests {
    use super::{Paging, RawPaging, SortKey};

    #[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
    enum Sort {
        CreatedAt,
    }

    impl SortKey for Sort {
        const DEFAULT: &'static str = "-CreatedAt";
    }

    fn parse(page: Option<&str>, page_size: Option<&str>, sort: Option<&str>) -> Option<Paging<Sort>> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Paging::parse(&RawPaging { page: owned(page), page_size: owned(page_size), sort: owned(sort) }).ok()
    }

    /// RULE-ALL-021: page and size at their limits are accepted, and others are refused.
    #[test]
    fn page_and_size_at_the_limits_are_accepted() {
        let default = Paging { page: 1, page_size: 20, sort: Sort::CreatedAt, descending: true };
        assert_eq!(parse(None, None, None), Some(default));
        assert!(parse(Some("1"), Some("100"), Some("CreatedAt")).is_some());
        assert!(parse(Some("100"), Some("100"), None).is_some(), "Page × PageSize is at most 10,000");
        assert!(parse(Some("500"), None, None).is_some());
        for (page, size) in [
            ("0", "20"),
            ("-1", "20"),
            ("1", "0"),
            ("1", "101"),
            ("x", "20"),
            ("", "20"),
            ("4294967297", "1"),
            ("101", "100"),
            ("501", "20"),
            ("10001", "1"),
        ] {
            assert_eq!(parse(Some(page), Some(size), None), None, "{page} {size}");
        }
        assert_eq!(parse(None, None, Some("Title; drop table")), None);
    }
}
