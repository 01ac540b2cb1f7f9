//! What has changed above objects and is to be told of each of them.

use ::db::{Cached, Tx};
use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::schema::propagation;

values::text_enum! {
    /// What has changed.
    pub enum Scope {
        Developer,
        Project,
        Building,
    }
}

/// A change that is told of the objects below it, as far as it has come.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = propagation, check_for_backend(Pg))]
pub struct Propagation {
    pub scope: Scope,
    pub scope_id: Uuid,
    pub asked: i64,
    pub told_to: Option<Uuid>,
}

/// Has the objects below told of a change that the transaction makes, from the first one on. Comes after the locks that
/// the change needs.
pub async fn ask(
    tx: &mut Tx,
    scope: Scope,
    id: Uuid,
    tenant: CompanyId,
    hides: bool,
) -> Result<(), ::db::Error> {
    let ask = diesel::sql_query(format!(
        "insert into propagation (scope, scope_id, tenant_id, hides, round) values ($1, $2, $3, $4, {}) \
         on conflict (scope, scope_id) do update \
         set hides = propagation.hides or excluded.hides, asked = propagation.asked + 1, told_to = null, \
             round = case when excluded.hides > propagation.hides then excluded.round else propagation.round end",
        next_round("$3", "$4")
    ))
    .bind::<Text, _>(scope)
    .bind::<SqlUuid, _>(id)
    .bind::<SqlUuid, _>(tenant)
    .bind::<diesel::sql_types::Bool, _>(hides);
    Cached(ask).execute(tx.conn()).await?;
    Ok(())
}

/// The round after the last one of this developer's, and not before the one that is on: so one who asks for much is told of in turn with
/// all others, whenever they come.
fn next_round(tenant: &str, hides: &str) -> String {
    format!(
        "greatest(0, (select max(round) + 1 from propagation where tenant_id = {tenant} and hides = {hides}), \
         (select min(round) from propagation where hides = {hides}))"
    )
}

/// What is to be told next: what hides goes before names, and developers take turns.
pub async fn next(tx: &mut Tx) -> Result<Option<Propagation>, ::db::Error> {
    let order = (propagation::hides.desc(), propagation::round, propagation::turn);
    let next = propagation::table.order(order).limit(1).select(Propagation::as_select());
    Ok(Cached(next).get_result(tx.conn()).await.optional()?)
}

/// Notes how far it has come, `None` for all of it, unless it was asked for anew meanwhile; then it is the turn of other
/// developers.
pub async fn advance(tx: &mut Tx, told: &Propagation, told_to: Option<Uuid>) -> Result<(), ::db::Error> {
    if told_to.is_none() {
        let row =
            propagation::table.find((told.scope, told.scope_id)).filter(propagation::asked.eq(told.asked));
        if Cached(diesel::delete(row)).execute(tx.conn()).await? == 1 {
            return Ok(());
        }
    }
    let turn = diesel::sql_query(format!(
        "update propagation as told \
         set turn = default, round = {}, told_to = case when asked = $3 then $4 else told_to end \
         where scope = $1 and scope_id = $2",
        next_round("told.tenant_id", "told.hides")
    ))
    .bind::<Text, _>(told.scope)
    .bind::<SqlUuid, _>(told.scope_id)
    .bind::<BigInt, _>(told.asked)
    .bind::<Nullable<SqlUuid>, _>(told_to);
    Cached(turn).execute(tx.conn()).await?;
    Ok(())
}
