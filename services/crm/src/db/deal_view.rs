//! Deals as they are read: one, or a list, with what they are called and the time of their booking.

use ::db::{Cached, Lookup};
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::future::try_join;
use serde::Serialize;
use service::list::Counted;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::schema::deal;
use crate::domain::{
    Amount, ContractType, DealCard, DealId, DealStatus, PaymentMethod, PropertyObjectId, SelectionId, StepId,
    StepName, ToldName, Words,
};

/// A deal as lists show it.
#[derive(Debug, QueryableByName, Serialize, ToSchema)]
#[diesel(table_name = deal, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct DealSummary {
    #[serde(flatten)]
    #[diesel(embed)]
    pub card: DealCard,
    pub tenant_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    #[diesel(sql_type = Nullable<Text>)]
    pub project_name: Option<ToldName>,
    #[diesel(sql_type = Nullable<Text>)]
    pub building_name: Option<ToldName>,
    #[diesel(sql_type = Nullable<Text>)]
    pub number: Option<ToldName>,
    pub client_user_id: UserId,
    pub agent_user_id: Option<UserId>,
    #[diesel(embed)]
    pub amount: Amount,
    #[serde(with = "time::serde::rfc3339")]
    pub step_entered_at: OffsetDateTime,
    /// Of the active booking.
    #[diesel(sql_type = Nullable<Timestamptz>)]
    #[serde(with = "time::serde::rfc3339::option")]
    pub booking_expires_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// What a [`DealSummary`] is made of, of what is called `deal` in the query.
pub const SUMMARY: &str = "\
    deal.id, deal.status, deal.step_id, deal.step_group, deal.updated_at, deal.row_version, deal.tenant_id, \
    deal.property_object_id, object.project_name, object.building_name, object.number, deal.client_user_id, \
    deal.agent_user_id, deal.amount, deal.currency, deal.step_entered_at, booking.expires_at as booking_expires_at, \
    deal.created_at";

/// What is beside a deal.
pub const BESIDE: &str = "\
    left join property_object as object on object.id = deal.property_object_id \
    left join booking on booking.deal_id = deal.id and booking.status = 'Active'";

/// A deal, whole but for its contract data.
#[derive(Debug, QueryableByName, Serialize, ToSchema)]
#[diesel(table_name = deal, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct DealView {
    #[serde(flatten)]
    #[diesel(embed)]
    pub summary: DealSummary,
    #[diesel(sql_type = Nullable<Text>)]
    developer_name: Option<ToldName>,
    #[diesel(sql_type = Text)]
    step_name: StepName,
    selection_id: Option<SelectionId>,
    contract_type: Option<ContractType>,
    payment_method: Option<PaymentMethod>,
    #[serde(with = "time::serde::rfc3339::option")]
    cancelled_at: Option<OffsetDateTime>,
    cancel_reason: Option<Words>,
    #[serde(with = "time::serde::rfc3339::option")]
    completed_at: Option<OffsetDateTime>,
    created_by_user_id: UserId,
    /// Nobody, where a job changed it last.
    updated_by_user_id: Option<UserId>,
}

pub async fn look_up(mut conn: Lookup<'_>, id: DealId) -> QueryResult<Option<DealView>> {
    let sql = format!(
        "select {SUMMARY}, developer.name as developer_name, step.name as step_name, deal.selection_id, \
            deal.contract_type, deal.payment_method, deal.cancelled_at, deal.cancel_reason, deal.completed_at, \
            deal.created_by_user_id, deal.updated_by_user_id \
        from deal join step on step.id = deal.step_id left join developer on developer.id = deal.tenant_id {BESIDE} \
        where deal.id = $1"
    );
    let view = Cached(diesel::sql_query(sql).bind::<SqlUuid, _>(id));
    view.get_result(&mut conn).await.optional()
}

/// Whose a deal is.
pub async fn tenant_of(mut conn: Lookup<'_>, id: DealId) -> QueryResult<Option<CompanyId>> {
    deal::table.find(id).select(deal::tenant_id).first(&mut conn).await.optional()
}

/// Whose a deal is, and who has to do with it.
#[derive(Debug, Queryable, Selectable)]
#[diesel(table_name = deal, check_for_backend(Pg))]
pub struct DealPeople {
    pub tenant_id: CompanyId,
    pub client_user_id: UserId,
    pub agent_user_id: Option<UserId>,
    pub selection_id: Option<SelectionId>,
}

