//! Reads for the rules: deals with everything that the rules depend on, and objects for new deals.

use ::db::{Conn, Prepared, Tx};
use auth::{Reach, UserId};
use diesel::dsl::{exists, now, sql};
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Timestamptz};
use diesel_async::RunQueryDsl;
use futures_util::future::{try_join, try_join5};
use time::OffsetDateTime;
use values::{Currency, Money};

use super::active_employee::is_active_agent;
use crate::domain::{
    Booking, CompanyKind, CreationRequest, Deal, DealId, DealState, ObjectState, OfferedObject,
    PropertyObject, PropertyObjectId, Step,
};
use crate::schema::{booking, company, deal, property_object, step};

/// The predicate of the index of Active bookings.
///
/// The status is a literal, because the planner does not know the value of a parameter and would
/// not use the partial index.
fn is_active() -> SqlLiteral<Bool> {
    sql("booking.status = 'Active'")
}

/// The predicate of the index of Completed deals, a literal for the same reason.
fn is_completed() -> SqlLiteral<Bool> {
    sql("deal.status = 'Completed'")
}

/// Reads a deal with its booking, the price of its object, the live steps of its developer and the
/// developer's status.
pub async fn look_up(mut conn: &Conn, id: DealId) -> QueryResult<Option<DealState>> {
    let mut other = conn;
    let is_developer = company::id.eq(deal::tenant_id).and(company::kind.eq(CompanyKind::Developer));
    let found = deal::table
        .left_join(booking::table.on(booking::deal_id.eq(deal::id).and(is_active())))
        .left_join(company::table.on(is_developer))
        .left_join(property_object::table)
        .filter(deal::id.eq(id))
        .select((
            Deal::as_select(),
            Option::<Booking>::as_select(),
            company::status.nullable(),
            (property_object::price, property_object::currency).nullable(),
        ));
    let found = Prepared(found).get_result(&mut conn);
    let tenant = deal::table.find(id).select(deal::tenant_id).single_value();
    let steps = step::table
        .filter(step::tenant_id.nullable().eq(tenant))
        .filter(step::archived_at.is_null())
        .order(step::sort_order)
        .select(Step::as_select())
        .load(&mut other);
    let (found, steps) = try_join(async { found.await.optional() }, steps).await?;
    let state = |(deal, booking, developer, price): (_, _, _, Option<(i64, Currency)>)| {
        let price = price.map(|(amount_minor, currency)| Money { amount_minor, currency });
        DealState { deal, booking, steps, developer, price, is_agent_active: false, object: None }
    };
    Ok(found.map(state))
}

/// Reads a deal like [`look_up`], and whether `agent` works for an active agency.
pub async fn look_up_with_agent(
    conn: &Conn,
    id: DealId,
    agent: Option<UserId>,
) -> QueryResult<Option<DealState>> {
    let (state, is_agent_active) = try_join(look_up(conn, id), is_active_agent(conn, agent)).await?;
    Ok(state.map(|state| DealState { is_agent_active, ..state }))
}

/// Reads a deal like [`look_up`], with the state of its object.
pub async fn look_up_with_object(mut conn: &Conn, id: DealId) -> QueryResult<Option<DealState>> {
    let other = conn;
    let Some(state) = look_up(conn, id).await? else { return Ok(None) };
    let object = state.deal.property_object_id;
    let status = property_object::table.find(object).select(property_object::status);
    let status = async { status.first(&mut conn).await.optional() };
    let (status, (is_booked, is_sold)) = try_join(status, look_up_other_deals(other, object, id)).await?;
    let object = status.map(|status| ObjectState { status, is_booked, is_sold });
    Ok(Some(DealState { object, ..state }))
}

/// Locks the object of a deal, and reads the deal with the state of the object.
///
/// The lock serializes bookings and completions of one object.
pub async fn lock_object(tx: &mut Tx, id: DealId) -> Result<Option<DealState>, ::db::Error> {
    let object = deal::table.find(id).select(deal::property_object_id).single_value();
    let object = property_object::table
        .filter(property_object::id.nullable().eq(object))
        .select((property_object::id, property_object::status))
        .for_no_key_update();
    let locked = object.first(tx.conn()).await.optional()?;
    let Some((object, status)) = locked else { return Ok(None) };
    let conn: &Conn = tx.conn();
    let (state, (is_booked, is_sold)) =
        try_join(look_up(conn, id), look_up_other_deals(conn, object, id)).await?;
    let object = Some(ObjectState { status, is_booked, is_sold });
    Ok(state.map(|state| DealState { object, ..state }))
}

