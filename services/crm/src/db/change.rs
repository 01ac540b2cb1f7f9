//! Writes of deals. One change writes the deal, its stages, its booking, its timeline and the entry
//! in the register of overrides together.

use ::db::{Conn, Json, Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use futures_util::future::{join, join3, join4};
use time::OffsetDateTime;
use values::{Currency, Private, fold};

use crate::domain::{
    Author, Booking, Change, CreationRequest, Deal, DealId, FreeText, NoteAudience, OverrideId, Role, StepId,
    TimelineEntry, TimelineKind, TimelineRow, TimelineRowId,
};
use crate::error::{DEAL_CONFLICT, Error};
use crate::schema::{booking, deal, stage, status_override, step, timeline};

/// Inserts a new deal. Returns false if an earlier request with this id created a deal.
///
/// # Errors
/// [`DEAL_CONFLICT`] if the step was archived after it was read.
pub async fn insert(
    tx: &mut Tx,
    new: &Deal,
    request: Option<CreationRequest>,
    author: Author,
) -> Result<bool, Error> {
    let conn: &Conn = tx.conn();
    let (is_live, is_inserted) =
        join(lock_live_step(conn, new.step_id), insert_row(conn, new, request)).await;
    let (is_live, is_inserted) = (is_live?, is_inserted?);
    // A repeat succeeds even if the step was archived after the first request.
    if !is_inserted {
        return Ok(false);
    }
    if !is_live {
        return Err(DEAL_CONFLICT.into());
    }
    let created = [NewTimelineRow::of(new, &TimelineEntry::DealCreated {}, author, NoteAudience::Everyone)];
    let (appended, opened) = join(append_rows(conn, &created), open_stage(conn, new)).await;
    appended?;
    opened?;
    Ok(true)
}

/// Writes a change.
///
/// # Errors
/// [`DEAL_CONFLICT`] if the deal has another version than `change.before`, or if the step that it
/// enters was archived.
pub async fn save(tx: &mut Tx, change: &Change) -> Result<(), Error> {
    let after = &change.after;
    let conn: &Conn = tx.conn();
    let changes_step = change.has_changed_step();
    let lock = async { if changes_step { lock_live_step(conn, after.step_id).await } else { Ok(true) } };
    let close = async { if changes_step { close_stage(conn, after).await } else { Ok(()) } };
    // The statements are pipelined. All responses are awaited before any error is returned:
    // an abandoned response makes the connection unusable.
    let (is_live, is_saved, closed) = join3(lock, update_row(conn, change), close).await;
    if !is_live? || !is_saved? {
        return Err(DEAL_CONFLICT.into());
    }
    closed?;
    let open = async { if changes_step { open_stage(conn, after).await } else { Ok(()) } };
    let book = async {
        match change.changed_booking() {
            Some(booking) => upsert_booking(conn, booking).await,
            None => Ok(()),
        }
    };
    let rows = change.entries.iter();
    let rows: Vec<_> =
        rows.map(|entry| NewTimelineRow::of(after, entry, change.author, change.audience)).collect();
    let register = async {
        match &change.override_comment {
            Some(comment) => insert_override(conn, change, comment).await,
            None => Ok(()),
        }
    };
    let (appended, opened, booked, registered) = join4(append_rows(conn, &rows), open, book, register).await;
    appended?;
    opened?;
    booked?;
    Ok(registered?)
}

/// Adds an override to the register. A change by a job has no user and is never an override.
async fn insert_override(mut conn: &Conn, change: &Change, comment: &FreeText) -> QueryResult<()> {
    let Some(actor) = change.author.user_id else { return Ok(()) };
    let after = &change.after;
    let insert = diesel::insert_into(status_override::table).values((
        status_override::id.eq(OverrideId::generate()),
        status_override::deal_id.eq(after.id),
        status_override::tenant_id.eq(after.tenant_id),
        status_override::actor_user_id.eq(actor),
        status_override::from_status.eq(change.before.status),
        status_override::to_status.eq(after.status),
        status_override::comment.eq(comment.expose()),
        status_override::created_at.eq(change.at()),
        status_override::row_version.eq(after.row_version),
    ));
    Prepared(insert).execute(&mut conn).await?;
    Ok(())
}

/// Locks a deal until the transaction ends, and returns it.
pub async fn lock(tx: &mut Tx, id: DealId) -> Result<Option<Deal>, ::db::Error> {
    let row = deal::table.find(id).select(Deal::as_select()).for_no_key_update();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Adds a note to a deal that the transaction has locked.
pub async fn append_note(
    tx: &mut Tx,
    deal: &Deal,
    note: &TimelineEntry,
    audience: NoteAudience,
    author: Author,
    at: OffsetDateTime,
) -> Result<TimelineRow, ::db::Error> {
    let row = NewTimelineRow { created_at: at, ..NewTimelineRow::of(deal, note, author, audience) };
    let insert = diesel::insert_into(timeline::table).values(row).returning(TimelineRow::as_returning());
    Ok(insert.get_result(tx.conn()).await?)
}

/// Locks a live step until the transaction ends. Returns false if the step is not live.
async fn lock_live_step(mut conn: &Conn, id: StepId) -> QueryResult<bool> {
    let live = step::table.find(id).filter(step::archived_at.is_null()).select(step::id).for_share();
    Ok(live.first::<StepId>(&mut conn).await.optional()?.is_some())
}

async fn insert_row(mut conn: &Conn, new: &Deal, request: Option<CreationRequest>) -> QueryResult<bool> {
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
            deal::request_family.eq(request.map(CreationRequest::family)),
        ))
        .on_conflict_do_nothing();
    Ok(Prepared(insert).execute(&mut conn).await? == 1)
}

