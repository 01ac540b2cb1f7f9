//! The public ids of authors.

use ::db::{Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::domain::AuthorId;
use crate::schema::author;

/// Returns the public id of a user, and locks the user's row until the transaction ends. The first
/// call for a user generates the id.
pub async fn lock_or_insert(tx: &mut Tx, user: UserId) -> Result<AuthorId, ::db::Error> {
    // The update changes nothing, but locks and returns the stored row.
    let insert = diesel::insert_into(author::table)
        .values((author::user_id.eq(user), author::id.eq(AuthorId::generate())))
        .on_conflict(author::user_id)
        .do_update()
        .set(author::user_id.eq(user))
        .returning(author::id);
    Ok(Prepared(insert).get_result(tx.conn()).await?)
}
