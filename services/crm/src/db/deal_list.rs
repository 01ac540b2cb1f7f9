//! Lists of deals: one page with a count, or batches for an export.

use ::db::Conn;
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::future::try_join;
use service::list::CappedCount;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use values::{Currency, like_containing};

use super::deal_view::{
    DealFilter, DealSummary, DealView, FILTER, JOINS, SUMMARY_COLUMNS, VIEW_COLUMNS, VIEW_JOINS,
};
use crate::domain::{DealId, DealStatus, StepId};

/// The sort keys of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum DealSort {
    CreatedAt,
    UpdatedAt,
}

impl SortKey for DealSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// The filters that only lists and exports have. Texts are folded by [`fold`](values::fold).
#[derive(Clone, Debug, Default)]
pub struct DealSearch {
    /// The complete number of the object.
    pub object_number: Option<String>,
    /// A part of the name of the object's project.
    pub project_name: Option<String>,
    /// The complete number of the contract.
    pub contract_number: Option<String>,
    /// The client or the agent.
    pub participant_user_id: Option<UserId>,
    pub amount_from: Option<i64>,
    /// The exclusive upper bound of the amount.
    pub amount_to: Option<i64>,
    pub currency: Option<Currency>,
    pub booking_expires_from: Option<OffsetDateTime>,
    /// The exclusive upper bound of the expiry of the Active booking.
    pub booking_expires_to: Option<OffsetDateTime>,
    pub updated_from: Option<OffsetDateTime>,
    /// The exclusive upper bound of the last change.
    pub updated_to: Option<OffsetDateTime>,
    pub is_without_agent: bool,
}

/// The condition for deals whose object has the number.
const OF_OBJECT_NUMBER: &str = "exists (select from property_object as sought \
    where sought.id = deal.property_object_id and sought.folded_number = $9)";

/// The condition for deals of objects in projects whose names contain a text.
///
/// The index finds the names with all trigrams of the text, and `like` decides among them.
const OF_PROJECT: &str = "exists (select from property_object as sought \
    where sought.id = deal.property_object_id and sought.folded_project_name like $10 \
    and trigrams(sought.folded_project_name) @> trigrams($11))";

/// The condition for deals whose Active booking expires in a period.
const OF_BOOKING: &str = "exists (select from booking as sought \
    where sought.deal_id = deal.id and sought.status = 'Active' \
    and sought.expires_at >= coalesce($17, '-infinity') and sought.expires_at < coalesce($18, 'infinity'))";

/// The deals to list. Absent members match every deal.
#[derive(Clone, Debug, Default)]
pub struct DealListQuery {
    pub tenant_id: Option<CompanyId>,
    pub statuses: Option<Vec<DealStatus>>,
    pub step_id: Option<StepId>,
    pub filter: DealFilter,
    pub search: DealSearch,
}

impl DealListQuery {
    /// Returns the condition for `deal` with the parameters of [`bind`](Self::bind).
    ///
    /// Adds a condition of [`DealSearch`] only if its filter is present. The planner turns `exists`
    /// into a join only at the top level of the condition, not within an `or`.
    fn condition(&self) -> String {
        let mut condition = format!(
            "($1::uuid is null or deal.tenant_id = $1) and ($2::text[] is null or deal.status = any($2)) \
            and ($3::uuid is null or deal.step_id = $3) and {FILTER}"
        );
        let search = &self.search;
        let has_booking_bound = search.booking_expires_from.is_some() || search.booking_expires_to.is_some();
        for (is_present, part) in [
            (search.object_number.is_some(), OF_OBJECT_NUMBER),
            (search.project_name.is_some(), OF_PROJECT),
            (search.contract_number.is_some(), "deal.folded_contract_number = $12"),
            (search.participant_user_id.is_some(), "(deal.client_user_id = $13 or deal.agent_user_id = $13)"),
            (search.amount_from.is_some(), "deal.amount >= $14"),
            (search.amount_to.is_some(), "deal.amount < $15"),
            (search.currency.is_some(), "deal.currency = $16"),
            (has_booking_bound, OF_BOOKING),
            (search.updated_from.is_some(), "deal.updated_at >= $19"),
            (search.updated_to.is_some(), "deal.updated_at < $20"),
            (search.is_without_agent, "deal.agent_user_id is null"),
        ] {
            if is_present {
                condition.push_str(" and ");
                condition.push_str(part);
            }
        }
        condition
    }

