//! Paged lists: `?Page=1&PageSize=20&Sort=-CreatedAt` in, `{Items, Page, PageSize, TotalCount}` out.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use serde::{Deserialize, Serialize};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::{IntoParams, ToSchema};
use values::Invalid;

use crate::{Fields, Problem, Query};

const MAX_PAGE_SIZE: u32 = 100;
const DEFAULT_PAGE_SIZE: u32 = 20;
/// Deep enough for any reader; a limit keeps the offset far from overflow.
const MAX_PAGE: u32 = 1_000_000;

/// What a list may be sorted by.
pub trait SortKey: Copy + 'static {
    /// Every key with its name in the API.
    const KEYS: &'static [(&'static str, Self)];
    /// The name used when the caller gives none, with `-` for descending.
    const DEFAULT: &'static str;
}

/// Which part of a list is asked for, and in which order. Ties are broken by id, in the query.
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

    /// The answer.
    pub fn page<T>(&self, items: Vec<T>, total_count: i64) -> Page<T> {
        Page { items, page: self.page, page_size: self.page_size, total_count }
    }
}

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Page<T> {
    pub items: Vec<T>,
    #[schema(minimum = 1)]
    pub page: u32,
    #[schema(minimum = 1, examples(20))]
    pub page_size: u32,
    /// Of the whole list.
    pub total_count: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Raw {
    page: Option<String>,
    page_size: Option<String>,
    sort: Option<String>,
}

impl<S: SortKey> Paging<S> {
    fn parse(raw: &Raw) -> Result<Self, Problem> {
        let mut fields = Fields::default();
        let page = fields.check("/Page", number(raw.page.as_deref(), 1, MAX_PAGE));
        let page_size =
            fields.check("/PageSize", number(raw.page_size.as_deref(), DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE));
        let sort = raw.sort.as_deref().unwrap_or(S::DEFAULT);
        let (name, descending) = sort.strip_prefix('-').map_or((sort, false), |name| (name, true));
        let key = S::KEYS.iter().find(|(known, _)| *known == name).map(|(_, key)| *key);
        let sort = fields.check("/Sort", key.ok_or_else(|| Invalid::new("unknown_value")));
        let all = page.zip(page_size).zip(sort);
        fields.finish(all.map(|((page, page_size), sort)| Self { page, page_size, sort, descending }))
    }
}

fn number(raw: Option<&str>, default: u32, max: u32) -> Result<u32, Invalid> {
    let Some(raw) = raw else { return Ok(default) };
    raw.parse()
        .ok()
        .filter(|number| (1..=max).contains(number))
        .ok_or_else(|| Invalid::new("out_of_range").with("min", 1).with("max", max as usize))
}

impl<S: SortKey> FromRequest for Paging<S> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Query::parse(request.query_string()).and_then(|Query(raw)| Self::parse(&raw)))
    }
}

impl<S: SortKey> IntoParams for Paging<S> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let number = |default: u32, max: u32| {
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
                .minimum(Some(1))
                .maximum(Some(max))
                .default(Some(default.into()))
        };
        let keys = S::KEYS.iter().flat_map(|(name, _)| [(*name).to_owned(), format!("-{name}")]);
        let sort = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(keys))
            .default(Some(S::DEFAULT.into()));
        [
            ("Page", number(1, MAX_PAGE)),
            ("PageSize", number(DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)),
            ("Sort", sort),
        ]
        .map(|(name, schema)| {
            ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).schema(Some(schema)).build()
        })
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::{Paging, Raw, SortKey};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct CreatedAt;

    impl SortKey for CreatedAt {
        const KEYS: &'static [(&'static str, Self)] = &[("CreatedAt", Self)];
        const DEFAULT: &'static str = "-CreatedAt";
    }

    fn parse(page: Option<&str>, page_size: Option<&str>, sort: Option<&str>) -> Option<Paging<CreatedAt>> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Paging::parse(&Raw { page: own(page), page_size: own(page_size), sort: own(sort) }).ok()
    }

    #[test]
    fn limits_are_inclusive() {
        let default = Paging { page: 1, page_size: 20, sort: CreatedAt, descending: true };
        assert_eq!(parse(None, None, None), Some(default));
        assert!(parse(Some("1"), Some("100"), Some("CreatedAt")).is_some());
        for (page, size) in [
            ("0", "20"),
            ("-1", "20"),
            ("1", "0"),
            ("1", "101"),
            ("x", "20"),
            ("", "20"),
            ("4294967297", "1"),
        ] {
            assert_eq!(parse(Some(page), Some(size), None), None, "{page} {size}");
        }
        assert_eq!(parse(None, None, Some("Title; drop table")), None);
    }
}