/// Updates the row by compare and swap. Returns false if the deal has another version.
async fn update_row(mut conn: &Conn, change: &Change) -> QueryResult<bool> {
    let after = &change.after;
    let contract = &after.contract;
    let folded_number = contract.contract_number.as_ref().map(|number| fold(number.expose().as_str()));
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
        deal::contract_number.eq(contract.contract_number.as_ref().map(Private::expose)),
        deal::folded_contract_number.eq(folded_number),
        deal::escrow_account_number.eq(contract.escrow_account_number.as_ref().map(Private::expose)),
        deal::fixation_data.eq(contract.fixation_data.as_ref().map(Private::expose)),
        deal::cancelled_at.eq(after.cancelled_at),
        deal::cancel_reason.eq(after.cancel_reason.as_ref().map(Private::expose)),
        deal::completed_at.eq(after.completed_at),
        deal::updated_at.eq(after.updated_at),
        deal::updated_by_user_id.eq(after.updated_by_user_id),
        deal::row_version.eq(after.row_version),
        deal::stage_change_version.eq(after.stage_change_version),
    ));
    Ok(Prepared(update).execute(&mut conn).await? == 1)
}

/// Closes the current stage.
async fn close_stage(mut conn: &Conn, after: &Deal) -> QueryResult<()> {
    let current = stage::table.filter(stage::deal_id.eq(after.id)).filter(stage::left_at.is_null());
    let close = diesel::update(current).set(stage::left_at.eq(after.step_entered_at));
    Prepared(close).execute(&mut conn).await?;
    Ok(())
}

/// Opens the stage of the deal's step.
async fn open_stage(mut conn: &Conn, after: &Deal) -> QueryResult<()> {
    let open = diesel::insert_into(stage::table).values((
        stage::deal_id.eq(after.id),
        stage::row_version.eq(after.row_version),
        stage::step_id.eq(after.step_id),
        stage::status.eq(after.status),
        stage::entered_at.eq(after.step_entered_at),
    ));
    Prepared(open).execute(&mut conn).await?;
    Ok(())
}

async fn upsert_booking(mut conn: &Conn, booking: &Booking) -> QueryResult<()> {
    let upsert =
        diesel::insert_into(booking::table).values(booking).on_conflict(booking::id).do_update().set(booking);
    Prepared(upsert).execute(&mut conn).await?;
    Ok(())
}

/// Appends the rows of one change in their order.
async fn append_rows(mut conn: &Conn, rows: &[NewTimelineRow<'_>]) -> QueryResult<()> {
    // A change has at most three rows, so the cache gets at most three prepared statements.
    Prepared(diesel::insert_into(timeline::table).values(rows)).execute(&mut conn).await?;
    Ok(())
}

/// A new row of the timeline. `republish` reads the agent and the amount after the change from this
/// row.
#[derive(Insertable)]
#[diesel(table_name = timeline, treat_none_as_default_value = false)]
struct NewTimelineRow<'e> {
    id: TimelineRowId,
    deal_id: DealId,
    kind: TimelineKind,
    payload: Json<&'e TimelineEntry>,
    actor_user_id: Option<UserId>,
    actor_role: Role,
    created_at: OffsetDateTime,
    row_version: i64,
    agent_user_id: Option<UserId>,
    amount: i64,
    currency: Currency,
    audience: NoteAudience,
}

impl<'e> NewTimelineRow<'e> {
    fn of(after: &Deal, entry: &'e TimelineEntry, author: Author, audience: NoteAudience) -> Self {
        Self {
            id: TimelineRowId::generate(),
            deal_id: after.id,
            kind: entry.kind(),
            payload: Json(entry),
            actor_user_id: author.user_id,
            actor_role: author.role,
            created_at: after.updated_at,
            row_version: after.row_version,
            agent_user_id: after.agent_user_id,
            amount: after.amount.amount_minor.get(),
            currency: after.amount.currency,
            audience: if entry.has_audience() { audience } else { NoteAudience::Everyone },
        }
    }
}
