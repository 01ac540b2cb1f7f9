//! What the rules look at: deals with what is around them, and objects of which deals are to be made.

use ::db::{Cached, Conn, Lookup, Tx};
use auth::{Reach, UserId};
use diesel::dsl::{exists, sql};
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::Bool;
use diesel_async::RunQueryDsl;
use futures_util::future::{try_join, try_join4};
use time::OffsetDateTime;

use super::schema::{booking, company, deal, property_object, step};
use crate::domain::{
    Booking, Deal, DealId, ObjectState, PropertyObject, PropertyObjectId, Prospect, Request, Situation, Step,
};

/// As the index of Active bookings has it: a value that is bound is unknown when a statement is planned.
fn is_active() -> SqlLiteral<Bool> {
    sql("booking.status = 'Active'")
}

/// As the index of Completed deals has it.
fn is_completed() -> SqlLiteral<Bool> {
    sql("deal.status = 'Completed'")
}

/// The deal with its booking and the live steps of its developer.
pub async fn look_up(mut conn: Lookup<'_>, id: DealId) -> QueryResult<Option<Situation>> {
    let mut other = conn;
    let found = deal::table
        .left_join(booking::table.on(booking::deal_id.eq(deal::id).and(is_active())))
        .left_join(company::table.on(company::id.eq(deal::tenant_id)))
        .filter(deal::id.eq(id))
        .select((Deal::as_select(), Option::<Booking>::as_select(), company::status.nullable()));
    let found = Cached(found).get_result(&mut conn);
    let tenant = deal::table.find(id).select(deal::tenant_id).single_value();
    let steps = step::table
        .filter(step::tenant_id.nullable().eq(tenant))
        .filter(step::archived_at.is_null())
        .order(step::sort_order)
        .select(Step::as_select())
        .load(&mut other);
    let (found, steps) = try_join(async { found.await.optional() }, steps).await?;
    let situation =
        found.map(|(deal, booking, developer)| Situation { deal, booking, steps, developer, object: None });
    Ok(situation)
}

/// The same with the state of its object. Who books or completes a deal of the object waits until this transaction has ended.
pub async fn lock_object(tx: &mut Tx, id: DealId) -> Result<Option<Situation>, ::db::Error> {
    let object = deal::table.find(id).select(deal::property_object_id).single_value();
    let object = property_object::table
        .filter(property_object::id.nullable().eq(object))
        .select((property_object::id, property_object::status))
        .for_no_key_update();
    let locked = object.first(tx.conn()).await.optional()?;
    let Some((object, status)) = locked else { return Ok(None) };
    let conn: Lookup<'_> = tx.conn();
    let (situation, (is_booked, is_sold)) =
        try_join(look_up(conn, id), taken_by_others(conn, object, id)).await?;
    let object = Some(ObjectState { status, is_booked, is_sold });
    Ok(situation.map(|situation| Situation { object, ..situation }))
}

/// Whether another deal than this has booked the object, and whether one of it is Completed.
async fn taken_by_others(
    mut conn: Lookup<'_>,
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
    Cached(diesel::select((exists(booked), exists(sold)))).get_result(&mut conn).await
}

/// The deal that a request has made already, and the object that it names, if that is known.
pub async fn prospect(
    mut conn: Lookup<'_>,
    object: PropertyObjectId,
    by: UserId,
    request: Option<Request>,
) -> QueryResult<(Option<DealId>, Option<Prospect>)> {
    let (mut second, mut third) = (conn, conn);
    let found = property_object::table
        .left_join(company::table.on(company::id.eq(property_object::tenant_id)))
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
    let sold = Cached(diesel::select(exists(sold))).get_result(&mut third);
    let (made, found, steps, is_sold) =
        try_join4(made(conn, by, request), async { found.await.optional() }, steps, sold).await?;
    let prospect = found.map(|(object, developer)| Prospect { object, developer, is_sold, steps });
    Ok((made, prospect))
}

/// What a person has made under the name that they gave to it, in one family of routes, and there in one company.
pub async fn made(mut conn: Lookup<'_>, by: UserId, request: Option<Request>) -> QueryResult<Option<DealId>> {
    let Some(Request { id, reach }) = request else { return Ok(None) };
    let made =
        deal::table.filter(deal::created_by_user_id.eq(by)).filter(deal::request_id.eq(id)).select(deal::id);
    match reach {
        Reach::Platform => {
            Cached(made.filter(sql::<Bool>("request_family = 'Platform'"))).get_result(&mut conn).await
        }
        Reach::Company(tenant) => {
            let in_company =
                made.filter(sql::<Bool>("request_family = 'Developer'")).filter(deal::tenant_id.eq(tenant));
            Cached(in_company).get_result(&mut conn).await
        }
    }
    .optional()
}

/// The deals whose bookings have been overdue for longest, but for these.
pub async fn overdue(
    conn: &mut Conn,
    now: OffsetDateTime,
    but_for: &[DealId],
    limit: i64,
) -> Result<Vec<DealId>, ::db::Error> {
    let overdue = booking::table
        .filter(sql::<Bool>("booking.status = 'Active' and not booking.is_kept"))
        .filter(booking::expires_at.le(now))
        .filter(booking::deal_id.ne_all(but_for))
        .order((booking::expires_at, booking::id))
        .limit(limit)
        .select(booking::deal_id);
    Ok(Cached(overdue).load(conn).await?)
}

/// The deal with what is around it, which nobody else changes until the transaction ends. `None`: somebody is changing it.
pub async fn take(tx: &mut Tx, id: DealId) -> Result<Option<Situation>, ::db::Error> {
    let conn: Lookup<'_> = tx.conn();
    let mut first = conn;
    let lock = deal::table.find(id).select(deal::id).for_no_key_update().skip_locked();
    let lock = async { lock.first::<DealId>(&mut first).await.optional() };
    // Sent together: what is around it is looked up behind the lock.
    let (locked, situation) = try_join(lock, look_up(conn, id)).await?;
    Ok(locked.and(situation))
}

/// The deal alone.
pub async fn deal(mut conn: Lookup<'_>, id: DealId) -> QueryResult<Option<Deal>> {
    deal::table.find(id).select(Deal::as_select()).first(&mut conn).await.optional()
}
