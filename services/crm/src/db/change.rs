//! Deals as they are written: what they are, the steps they were in, their booking and their timeline, each time together.

use ::db::{Cached, Json, Lookup, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use futures_util::future::{join, join3};
use time::OffsetDateTime;
use values::{Currency, Private};

use super::schema::{booking, deal, stage, step, timeline};
use crate::domain::{
    Author, Booking, Change, Deal, DealId, Entry, Request, Role, StepId, TimelineKind, TimelineRow,
    TimelineRowId,
};
use crate::error::{DEAL_CONFLICT, Error};

/// Stores a new deal, unless its request has made one already.
///
/// # Errors
/// [`DEAL_CONFLICT`] where its step was archived meanwhile.
pub async fn insert(tx: &mut Tx, new: &Deal, request: Option<Request>, by: Author) -> Result<bool, Error> {
    let conn: Lookup<'_> = tx.conn();
    let (is_enterable, inserted) = join(hold_step(conn, new.step_id), insert_row(conn, new, request)).await;
    // What its request has made stays so wherever deals begin now.
    let (is_enterable, inserted) = (is_enterable?, inserted?);
    if !inserted {
        return Ok(false);
    }
    if !is_enterable {
        return Err(DEAL_CONFLICT.into());
    }
    let (rows, entered) = join(append(conn, new, &[Entry::DealCreated {}], by), enter(conn, new)).await;
    rows?;
    entered?;
    Ok(true)
}

/// Writes what was decided, if the deal is as it was then, and its step is still live.
///
/// # Errors
/// [`DEAL_CONFLICT`]
pub async fn save(tx: &mut Tx, change: &Change) -> Result<(), Error> {
    let after = &change.after;
    let conn: Lookup<'_> = tx.conn();
    let enters = change.enters_step();
    let hold = async { if enters { hold_step(conn, after.step_id).await } else { Ok(true) } };
    let leave = async { if enters { leave(conn, after).await } else { Ok(()) } };
    // Sent together, and all answered before anything is given up: a connection that is owed an answer is lost.
    let (is_enterable, saved, left) = join3(hold, update_row(conn, change), leave).await;
    if !is_enterable? || !saved? {
        return Err(DEAL_CONFLICT.into());
    }
    left?;
    let enter = async { if enters { enter(conn, after).await } else { Ok(()) } };
    let book = async {
        match change.changed_booking() {
            Some(booking) => put_booking(conn, booking).await,
            None => Ok(()),
        }
    };
    let (rows, entered, booked) = join3(append(conn, after, &change.entries, change.by), enter, book).await;
    rows?;
    entered?;
    Ok(booked?)
}

/// The deal, which nobody changes until this transaction ends.
pub async fn lock(tx: &mut Tx, id: DealId) -> Result<Option<Deal>, ::db::Error> {
    let row = deal::table.find(id).select(Deal::as_select()).for_no_key_update();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Adds a note about a deal that is this transaction's, and stays as it is.
pub async fn append_note(
    tx: &mut Tx,
    deal: &Deal,
    note: &Entry,
    by: Author,
    at: OffsetDateTime,
) -> Result<TimelineRow, ::db::Error> {
    let row = NewRow { created_at: at, ..NewRow::of(deal, note, by) };
    let insert = diesel::insert_into(timeline::table).values(row).returning(TimelineRow::as_returning());
    Ok(insert.get_result(tx.conn()).await?)
}

/// Keeps a step as it is until the transaction ends. `false`: it is not live.
async fn hold_step(mut conn: Lookup<'_>, id: StepId) -> QueryResult<bool> {
    let live = step::table.find(id).filter(step::archived_at.is_null()).select(step::id).for_share();
    Ok(live.first::<StepId>(&mut conn).await.optional()?.is_some())
}

async fn insert_row(mut conn: Lookup<'_>, new: &Deal, request: Option<Request>) -> QueryResult<bool> {
    let insert = diesel::insert_into(deal::table)
        .values((
            (
                deal::id.eq(new.id),
                deal::tenant_id.eq(new.tenant_id),
                deal::property_object_id.eq(new.property_object_id),
                deal::client_user_id.eq(new.client_user_id),
                deal::agent_user_id.eq(new.agent_user_id),
                deal::selection_id.eq(new.selection_id),
                deal::amount.eq(new.amount.amount_minor),
                deal::currency.eq(new.amount.currency),
            ),
            (
                deal::status.eq(new.status),
                deal::step_id.eq(new.step_id),
                deal::step_group.eq(new.step_group),
                deal::step_entered_at.eq(new.step_entered_at),
                deal::created_at.eq(new.created_at),
                deal::created_by_user_id.eq(new.created_by_user_id),
                deal::updated_at.eq(new.updated_at),
                deal::row_version.eq(new.row_version),
            ),
            deal::request_id.eq(request.map(|request| request.id)),
            deal::request_family.eq(request.map(Request::family)),
        ))
        .on_conflict_do_nothing();
    Ok(Cached(insert).execute(&mut conn).await? == 1)
}

/// By compare and swap: `false` where somebody else was first.
async fn update_row(mut conn: Lookup<'_>, change: &Change) -> QueryResult<bool> {
    let after = &change.after;
    let contract = &after.contract;
    let row = deal::table.find(after.id).filter(deal::row_version.eq(change.before.row_version));
    let update = diesel::update(row).set((
        deal::agent_user_id.eq(after.agent_user_id),
        deal::amount.eq(after.amount.amount_minor),
        deal::currency.eq(after.amount.currency),
        deal::status.eq(after.status),
        deal::step_id.eq(after.step_id),
        deal::step_group.eq(after.step_group),
        deal::step_entered_at.eq(after.step_entered_at),
        deal::contract_type.eq(contract.contract_type),
        deal::payment_method.eq(contract.payment_method),
        deal::escrow_account_number.eq(contract.escrow_account_number.as_ref().map(Private::expose)),
        deal::fixation_data.eq(contract.fixation_data.as_ref().map(Private::expose)),
        deal::cancelled_at.eq(after.cancelled_at),
        deal::cancel_reason.eq(after.cancel_reason.as_ref().map(Private::expose)),
        deal::completed_at.eq(after.completed_at),
        deal::updated_at.eq(after.updated_at),
        deal::updated_by_user_id.eq(after.updated_by_user_id),
        deal::row_version.eq(after.row_version),
    ));
    Ok(Cached(update).execute(&mut conn).await? == 1)
}

/// Closes the row of the step that the deal leaves.
async fn leave(mut conn: Lookup<'_>, after: &Deal) -> QueryResult<()> {
    let current = stage::table.filter(stage::deal_id.eq(after.id)).filter(stage::left_at.is_null());
    let leave = diesel::update(current).set(stage::left_at.eq(after.step_entered_at));
    Cached(leave).execute(&mut conn).await?;
    Ok(())
}

/// Opens that of the step that it comes into.
async fn enter(mut conn: Lookup<'_>, after: &Deal) -> QueryResult<()> {
    let enter = diesel::insert_into(stage::table).values((
        stage::deal_id.eq(after.id),
        stage::row_version.eq(after.row_version),
        stage::step_id.eq(after.step_id),
        stage::status.eq(after.status),
        stage::entered_at.eq(after.step_entered_at),
    ));
    Cached(enter).execute(&mut conn).await?;
    Ok(())
}

async fn put_booking(mut conn: Lookup<'_>, booking: &Booking) -> QueryResult<()> {
    let put =
        diesel::insert_into(booking::table).values(booking).on_conflict(booking::id).do_update().set(booking);
    Cached(put).execute(&mut conn).await?;
    Ok(())
}

/// Adds the rows of one change, in their order.
async fn append(mut conn: Lookup<'_>, after: &Deal, entries: &[Entry], by: Author) -> QueryResult<()> {
    let rows: Vec<_> = entries.iter().map(|entry| NewRow::of(after, entry, by)).collect();
    // There are three at most, so few statements are kept.
    Cached(diesel::insert_into(timeline::table).values(rows)).execute(&mut conn).await?;
    Ok(())
}

/// A row of the timeline, and the deal after the change, as far as it is told anew.
#[derive(Insertable)]
#[diesel(table_name = timeline, treat_none_as_default_value = false)]
struct NewRow<'e> {
    id: TimelineRowId,
    deal_id: DealId,
    kind: TimelineKind,
    payload: Json<&'e Entry>,
    actor_user_id: Option<UserId>,
    actor_role: Role,
    created_at: OffsetDateTime,
    row_version: i64,
    agent_user_id: Option<UserId>,
    amount: i64,
    currency: Currency,
}

impl<'e> NewRow<'e> {
    fn of(after: &Deal, entry: &'e Entry, by: Author) -> Self {
        Self {
            id: TimelineRowId::generate(),
            deal_id: after.id,
            kind: entry.kind(),
            payload: Json(entry),
            actor_user_id: by.user_id,
            actor_role: by.role,
            created_at: after.updated_at,
            row_version: after.row_version,
            agent_user_id: after.agent_user_id,
            amount: after.amount.amount_minor.get(),
            currency: after.amount.currency,
        }
    }
}
