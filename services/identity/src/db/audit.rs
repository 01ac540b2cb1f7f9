//! Queries of the audit log.

use ::db::{Conn, Prepared, Tx};
use ::web::{CursorPage, CursorPaging};
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use service::list;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use values::Private;

use crate::domain::{AuditAction, AuditEntry, AuditEntryId, EmployeeStatus, SubjectId};
use crate::schema::audit_entry;

/// The content of a cursor: the last entry of a page, and the snapshot of the walk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditKey {
    #[serde(with = "::web::utc")]
    pub at: OffsetDateTime,
    pub id: AuditEntryId,
    walk: WalkSnapshot,
}

/// Snapshot of the transactions at the beginning of a walk.
///
/// An entry gets its time before its transaction commits. A walk therefore selects entries by
/// transaction, and leaves out entries that are committed after the walk began.
#[derive(Clone, Debug, Serialize, Deserialize, QueryableByName)]
struct WalkSnapshot {
    #[serde(with = "::web::utc")]
    #[diesel(sql_type = Timestamptz)]
    began: OffsetDateTime,
    /// First transaction id that was not assigned yet.
    #[diesel(sql_type = BigInt)]
    next: i64,
    /// Transactions before `next` that were still open, in ascending order.
    #[serde(with = "distances")]
    #[diesel(sql_type = Array<BigInt>)]
    open: Vec<i64>,
}