pub async fn people(mut conn: Lookup<'_>, id: DealId) -> QueryResult<Option<DealPeople>> {
    deal::table.find(id).select(DealPeople::as_select()).first(&mut conn).await.optional()
}

/// What people look for in a list and on the board alike.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DealFilter {
    pub property_object_id: Option<PropertyObjectId>,
    pub client_user_id: Option<UserId>,
    pub agent_user_id: Option<UserId>,
    pub created_from: Option<OffsetDateTime>,
    /// Exclusive.
    pub created_to: Option<OffsetDateTime>,
}

/// Of `deal`, by the parameters of [`DealFilter::bind`].
pub const FILTERED: &str = "\
    ($4::uuid is null or deal.property_object_id = $4) and ($5::uuid is null or deal.client_user_id = $5) \
    and ($6::uuid is null or deal.agent_user_id = $6) and ($7::timestamptz is null or deal.created_at >= $7) \
    and ($8::timestamptz is null or deal.created_at < $8)";

impl DealFilter {
    /// It lets every deal pass.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first eight parameters of a statement: a tenant, words, a step, and the filter. It is planned for their values each
    /// time, so that what is not asked for is nothing to the planner.
    pub fn bind(
        &self,
        sql: String,
        tenant: Option<CompanyId>,
        words: Option<Vec<&'static str>>,
        step: Option<StepId>,
    ) -> BoxedSqlQuery<'static, Pg, SqlQuery> {
        diesel::sql_query(sql)
            .into_boxed()
            .bind::<Nullable<SqlUuid>, _>(tenant)
            .bind::<Nullable<Array<Text>>, _>(words)
            .bind::<Nullable<SqlUuid>, _>(step)
            .bind::<Nullable<SqlUuid>, _>(self.property_object_id)
            .bind::<Nullable<SqlUuid>, _>(self.client_user_id)
            .bind::<Nullable<SqlUuid>, _>(self.agent_user_id)
            .bind::<Nullable<Timestamptz>, _>(self.created_from)
            .bind::<Nullable<Timestamptz>, _>(self.created_to)
    }
}

/// What a list may be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum DealSort {
    CreatedAt,
    UpdatedAt,
}

impl SortKey for DealSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// Which deals are listed.
#[derive(Debug, Default)]
pub struct DealList {
    pub tenant_id: Option<CompanyId>,
    pub statuses: Option<Vec<DealStatus>>,
    pub step_id: Option<StepId>,
    pub filter: DealFilter,
}

/// One page.
pub async fn list(
    conn: Lookup<'_>,
    asked: DealList,
    paging: &Paging<DealSort>,
) -> QueryResult<Page<DealSummary>> {
    let listed = format!(
        "($1::uuid is null or deal.tenant_id = $1) and ($2::text[] is null or deal.status = any($2)) \
        and ($3::uuid is null or deal.step_id = $3) and {FILTERED}"
    );
    let order = match (paging.sort, paging.descending) {
        (DealSort::CreatedAt, false) => "deal.created_at, deal.id",
        (DealSort::CreatedAt, true) => "deal.created_at desc, deal.id",
        (DealSort::UpdatedAt, false) => "deal.updated_at, deal.id",
        (DealSort::UpdatedAt, true) => "deal.updated_at desc, deal.id",
    };
    let words =
        |statuses: &Vec<DealStatus>| statuses.iter().map(|status| <&'static str>::from(*status)).collect();
    let words: Option<Vec<_>> = asked.statuses.as_ref().map(words);
    let bind = |sql: String| asked.filter.bind(sql, asked.tenant_id, words.clone(), asked.step_id);
    // First the page, then what is beside its deals.
    let page = format!(
        "select {SUMMARY} from (select * from deal where {listed} order by {order} limit $9 offset $10) as deal {BESIDE} \
        order by {order}"
    );
    let page = bind(page).bind::<BigInt, _>(paging.limit()).bind::<BigInt, _>(paging.offset());
    let found = Counted(bind(format!("select from deal where {listed}")));
    let (mut first, mut second) = (conn, conn);
    let (items, total) = try_join(page.load(&mut first), found.get_result(&mut second)).await?;
    Ok(paging.page(items, total))
}