/// Returns whether another deal has booked the object, and whether another deal of it is Completed.
async fn look_up_other_deals(
    mut conn: &Conn,
    object: PropertyObjectId,
    id: DealId,
) -> QueryResult<(bool, bool)> {
    let booked = booking::table
        .filter(booking::property_object_id.eq(object))
        .filter(is_active())
        .filter(booking::deal_id.ne(id));
    let sold = deal::table
        .filter(deal::property_object_id.eq(object))
        .filter(is_completed())
        .filter(deal::id.ne(id));
    Prepared(diesel::select((exists(booked), exists(sold)))).get_result(&mut conn).await
}

/// Reads the deal that an earlier request with this id has created, and the object of the new deal.
pub async fn look_up_creation(
    mut conn: &Conn,
    object: PropertyObjectId,
    agent: Option<UserId>,
    creator: UserId,
    request: Option<CreationRequest>,
) -> QueryResult<(Option<DealId>, Option<OfferedObject>)> {
    let (mut second, mut third) = (conn, conn);
    let is_developer =
        company::id.eq(property_object::tenant_id).and(company::kind.eq(CompanyKind::Developer));
    let found = property_object::table
        .left_join(company::table.on(is_developer))
        .filter(property_object::id.eq(object))
        .select((PropertyObject::as_select(), company::status.nullable()))
        .first(&mut conn);
    let tenant = property_object::table.find(object).select(property_object::tenant_id).single_value();
    let steps = step::table
        .filter(step::tenant_id.nullable().eq(tenant))
        .filter(step::archived_at.is_null())
        .order(step::sort_order)
        .select(Step::as_select())
        .load(&mut second);
    let sold = deal::table.filter(deal::property_object_id.eq(object)).filter(is_completed());
    let sold = Prepared(diesel::select(exists(sold))).get_result(&mut third);
    let existing = find_by_request(conn, creator, request);
    let found = async { found.await.optional() };
    let (existing, found, steps, is_sold, is_agent_active) =
        try_join5(existing, found, steps, sold, is_active_agent(conn, agent)).await?;
    let offered =
        found.map(|(object, developer)| OfferedObject { object, developer, is_sold, steps, is_agent_active });
    Ok((existing, offered))
}

/// Finds the deal that a user has created with a request id in one route family.
///
/// On company routes the deal must also belong to the company.
pub async fn find_by_request(
    mut conn: &Conn,
    creator: UserId,
    request: Option<CreationRequest>,
) -> QueryResult<Option<DealId>> {
    let Some(CreationRequest { id, reach }) = request else { return Ok(None) };
    let by_request = deal::table
        .filter(deal::created_by_user_id.eq(creator))
        .filter(deal::request_id.eq(id))
        .select(deal::id);
    match reach {
        Reach::Platform => {
            let on_platform = by_request.filter(sql::<Bool>("request_family = 'Platform'"));
            Prepared(on_platform).get_result(&mut conn).await
        }
        Reach::Company(tenant) => {
            let in_company = by_request
                .filter(sql::<Bool>("request_family = 'Developer'"))
                .filter(deal::tenant_id.eq(tenant));
            Prepared(in_company).get_result(&mut conn).await
        }
    }
    .optional()
}

/// Finds up to `limit` deals with overdue bookings, the longest overdue first, except the
/// `excluded` deals. Returns each deal with the current time of the database.
pub async fn find_overdue(
    conn: &mut Conn,
    excluded: &[DealId],
    limit: i64,
) -> Result<Vec<(DealId, OffsetDateTime)>, ::db::Error> {
    let overdue = booking::table
        .filter(sql::<Bool>("booking.status = 'Active' and not booking.is_expiry_suspended"))
        .filter(booking::expires_at.le(now))
        .filter(booking::deal_id.ne_all(excluded))
        .order((booking::expires_at, booking::id))
        .limit(limit)
        .select((booking::deal_id, sql::<Timestamptz>("now()")));
    Ok(Prepared(overdue).load(conn).await?)
}

/// Locks a deal until the transaction ends, and reads it with everything that its rules depend on.
///
/// Returns `None` without waiting if another transaction is changing the deal.
pub async fn try_lock(tx: &mut Tx, id: DealId) -> Result<Option<DealState>, ::db::Error> {
    let conn: &Conn = tx.conn();
    let mut first = conn;
    let lock = deal::table.find(id).select(deal::id).for_no_key_update().skip_locked();
    let lock = async { lock.first::<DealId>(&mut first).await.optional() };
    // The statements are pipelined. The server runs the reads after the lock.
    let (locked, state) = try_join(lock, look_up(conn, id)).await?;
    Ok(locked.and(state))
}

pub async fn find_deal(mut conn: &Conn, id: DealId) -> QueryResult<Option<Deal>> {
    deal::table.find(id).select(Deal::as_select()).first(&mut conn).await.optional()
}