/// The serialized form of ascending ids in a cursor: the first id, then the distance of each id to
/// the previous one.
///
/// Distances have few digits, so a cursor with 900 open transactions stays below the length limit
/// of cursors.
mod distances {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(ids: &[i64], serializer: S) -> Result<S::Ok, S::Error> {
        let mut previous = 0;
        let distances: Vec<i64> = ids.iter().map(|id| id - std::mem::replace(&mut previous, *id)).collect();
        distances.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<i64>, D::Error> {
        let mut id = 0_i64;
        let distances = Vec::<i64>::deserialize(deserializer)?;
        // The sum of forged distances can overflow.
        let ids = distances.into_iter().map(|distance| {
            id = id.wrapping_add(distance);
            id
        });
        Ok(ids.collect())
    }
}

/// A duration that no transaction of the service reaches.
///
/// A restored database may use lower transaction ids than before, so old entries could look
/// uncommitted. Entries above this age therefore count as committed, whatever their transaction id.
const MAX_TRANSACTION_AGE: Duration = Duration::HOUR;

const SELECT_WALK_SNAPSHOT: &str = "\
    select clock_timestamp() as began, pg_snapshot_xmax(snapshot)::text::bigint as next, \
        array(select open::text::bigint from pg_snapshot_xip(snapshot) as open order by 1) as open \
    from pg_current_snapshot() as snapshot";

/// Filter of the audit log.
#[derive(Debug, Default)]
pub struct AuditFilter {
    pub tenant_id: Option<CompanyId>,
    pub subject_id: Option<SubjectId>,
    pub actor_user_id: Option<UserId>,
    pub actions: Option<Vec<AuditAction>>,
    pub from: Option<OffsetDateTime>,
    pub to: Option<OffsetDateTime>,
}

/// A change of an employee's status, read from its entry.
#[derive(Debug, Queryable, Selectable)]
#[diesel(table_name = audit_entry, check_for_backend(Pg))]
pub struct StatusChange {
    #[diesel(column_name = subject_id)]
    pub user_id: UserId,
    #[diesel(column_name = tenant_id)]
    pub company_id: CompanyId,
    #[diesel(column_name = from_status)]
    pub from: Option<EmployeeStatus>,
    #[diesel(column_name = to_status)]
    pub to: Option<EmployeeStatus>,
    #[diesel(column_name = actor_user_id)]
    pub by_user_id: UserId,
    pub at: OffsetDateTime,
}

/// Returns true if the log has `count` or more refused grants of an actor in the last hour.
pub async fn has_recent_refusals(conn: &mut Conn, actor: UserId, count: i64) -> Result<bool, ::db::Error> {
    let recent = diesel::sql_query(
        "select count(*) >= $2 as is_reached from ( \
             select from audit_entry \
             where actor_user_id = $1 and at > clock_timestamp() - interval '1 hour' and action = $3 limit $2 \
         ) as recent",
    )
    .bind::<SqlUuid, _>(actor)
    .bind::<BigInt, _>(count)
    .bind::<Text, _>(AuditAction::RoleGrantRefused);
    let Reached { is_reached } = Prepared(recent).get_result(conn).await?;
    Ok(is_reached)
}

#[derive(QueryableByName)]
struct Reached {
    #[diesel(sql_type = Bool)]
    is_reached: bool,
}

pub async fn append(tx: &mut Tx, entry: AuditEntry) -> Result<(), ::db::Error> {
    let insert = diesel::insert_into(audit_entry::table).values((
        (
            audit_entry::id.eq(entry.id),
            audit_entry::at.eq(entry.at),
            audit_entry::action.eq(entry.action),
            audit_entry::tenant_id.eq(entry.tenant_id),
            audit_entry::subject_id.eq(entry.subject_id),
            audit_entry::actor_user_id.eq(entry.actor_user_id),
            audit_entry::actor_company_id.eq(entry.actor_company_id),
        ),
        (
            audit_entry::role_id.eq(entry.role_id),
            audit_entry::role_code.eq(entry.role_code),
            audit_entry::from_status.eq(entry.from_status),
            audit_entry::to_status.eq(entry.to_status),
            audit_entry::changed_fields.eq(entry.changed_fields),
            audit_entry::reason.eq(entry.reason.as_ref().map(Private::expose)),
            audit_entry::machine_account_name.eq(entry.machine_account_name),
            audit_entry::trace_id.eq(entry.trace_id),
        ),
    ));
    Prepared(insert).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the last status change of each of these employees.
pub async fn list_last_status_changes(
    conn: &mut Conn,
    employees: &[Uuid],
) -> Result<Vec<StatusChange>, ::db::Error> {
    // The employees exist, so no removal is their last change.
    let changes =
        [AuditAction::EmployeeCreated, AuditAction::EmployeeSuspended, AuditAction::EmployeeActivated];
    let last = audit_entry::table
        .filter(audit_entry::subject_id.eq_any(employees))
        .filter(audit_entry::action.eq_any(changes))
        .distinct_on(audit_entry::subject_id)
        .order((audit_entry::subject_id, audit_entry::at.desc(), audit_entry::id.desc()));
    Ok(last.select(StatusChange::as_select()).load(conn).await?)
}

/// Returns true if an entry has this position. The entry must belong to `tenant`, unless it is
/// `None`.
pub async fn contains(
    mut conn: &Conn,
    tenant: Option<CompanyId>,
    key: &AuditKey,
) -> Result<bool, ::db::Error> {
    let entry = audit_entry::table.find(key.id).filter(audit_entry::at.eq(key.at));
    let found: Option<CompanyId> = entry.select(audit_entry::tenant_id).first(&mut conn).await.optional()?;
    Ok(found.is_some_and(|found| tenant.is_none_or(|tenant| tenant == found)))
}

/// Returns one page, newest first, of the entries that were committed when the walk began.
pub async fn list(
    mut conn: &Conn,
    filter: AuditFilter,
    paging: &CursorPaging<AuditKey>,
) -> Result<CursorPage<AuditEntry>, ::db::Error> {
    let mut entries =
        audit_entry::table.filter(list::custom_plan()).select(AuditEntry::as_select()).into_boxed();
    if let Some(tenant) = filter.tenant_id {
        entries = entries.filter(audit_entry::tenant_id.eq(tenant));
    }
    if let Some(subject) = filter.subject_id {
        entries = entries.filter(audit_entry::subject_id.eq(subject));
    }
    if let Some(actor) = filter.actor_user_id {
        entries = entries.filter(audit_entry::actor_user_id.eq(actor));
    }
    if let Some(actions) = filter.actions {
        entries = entries.filter(audit_entry::action.eq_any(actions));
    }
    if let Some(from) = filter.from {
        entries = entries.filter(audit_entry::at.ge(from));
    }
    if let Some(to) = filter.to {
        entries = entries.filter(audit_entry::at.lt(to));
    }
    if let Some(&AuditKey { at, id, .. }) = paging.after.as_ref() {
        // The index scan begins at `le(at)`. `is_older` alone gives no bound, because of its `or`.
        let is_older = audit_entry::at.lt(at).or(audit_entry::id.lt(id));
        entries = entries.filter(audit_entry::at.le(at)).filter(is_older);
    }
    let walk = match &paging.after {
        Some(key) => key.walk.clone(),
        None => Prepared(diesel::sql_query(SELECT_WALK_SNAPSHOT)).get_result(&mut conn).await?,
    };
    let is_committed = audit_entry::added_in
        .lt(walk.next)
        .and(audit_entry::added_in.ne_all(walk.open.clone()))
        .or(audit_entry::at.lt(walk.began - MAX_TRANSACTION_AGE));
    entries = entries.filter(is_committed);
    let newest_first = (audit_entry::at.desc(), audit_entry::id.desc());
    let found = entries.order(newest_first).limit(paging.limit()).load(&mut conn).await?;
    Ok(paging.page(found, |last: &AuditEntry| AuditKey { at: last.at, id: last.id, walk }))
}

#[cfg(test)]
mod tests {
    use ::web::{CursorPaging, FromQuery};
    use runtime::clock;
    use uuid::Uuid;

    use super::{AuditKey, WalkSnapshot};

    /// RULE-ALL-021: a cursor stays valid if many transactions were open when its walk began.
    #[test]
    fn cursor_with_900_open_transactions_is_accepted() {
        let first = 7_000_000_000;
        let open: Vec<i64> = (0..900).map(|number| first + number * 11).collect();
        let walk = WalkSnapshot { began: clock::now(), next: first + 10_000, open: open.clone() };
        let key = AuditKey { at: clock::now(), id: Uuid::nil().into(), walk };
        let paging = CursorPaging::<AuditKey> { page_size: 1, after: None };
        let cursor = paging.page(vec![1, 2], |_| key).next_cursor.unwrap();
        let next = CursorPaging::<AuditKey>::from_query(&format!("Cursor={cursor}")).unwrap();
        assert_eq!(next.after.unwrap().walk.open, open);
    }
}
