//! The queue of changed developers, projects and buildings whose objects must be published.

use ::db::{Prepared, Tx};
use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::schema::propagation;

values::text_enum! {
    /// The kind of the changed ancestor.
    pub enum Scope {
        Developer,
        Project,
        Building,
    }
}

/// A changed ancestor with the progress of publishing its objects.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = propagation, check_for_backend(Pg))]
pub struct Propagation {
    pub scope: Scope,
    pub scope_id: Uuid,
    /// Number of requests so far. A new request during a batch restarts the propagation.
    pub requests: i64,
    /// Id of the last published object.
    pub published_to: Option<Uuid>,
}

/// Requests the propagation of a change. A propagation that has begun restarts at the first object.
///
/// The caller has already locked the changed ancestor.
pub async fn request(
    tx: &mut Tx,
    scope: Scope,
    id: Uuid,
    tenant: CompanyId,
    hides: bool,
) -> Result<(), ::db::Error> {
    let request = diesel::sql_query(format!(
        "insert into propagation (scope, scope_id, tenant_id, hides, round) values ($1, $2, $3, $4, {}) \
         on conflict (scope, scope_id) do update \
         set hides = propagation.hides or excluded.hides, requests = propagation.requests + 1, published_to = null, \
             round = case when excluded.hides > propagation.hides then excluded.round else propagation.round end",
        next_round("$3", "$4")
    ))
    .bind::<Text, _>(scope)
    .bind::<SqlUuid, _>(id)
    .bind::<SqlUuid, _>(tenant)
    .bind::<diesel::sql_types::Bool, _>(hides);
    Prepared(request).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the SQL of the next round of a developer. `tenant` and `hides` are SQL expressions.
///
/// The propagations of one developer have consecutive rounds. The first one gets the lowest round
/// in the queue. The job takes the lowest round first, so developers are served round-robin, even
/// if one of them has many changes.
fn next_round(tenant: &str, hides: &str) -> String {
    format!(
        "greatest(0, (select max(round) + 1 from propagation where tenant_id = {tenant} and hides = {hides}), \
         (select min(round) from propagation where hides = {hides}))"
    )
}

/// Returns the next propagation. Propagations that hide objects precede all others, and developers
/// are served round-robin.
pub async fn find_next(tx: &mut Tx) -> Result<Option<Propagation>, ::db::Error> {
    let order = (propagation::hides.desc(), propagation::round, propagation::turn);
    let next = propagation::table.order(order).limit(1).select(Propagation::as_select());
    Ok(Prepared(next).get_result(tx.conn()).await.optional()?)
}

/// Stores the progress of a propagation and moves it behind the propagations of other developers.
///
/// `None` means that all objects are published, so the row is deleted. A propagation that was
/// requested again during the batch starts from the beginning instead.
pub async fn advance(
    tx: &mut Tx,
    propagation: &Propagation,
    published_to: Option<Uuid>,
) -> Result<(), ::db::Error> {
    let &Propagation { scope, scope_id, requests, .. } = propagation;
    if published_to.is_none() {
        let row = propagation::table.find((scope, scope_id)).filter(propagation::requests.eq(requests));
        if Prepared(diesel::delete(row)).execute(tx.conn()).await? == 1 {
            return Ok(());
        }
    }
    let update = diesel::sql_query(format!(
        "update propagation as advanced \
         set turn = default, round = {}, \
             published_to = case when requests = $3 then $4 else published_to end \
         where scope = $1 and scope_id = $2",
        next_round("advanced.tenant_id", "advanced.hides")
    ))
    .bind::<Text, _>(scope)
    .bind::<SqlUuid, _>(scope_id)
    .bind::<BigInt, _>(requests)
    .bind::<Nullable<SqlUuid>, _>(published_to);
    Prepared(update).execute(tx.conn()).await?;
    Ok(())
}
