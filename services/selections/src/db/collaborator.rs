//! Collaborators of selections. Only rows without `left_at` grant access.

use ::db::{Conn, Prepared, Tx};
use auth::UserId;
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::SelectionId;
use crate::schema::{collaborator, selection};

/// A person whom the owner lets edit a selection.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = collaborator, check_for_backend(diesel::pg::Pg))]
#[serde(rename_all = "PascalCase")]
pub struct CollaboratorView {
    pub user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub added_at: OffsetDateTime,
}

/// Returns true if the user is a collaborator of the selection.
pub async fn is_collaborator(
    conn: &mut Conn,
    selection: SelectionId,
    user: UserId,
) -> Result<bool, ::db::Error> {
    let present = collaborator::table.find((selection, user)).filter(collaborator::left_at.is_null());
    let is_present = diesel::select(exists(present));
    Ok(is_present.get_result(conn).await?)
}

/// Inserts a collaborator. Returns false if the user is a collaborator or has left.
pub async fn insert(
    tx: &mut Tx,
    selection: SelectionId,
    user: UserId,
    now: OffsetDateTime,
) -> Result<bool, ::db::Error> {
    let insert = diesel::insert_into(collaborator::table)
        .values((
            collaborator::selection_id.eq(selection),
            collaborator::user_id.eq(user),
            collaborator::added_at.eq(now),
        ))
        .on_conflict_do_nothing();
    Ok(Prepared(insert).execute(tx.conn()).await? == 1)
}

/// Records that a collaborator has left.
pub async fn leave(
    tx: &mut Tx,
    selection: SelectionId,
    user: UserId,
    now: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let present = collaborator::table.find((selection, user)).filter(collaborator::left_at.is_null());
    diesel::update(present).set(collaborator::left_at.eq(now)).execute(tx.conn()).await?;
    Ok(())
}

/// Deletes a collaborator, if the user is one.
pub async fn delete(tx: &mut Tx, selection: SelectionId, user: UserId) -> Result<(), ::db::Error> {
    let present = collaborator::table.find((selection, user)).filter(collaborator::left_at.is_null());
    diesel::delete(present).execute(tx.conn()).await?;
    Ok(())
}

/// Deletes all collaborators of a selection. Those who have left stay, because they count in
/// [`count_of_owner`].
pub async fn delete_all(tx: &mut Tx, selection: SelectionId) -> Result<(), ::db::Error> {
    diesel::delete(collaborator::table.filter(is_of(selection))).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the number of selections that are shared with a user.
pub async fn count_shared(conn: &mut Conn, user: UserId) -> Result<i64, ::db::Error> {
    let of_user =
        collaborator::table.filter(collaborator::user_id.eq(user)).filter(collaborator::left_at.is_null());
    Ok(of_user.count().get_result(conn).await?)
}

/// Returns the number of selections that an owner shares with a user, and of those that the user
/// has left, deleted ones too.
pub async fn count_of_owner(conn: &mut Conn, owner: UserId, user: UserId) -> Result<i64, ::db::Error> {
    let shared = collaborator::table
        .inner_join(selection::table.on(selection::id.eq(collaborator::selection_id)))
        .filter(collaborator::user_id.eq(user))
        .filter(selection::owner_user_id.eq(owner));
    Ok(shared.count().get_result(conn).await?)
}

pub async fn count(conn: &mut Conn, selection: SelectionId) -> Result<i64, ::db::Error> {
    Ok(collaborator::table.filter(is_of(selection)).count().get_result(conn).await?)
}

/// Returns the collaborators of a selection in the order in which they were added.
pub async fn list(conn: &mut Conn, selection: SelectionId) -> Result<Vec<CollaboratorView>, ::db::Error> {
    let of_selection = collaborator::table
        .filter(is_of(selection))
        .order((collaborator::added_at, collaborator::user_id))
        .select(CollaboratorView::as_select());
    Ok(of_selection.load(conn).await?)
}

/// Returns the condition that a row is a collaborator of a selection.
#[diesel::dsl::auto_type(no_type_alias)]
fn is_of(selection: SelectionId) -> _ {
    collaborator::selection_id.eq(selection).and(collaborator::left_at.is_null())
}
