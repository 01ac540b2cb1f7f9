//! Saved views. Every statement names the owner, so no caller reads or changes the views of another
//! owner.

use ::db::{Conn, Tx};
use auth::{CompanyId, UserId};
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::domain::{SavedView, SavedViewId, ViewContent, ViewOwner};
use crate::schema::saved_view;

/// Selects the views of an owner.
#[diesel::dsl::auto_type(no_type_alias)]
fn views_of(owner: ViewOwner) -> _ {
    let user_id: UserId = owner.user_id;
    let company_id: Option<CompanyId> = owner.company_id();
    saved_view::table
        .filter(saved_view::owner_user_id.eq(user_id))
        .filter(saved_view::company_id.is_not_distinct_from(company_id))
}

/// Reads all views, oldest first.
pub async fn list(mut conn: &Conn, owner: ViewOwner) -> QueryResult<Vec<SavedView>> {
    let views = views_of(owner).order((saved_view::created_at, saved_view::id));
    views.select(SavedView::as_select()).load(&mut conn).await
}

pub async fn find(mut conn: &Conn, owner: ViewOwner, id: SavedViewId) -> QueryResult<Option<SavedView>> {
    let view = views_of(owner).filter(saved_view::id.eq(id)).select(SavedView::as_select());
    view.first(&mut conn).await.optional()
}

/// Locks the views of a user until the transaction ends, and counts those of the owner.
///
/// The lock serializes creations, so the limit is exact.
pub async fn lock_and_count(tx: &mut Tx, owner: ViewOwner) -> Result<i64, ::db::Error> {
    let lock = "select pg_advisory_xact_lock(hashtextextended(concat_ws(' ', current_schema(), 'saved_view', $1), 0))";
    diesel::sql_query(lock).bind::<Text, _>(owner.user_id.to_string()).execute(tx.conn()).await?;
    Ok(views_of(owner).count().get_result(tx.conn()).await?)
}

pub async fn insert(
    tx: &mut Tx,
    owner: ViewOwner,
    content: &ViewContent,
    now: OffsetDateTime,
) -> Result<SavedView, ::db::Error> {
    let insert = diesel::insert_into(saved_view::table).values((
        saved_view::id.eq(SavedViewId::generate()),
        saved_view::owner_user_id.eq(owner.user_id),
        saved_view::company_id.eq(owner.company_id()),
        saved_view::name.eq(content.name.expose()),
        saved_view::query.eq(content.query.expose()),
        saved_view::created_at.eq(now),
        saved_view::updated_at.eq(now),
    ));
    Ok(insert.returning(SavedView::as_returning()).get_result(tx.conn()).await?)
}

/// Replaces the content of a view. Returns `None` if the owner has no such view.
pub async fn update(
    tx: &mut Tx,
    owner: ViewOwner,
    id: SavedViewId,
    content: &ViewContent,
    now: OffsetDateTime,
) -> Result<Option<SavedView>, ::db::Error> {
    let update = diesel::update(views_of(owner).filter(saved_view::id.eq(id))).set((
        saved_view::name.eq(content.name.expose()),
        saved_view::query.eq(content.query.expose()),
        saved_view::updated_at.eq(now),
    ));
    Ok(update.returning(SavedView::as_returning()).get_result(tx.conn()).await.optional()?)
}

/// Deletes a view. Returns false if the owner has no such view.
pub async fn delete(tx: &mut Tx, owner: ViewOwner, id: SavedViewId) -> Result<bool, ::db::Error> {
    let view = views_of(owner).filter(saved_view::id.eq(id));
    Ok(diesel::delete(view).execute(tx.conn()).await? == 1)
}
