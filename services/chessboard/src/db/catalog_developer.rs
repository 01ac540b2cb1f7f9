//! Developers of the catalog.

use ::db::{Conn, Json};
use ::web::{Page, Paging, SortKey};
use auth::CompanyId;
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use serde_json::value::RawValue;
use service::list;
use strum::{EnumString, VariantNames};
use utoipa::ToSchema;
use values::{fold, like_containing};

use crate::domain::{
    ContactEmail, ContactPhone, Description, DeveloperName, DeveloperStatus, FileId, FoundedYear, Highlights,
    LegalName, Website,
};
use crate::schema::developer;

/// A developer in the catalog.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = developer, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct CatalogDeveloper {
    pub id: CompanyId,
    pub name: DeveloperName,
    pub legal_name: Option<LegalName>,
    pub description: Option<Description>,
    pub logo_file_id: Option<FileId>,
    pub website: Option<Website>,
    pub contact_phone: Option<ContactPhone>,
    pub contact_email: Option<ContactEmail>,
    pub founded_year: Option<FoundedYear>,
    // The response contains the stored JSON as it is, so the service does not parse it.
    #[schema(value_type = Highlights)]
    pub highlights: Json<Box<RawValue>>,
    pub projects_published_count: i32,
}

/// The sort keys of the catalog's developer list.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum CatalogDeveloperSort {
    Name,
    ProjectsPublishedCount,
}

impl SortKey for CatalogDeveloperSort {
    const DEFAULT: &'static str = "Name";
}

/// Selects the Published developers whose name contains `query`.
fn visible(query: Option<&str>) -> developer::BoxedQuery<'static, Pg> {
    let visible = developer::table
        .filter(list::custom_plan())
        .filter(developer::status.eq(DeveloperStatus::Published))
        .filter(developer::deleted_at.is_null())
        .into_boxed();
    let Some(query) = query.map(fold).filter(|query| !query.is_empty()) else { return visible };
    let trigrams = sql::<Bool>("trigrams(search_text) @> trigrams(").bind::<Text, _>(query.clone()).sql(")");
    visible.filter(developer::folded_name.like(like_containing(&query))).filter(trigrams)
}

/// Returns one page of Published developers.
pub async fn search(
    conn: &Conn,
    query: Option<&str>,
    paging: &Paging<CatalogDeveloperSort>,
) -> Result<Page<CatalogDeveloper>, ::db::Error> {
    let order = match paging.sort {
        CatalogDeveloperSort::Name => list::order_by(paging, developer::folded_name),
        CatalogDeveloperSort::ProjectsPublishedCount => {
            list::order_by(paging, developer::projects_published_count)
        }
    };
    let sorted = visible(query).select(CatalogDeveloper::as_select()).order((order, developer::id));
    Ok(list::page(conn, paging, sorted, visible(query).select(developer::id)).await?)
}

pub async fn look_up(mut conn: &Conn, id: CompanyId) -> QueryResult<Option<CatalogDeveloper>> {
    developer::table
        .find(id)
        .filter(developer::status.eq(DeveloperStatus::Published))
        .filter(developer::deleted_at.is_null())
        .select(CatalogDeveloper::as_select())
        .first(&mut conn)
        .await
        .optional()
}
