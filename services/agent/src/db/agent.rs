//! Agents and their agencies.

use ::db::{Conn, Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::domain::Agent;
use crate::schema::agent;

pub async fn find(conn: &mut Conn, id: UserId) -> QueryResult<Option<Agent>> {
    Prepared(agent::table.find(id).select(Agent::as_select())).get_result(conn).await.optional()
}

/// Stores an agent by compare and swap. Returns false if another change won the race.
pub async fn save(tx: &mut Tx, new: &Agent) -> Result<bool, ::db::Error> {
    if new.version == 1 {
        let insert = diesel::insert_into(agent::table).values(new).on_conflict_do_nothing();
        return Ok(Prepared(insert).execute(tx.conn()).await? == 1);
    }
    let read = agent::table.find(new.user_id).filter(agent::version.eq(new.version - 1));
    let update = diesel::update(read).set((
        agent::agency_company_id.eq(new.agency_company_id),
        agent::version.eq(new.version),
        agent::updated_at.eq(new.updated_at),
        agent::updated_by_user_id.eq(new.updated_by_user_id),
    ));
    Ok(Prepared(update).execute(tx.conn()).await? == 1)
}
