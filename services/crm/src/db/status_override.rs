//! The register of overrides, newest first.

use ::db::Conn;
use ::web::{CursorPage, CursorPaging};
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{DealId, DealStatus, FreeText, OverrideId, PublishedName};
use crate::schema::status_override;

/// An override in the register.
#[derive(Debug, QueryableByName, Serialize, ToSchema)]
#[diesel(table_name = status_override, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct OverrideRecord {
    pub id: OverrideId,
    pub deal_id: DealId,
    /// Company id of the deal's developer.
    pub tenant_id: CompanyId,
    #[diesel(sql_type = Nullable<Text>)]
    pub developer_name: Option<PublishedName>,
    #[diesel(sql_type = Nullable<Text>)]
    pub project_name: Option<PublishedName>,
    #[diesel(sql_type = Nullable<Text>)]
    pub building_name: Option<PublishedName>,
    #[diesel(sql_type = Nullable<Text>)]
    pub number: Option<PublishedName>,
    /// Id of the platform manager.
    pub actor_user_id: UserId,
    /// Status of the deal before the override.
    pub from_status: DealStatus,
    pub to_status: DealStatus,
    /// Justification of the override.
    pub comment: FreeText,
    /// Time of the override, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// Version of the deal after the override.
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    pub row_version: i64,
}

/// The content of a cursor: the last override of the page.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct OverrideKey {
    #[serde(with = "::web::utc")]
    created_at: OffsetDateTime,
    id: OverrideId,
}

impl From<&OverrideRecord> for OverrideKey {
    fn from(record: &OverrideRecord) -> Self {
        Self { created_at: record.created_at, id: record.id }
    }
}

/// The overrides to list. Absent members match every override.
#[derive(Clone, Copy, Debug, Default)]
pub struct OverrideFilter {
    pub created_from: Option<OffsetDateTime>,
    /// The exclusive upper bound of the time.
    pub created_to: Option<OffsetDateTime>,
    pub actor_user_id: Option<UserId>,
    pub tenant_id: Option<CompanyId>,
    pub deal_id: Option<DealId>,
}

/// The condition with the parameters of [`OverrideFilter::bind`]. The statement is planned for its
/// values, so absent filters are dropped.
const FILTER: &str = "\
    ($1::timestamptz is null or created_at >= $1) and ($2::timestamptz is null or created_at < $2) \
    and ($3::uuid is null or actor_user_id = $3) and ($4::uuid is null or tenant_id = $4) \
    and ($5::uuid is null or deal_id = $5)";

impl OverrideFilter {
    /// Binds the first five parameters of a statement.
    fn bind(self, sql: String) -> BoxedSqlQuery<'static, Pg, SqlQuery> {
        diesel::sql_query(sql)
            .into_boxed()
            .bind::<Nullable<Timestamptz>, _>(self.created_from)
            .bind::<Nullable<Timestamptz>, _>(self.created_to)
            .bind::<Nullable<SqlUuid>, _>(self.actor_user_id)
            .bind::<Nullable<SqlUuid>, _>(self.tenant_id)
            .bind::<Nullable<SqlUuid>, _>(self.deal_id)
    }
}

/// Returns true if more than `limit` overrides match.
pub async fn has_more_than(mut conn: &Conn, filter: OverrideFilter, limit: u32) -> QueryResult<bool> {
    let next = format!("select from status_override where {FILTER} offset $6 limit 1");
    Ok(filter.bind(next).bind::<BigInt, _>(i64::from(limit)).execute(&mut conn).await? > 0)
}

/// Reads up to `limit` overrides after the key `after`.
pub async fn read_batch(
    mut conn: &Conn,
    filter: OverrideFilter,
    after: Option<OverrideKey>,
    limit: i64,
) -> QueryResult<Vec<OverrideRecord>> {
    // The limit applies before the joins.
    let batch = format!(
        "select made.*, developer.name as developer_name, object.project_name, object.building_name, object.number \
        from (select * from status_override \
            where {FILTER} and ($6::timestamptz is null or (created_at, id) < ($6, $7::uuid)) \
            order by created_at desc, id desc limit $8) as made \
        join deal on deal.id = made.deal_id \
        left join property_object as object on object.id = deal.property_object_id \
        left join developer on developer.id = made.tenant_id \
        order by made.created_at desc, made.id desc"
    );
    let batch = filter
        .bind(batch)
        .bind::<Nullable<Timestamptz>, _>(after.map(|key| key.created_at))
        .bind::<Nullable<SqlUuid>, _>(after.map(|key| key.id))
        .bind::<BigInt, _>(limit);
    batch.load(&mut conn).await
}

/// Reads one page.
pub async fn list(
    conn: &Conn,
    filter: OverrideFilter,
    paging: &CursorPaging<OverrideKey>,
) -> QueryResult<CursorPage<OverrideRecord>> {
    let found = read_batch(conn, filter, paging.after, paging.limit()).await?;
    Ok(paging.page(found, |last| OverrideKey::from(last)))
}
