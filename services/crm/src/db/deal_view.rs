//! Reads of deals, joined with the names of their objects and the expiry of their bookings.

use ::db::{Conn, Prepared};
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{Array, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{
    Amount, ContractNumber, ContractType, DealCard, DealId, FreeText, PaymentMethod, PropertyObjectId,
    PublishedName, SelectionId, StepId, StepName,
};
use crate::schema::deal;

/// A deal in a list or on the board.
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
    pub project_name: Option<PublishedName>,
    #[diesel(sql_type = Nullable<Text>)]
    pub building_name: Option<PublishedName>,
    #[diesel(sql_type = Nullable<Text>)]
    pub number: Option<PublishedName>,
    pub client_user_id: UserId,
    pub agent_user_id: Option<UserId>,
    #[diesel(embed)]
    pub amount: Amount,
    #[serde(with = "time::serde::rfc3339")]
    pub step_entered_at: OffsetDateTime,
    /// The expiry time of the Active booking.
    #[diesel(sql_type = Nullable<Timestamptz>)]
    #[serde(with = "time::serde::rfc3339::option")]
    pub booking_expires_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// The columns of a [`DealSummary`], from the tables `deal`, `object` and `booking` of [`JOINS`].
pub const SUMMARY_COLUMNS: &str = "\
    deal.id, deal.status, deal.step_id, deal.step_group, deal.updated_at, deal.row_version, deal.tenant_id, \
    deal.property_object_id, object.project_name, object.building_name, object.number, deal.client_user_id, \
    deal.agent_user_id, deal.amount, deal.currency, deal.step_entered_at, booking.expires_at as booking_expires_at, \
    deal.created_at";

/// The joins of `deal` with its object and its Active booking.
pub const JOINS: &str = "\
    left join property_object as object on object.id = deal.property_object_id \
    left join booking on booking.deal_id = deal.id and booking.status = 'Active'";

/// A deal without escrow account number and fixation data.
#[derive(Debug, QueryableByName, Serialize, ToSchema)]
#[diesel(table_name = deal, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct DealView {
    #[serde(flatten)]
    #[diesel(embed)]
    pub summary: DealSummary,
    #[diesel(sql_type = Nullable<Text>)]
    pub developer_name: Option<PublishedName>,
    #[diesel(sql_type = Text)]
    pub step_name: StepName,
    /// Id of the selection that led to the deal. Null without one.
    pub selection_id: Option<SelectionId>,
    pub contract_type: Option<ContractType>,
    pub payment_method: Option<PaymentMethod>,
    /// Null for readers without access to contract data.
    pub contract_number: Option<ContractNumber>,
    /// Time of the cancellation, in UTC. Null unless cancelled.
    #[serde(with = "time::serde::rfc3339::option")]
    pub cancelled_at: Option<OffsetDateTime>,
    /// Reason for the cancellation. Null unless cancelled.
    pub cancel_reason: Option<FreeText>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub completed_at: Option<OffsetDateTime>,
    pub created_by_user_id: UserId,
    /// `null` before the first change and after a change by a job.
    pub updated_by_user_id: Option<UserId>,
}

/// The columns that a [`DealView`] adds to its summary, from the tables of [`VIEW_JOINS`].
pub const VIEW_COLUMNS: &str = "\
    developer.name as developer_name, step.name as step_name, deal.selection_id, deal.contract_type, \
    deal.payment_method, deal.contract_number, deal.cancelled_at, deal.cancel_reason, deal.completed_at, \
    deal.created_by_user_id, deal.updated_by_user_id";

/// The joins of `deal` with its step and its developer.
pub const VIEW_JOINS: &str = "\
    join step on step.id = deal.step_id left join developer on developer.id = deal.tenant_id";

pub async fn look_up(mut conn: &Conn, id: DealId) -> QueryResult<Option<DealView>> {
    let sql =
        format!("select {SUMMARY_COLUMNS}, {VIEW_COLUMNS} from deal {VIEW_JOINS} {JOINS} where deal.id = $1");
    let view = Prepared(diesel::sql_query(sql).bind::<SqlUuid, _>(id));
    view.get_result(&mut conn).await.optional()
}

pub async fn tenant_of(mut conn: &Conn, id: DealId) -> QueryResult<Option<CompanyId>> {
    deal::table.find(id).select(deal::tenant_id).first(&mut conn).await.optional()
}

/// The developer, the client and the selection of a deal.
#[derive(Debug, Queryable, Selectable)]
#[diesel(table_name = deal, check_for_backend(Pg))]
pub struct DealParties {
    pub tenant_id: CompanyId,
    pub client_user_id: UserId,
    pub selection_id: Option<SelectionId>,
}

pub async fn find_parties(mut conn: &Conn, id: DealId) -> QueryResult<Option<DealParties>> {
    deal::table.find(id).select(DealParties::as_select()).first(&mut conn).await.optional()
}

/// The filters that lists and boards share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DealFilter {
    pub property_object_id: Option<PropertyObjectId>,
    pub client_user_id: Option<UserId>,
    pub agent_user_id: Option<UserId>,
    pub created_from: Option<OffsetDateTime>,
    /// The exclusive upper bound of the creation time.
    pub created_to: Option<OffsetDateTime>,
}

/// The condition for `deal` with the parameters of [`DealFilter::bind`].
pub const FILTER: &str = "\
    ($4::uuid is null or deal.property_object_id = $4) and ($5::uuid is null or deal.client_user_id = $5) \
    and ($6::uuid is null or deal.agent_user_id = $6) and ($7::timestamptz is null or deal.created_at >= $7) \
    and ($8::timestamptz is null or deal.created_at < $8)";

impl DealFilter {
    /// Returns true if every deal matches.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Binds the first eight parameters of a statement: a tenant, names, a step and the filter.
    ///
    /// The statement is planned for its values each time, so the planner drops absent filters.
    /// `names` are statuses in a list and groups on a board.
    pub fn bind(
        &self,
        sql: String,
        tenant: Option<CompanyId>,
        names: Option<Vec<&'static str>>,
        step: Option<StepId>,
    ) -> BoxedSqlQuery<'static, Pg, SqlQuery> {
        diesel::sql_query(sql)
            .into_boxed()
            .bind::<Nullable<SqlUuid>, _>(tenant)
            .bind::<Nullable<Array<Text>>, _>(names)
            .bind::<Nullable<SqlUuid>, _>(step)
            .bind::<Nullable<SqlUuid>, _>(self.property_object_id)
            .bind::<Nullable<SqlUuid>, _>(self.client_user_id)
            .bind::<Nullable<SqlUuid>, _>(self.agent_user_id)
            .bind::<Nullable<Timestamptz>, _>(self.created_from)
            .bind::<Nullable<Timestamptz>, _>(self.created_to)
    }
}
