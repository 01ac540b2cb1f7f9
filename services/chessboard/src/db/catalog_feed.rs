//! The public objects of one developer, for the exported feed.

use ::db::{Conn, Prepared};
use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Integer, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use service::list;
use time::OffsetDateTime;

use super::catalog_object::visible;
use crate::domain::feed::{FEED_FORMAT_VERSION, OfferProject, PublicOffer};
use crate::domain::{
    BuildingFacts, ContactPhone, DeveloperName, ObjectFacts, ObjectKind, ObjectStatus, PropertyObjectId,
    Website,
};
use crate::schema::property_object;

/// Number of objects that one statement reads.
pub const PAGE_SIZE: u16 = 500;

/// A Published developer with the version of its feed.
#[derive(Clone, QueryableByName)]
pub struct FeedVersion {
    #[diesel(sql_type = Text)]
    pub name: DeveloperName,
    #[diesel(sql_type = Nullable<Text>)]
    pub contact_phone: Option<ContactPhone>,
    #[diesel(sql_type = Nullable<Text>)]
    pub website: Option<Website>,
    /// Differs for any two contents of the feed.
    #[diesel(sql_type = Text)]
    pub version: String,
}

/// Hashes the versions of the feed's format, the developer, its projects and its buildings.
///
/// A portal requests the feed several times an hour, so the statement reads none of its objects,
/// which may be 100,000. Deals raise the versions of objects only, so each transaction that changes
/// objects also adds one to `object_changes` of the building. The job `object-propagation` adds
/// none, because it changes nothing of the feed.
const FEED_VERSION: &str = "\
    with shown as materialized ( \
        select id, version from project \
        where tenant_id = $1 and deleted_at is null and status = 'Published' \
    ) \
    select developer.name, developer.contact_phone, developer.website, md5(concat_ws('/', $2::integer, developer.version, \
        (select string_agg(id || ':' || version, ',' order by id) from shown), '-', \
        (select string_agg(concat_ws(':', building.id, building.version, figures.object_changes), ',' order by building.id) \
            from shown join building on building.project_id = shown.id and building.deleted_at is null \
            left join building_figures as figures on figures.building_id = building.id) \
    )) as version \
    from developer where id = $1 and deleted_at is null and status = 'Published'";

/// Returns a Published developer with the version of its feed.
pub async fn find_version(mut conn: &Conn, developer: CompanyId) -> QueryResult<Option<FeedVersion>> {
    let version = diesel::sql_query(FEED_VERSION).bind::<SqlUuid, _>(developer);
    let statement = Prepared(version.bind::<Integer, _>(FEED_FORMAT_VERSION));
    statement.get_result(&mut conn).await.optional()
}

type Row = (PropertyObjectId, ObjectFacts, OffsetDateTime, BuildingFacts, OfferProject);

/// Returns the next Available objects that guests see, by id. A feed has no offers of storages.
pub async fn list_next(
    mut conn: &Conn,
    developer: CompanyId,
    after: Option<PropertyObjectId>,
) -> QueryResult<Vec<PublicOffer>> {
    let mut offered = visible()
        .filter(property_object::tenant_id.eq(developer))
        .filter(property_object::status.eq(ObjectStatus::Available))
        .filter(property_object::kind.ne(ObjectKind::Storage))
        .select((
            property_object::id,
            ObjectFacts::as_select(),
            property_object::updated_at,
            BuildingFacts::as_select(),
            OfferProject::as_select(),
        ))
        .into_boxed::<Pg>();
    if let Some(after) = after {
        offered = offered.filter(property_object::id.gt(after));
    }
    let page = offered.filter(list::custom_plan()).order(property_object::id.asc()).limit(PAGE_SIZE.into());
    let rows: Vec<Row> = page.load(&mut conn).await?;
    let offer = |(id, facts, updated_at, building, project): Row| PublicOffer {
        id,
        facts,
        building,
        project,
        updated_at,
    };
    Ok(rows.into_iter().map(offer).collect())
}
