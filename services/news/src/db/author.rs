//! The public ids of authors.

use ::db::{Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::schema::author;
use crate::domain::AuthorId;

/// Returns the public id of a user, which the first call generates, and locks it until the
/// transaction ends.
pub async fn lock_or_insert(tx: &mut Tx, user: UserId) -> Result<AuthorId, ::db::Error> {
    // The update changes nothing, but returns the stored row.
    let insert = diesel::insert_into(author::table)
        .values((author::user_id.eq(user), author::id.eq(AuthorId::generate())))
        .on_conflict(author::user_id)
        .do_update()
        .set(author::user_id.eq(user))
        .returning(author::id);
    Ok(Prepared(insert).get_result(tx.conn()).await?)
}
