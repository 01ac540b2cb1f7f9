//! Members of chats and their read markers.

use ::db::{Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::domain::{ChatId, Member};
use crate::schema::member;

/// Returns the members in the order of `joined_at`, and the time of the database's clock.
pub async fn load_with_clock(tx: &mut Tx, id: ChatId) -> Result<(Vec<Member>, OffsetDateTime), ::db::Error> {
    let now = diesel::dsl::sql::<Timestamptz>("clock_timestamp()");
    let members = member::table.filter(member::chat_id.eq(id)).order((member::joined_at, member::user_id));
    let members: Vec<(Member, OffsetDateTime)> =
        members.select((Member::as_select(), now)).load(tx.conn()).await?;
    let (members, times): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    let now = match times.into_iter().next() {
        Some(now) => now,
        // Both users have left a Direct chat.
        None => super::clock::read(tx.conn()).await?,
    };
    Ok((members, now))
}

/// Stores members who are new or have another role.
pub async fn upsert(tx: &mut Tx, changed: &[&Member]) -> Result<(), ::db::Error> {
    let upsert = diesel::insert_into(member::table)
        .values(changed.to_vec())
        .on_conflict((member::user_id, member::chat_id))
        .do_update()
        .set((
            member::role.eq(excluded(member::role)),
            member::fallback_role.eq(excluded(member::fallback_role)),
        ));
    upsert.execute(tx.conn()).await?;
    Ok(())
}

pub async fn delete(tx: &mut Tx, id: ChatId, user: UserId) -> Result<(), ::db::Error> {
    diesel::delete(member::table.find((user, id))).execute(tx.conn()).await?;
    Ok(())
}

/// Stores the read marker of a member of a locked chat.
pub async fn set_read_sequence(tx: &mut Tx, id: ChatId, user: UserId, to: i64) -> Result<(), ::db::Error> {
    let row = diesel::update(member::table.find((user, id))).set(member::read_sequence.eq(to));
    Prepared(row).execute(tx.conn()).await?;
    Ok(())
}
