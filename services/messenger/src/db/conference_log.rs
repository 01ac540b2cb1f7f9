//! The append-only log of admissions and hosts.

use ::db::{Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::domain::{ConferenceChange, ConferenceId};
use crate::schema::conference_log;

/// Adds a change of a conference that `by` made and that concerns `user`.
pub async fn insert(
    tx: &mut Tx,
    conference: ConferenceId,
    kind: ConferenceChange,
    user: UserId,
    by: UserId,
    at: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let entry = (
        conference_log::conference_id.eq(conference),
        conference_log::kind.eq(kind),
        conference_log::user_id.eq(user),
        conference_log::by_user_id.eq(by),
        conference_log::at.eq(at),
    );
    Prepared(diesel::insert_into(conference_log::table).values(entry)).execute(tx.conn()).await?;
    Ok(())
}