    /// Binds the first twenty parameters of a statement.
    fn bind(&self, sql: String) -> BoxedSqlQuery<'static, Pg, SqlQuery> {
        let search = &self.search;
        let names = |statuses: &Vec<DealStatus>| {
            statuses.iter().map(|status| <&'static str>::from(*status)).collect()
        };
        let project = search.project_name.clone();
        self.filter
            .bind(sql, self.tenant_id, self.statuses.as_ref().map(names), self.step_id)
            .bind::<Nullable<Text>, _>(search.object_number.clone())
            .bind::<Nullable<Text>, _>(project.as_deref().map(like_containing))
            .bind::<Nullable<Text>, _>(project)
            .bind::<Nullable<Text>, _>(search.contract_number.clone())
            .bind::<Nullable<SqlUuid>, _>(search.participant_user_id)
            .bind::<Nullable<BigInt>, _>(search.amount_from)
            .bind::<Nullable<BigInt>, _>(search.amount_to)
            .bind::<Nullable<Text>, _>(search.currency)
            .bind::<Nullable<Timestamptz>, _>(search.booking_expires_from)
            .bind::<Nullable<Timestamptz>, _>(search.booking_expires_to)
            .bind::<Nullable<Timestamptz>, _>(search.updated_from)
            .bind::<Nullable<Timestamptz>, _>(search.updated_to)
    }
}

/// Reads one page of deals.
pub async fn list(
    conn: &Conn,
    query: &DealListQuery,
    paging: &Paging<DealSort>,
) -> QueryResult<Page<DealSummary>> {
    let condition = query.condition();
    let order = match (paging.sort, paging.descending) {
        (DealSort::CreatedAt, false) => "deal.created_at, deal.id",
        (DealSort::CreatedAt, true) => "deal.created_at desc, deal.id",
        (DealSort::UpdatedAt, false) => "deal.updated_at, deal.id",
        (DealSort::UpdatedAt, true) => "deal.updated_at desc, deal.id",
    };
    // The limit applies before the joins, so only the deals of one page are joined.
    let page = format!(
        "select {SUMMARY_COLUMNS} from (select * from deal where {condition} order by {order} limit $21 offset $22) as deal {JOINS} \
        order by {order}"
    );
    let page = query.bind(page).bind::<BigInt, _>(paging.limit()).bind::<BigInt, _>(paging.offset());
    let count = CappedCount(query.bind(format!("select from deal where {condition}")));
    let (mut first, mut second) = (conn, conn);
    let (items, total) = try_join(page.load(&mut first), count.get_result(&mut second)).await?;
    Ok(paging.page(items, total))
}

/// Returns true if more than `limit` deals match.
pub async fn has_more_than(mut conn: &Conn, query: &DealListQuery, limit: u32) -> QueryResult<bool> {
    let next = format!("select from deal where {} offset $21 limit 1", query.condition());
    Ok(query.bind(next).bind::<BigInt, _>(i64::from(limit)).execute(&mut conn).await? > 0)
}

/// The position of a deal in an export. It never changes, so a walk returns each deal once.
pub type DealKey = (OffsetDateTime, DealId);

/// Reads up to `limit` deals after the key `after`, newest first.
pub async fn read_batch(
    mut conn: &Conn,
    query: &DealListQuery,
    after: Option<DealKey>,
    limit: i64,
) -> QueryResult<Vec<DealView>> {
    let condition = query.condition();
    let batch = format!(
        "select {SUMMARY_COLUMNS}, {VIEW_COLUMNS} from (select * from deal where {condition} \
            and ($21::timestamptz is null or (deal.created_at, deal.id) < ($21, $22::uuid)) \
            order by deal.created_at desc, deal.id desc limit $23) as deal {VIEW_JOINS} {JOINS} \
        order by deal.created_at desc, deal.id desc"
    );
    let batch = query
        .bind(batch)
        .bind::<Nullable<Timestamptz>, _>(after.map(|(created_at, _)| created_at))
        .bind::<Nullable<SqlUuid>, _>(after.map(|(_, id)| id))
        .bind::<BigInt, _>(limit);
    batch.load(&mut conn).await
}
