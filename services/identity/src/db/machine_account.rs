//! Queries of machine accounts.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::{MachineAccount, MachineAccountStatus};
use crate::error::{CONFLICT, Error};
use crate::schema::machine_account;

/// Sort key of a list of machine accounts.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum MachineAccountSort {
    Name,
    CreatedAt,
}

impl SortKey for MachineAccountSort {
    const DEFAULT: &'static str = "Name";
}

pub async fn insert(tx: &mut Tx, new: &MachineAccount) -> Result<(), ::db::Error> {
    let insert = diesel::insert_into(machine_account::table).values((
        machine_account::id.eq(new.id),
        machine_account::company_id.eq(new.company_id),
        machine_account::name.eq(&new.name),
        machine_account::status.eq(new.status),
        machine_account::role_ids.eq(&new.role_ids),
        machine_account::created_at.eq(new.created_at),
        machine_account::updated_at.eq(new.updated_at),
        machine_account::version.eq(new.version),
        machine_account::lower_name.eq(new.lower_name()),
    ));
    insert.execute(tx.conn()).await?;
    Ok(())
}

/// Returns true if a machine account has this id.
pub async fn exists_with_id(conn: &mut Conn, id: UserId) -> Result<bool, ::db::Error> {
    Ok(diesel::select(exists(machine_account::table.find(id))).get_result(conn).await?)
}

/// Returns an account of this company, and `None` for an account of another company.
pub async fn find(
    conn: &mut Conn,
    company: CompanyId,
    id: UserId,
) -> Result<Option<MachineAccount>, ::db::Error> {
    Ok(look_up(conn, id).await?.filter(|account| account.company_id == company))
}

/// Returns an account of any company.
pub async fn look_up(mut conn: &Conn, id: UserId) -> QueryResult<Option<MachineAccount>> {
    machine_account::table.find(id).select(MachineAccount::as_select()).first(&mut conn).await.optional()
}

/// Returns the committed version, without waiting for a concurrent change.
pub async fn find_version(conn: &mut Conn, id: UserId) -> Result<Option<i64>, ::db::Error> {
    Ok(machine_account::table.find(id).select(machine_account::version).first(conn).await.optional()?)
}

/// Writes the changed fields if the row still has the version that was read, then sets the new
/// version on `changed`.
///
/// # Errors
/// [`CONFLICT`] if the row has another version.
pub async fn save(tx: &mut Tx, changed: &mut MachineAccount) -> Result<(), Error> {
    let row = machine_account::table.find(changed.id).filter(machine_account::version.eq(changed.version));
    let save = diesel::update(row).set((
        machine_account::name.eq(&changed.name),
        machine_account::status.eq(changed.status),
        machine_account::role_ids.eq(&changed.role_ids),
        machine_account::updated_at.eq(changed.updated_at),
        machine_account::version.eq(changed.version + 1),
        machine_account::lower_name.eq(changed.lower_name()),
    ));
    if Prepared(save).execute(tx.conn()).await? == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

pub async fn record_secret_request(tx: &mut Tx, id: UserId, at: OffsetDateTime) -> Result<(), ::db::Error> {
    let update = diesel::update(machine_account::table.find(id));
    update.set(machine_account::secret_requested_at.eq(at)).execute(tx.conn()).await?;
    Ok(())
}

/// Records whether the issuer may still grant rights that the account has lost.
pub async fn set_outdated_at_issuer(tx: &mut Tx, id: UserId, is_outdated: bool) -> Result<(), ::db::Error> {
    let update = diesel::update(machine_account::table.find(id));
    update.set(machine_account::is_outdated_at_issuer.eq(is_outdated)).execute(tx.conn()).await?;
    Ok(())
}

/// Returns true if the issuer may still grant rights that the account has lost. Locks the row.
pub async fn is_outdated_at_issuer(tx: &mut Tx, id: UserId) -> Result<bool, ::db::Error> {
    let flag = machine_account::table.find(id).select(machine_account::is_outdated_at_issuer);
    Ok(flag.for_no_key_update().first(tx.conn()).await.optional()?.unwrap_or_default())
}

/// Records that the company's active accounts have lost rights that the issuer may still grant.
pub async fn set_company_outdated_at_issuer(tx: &mut Tx, company: CompanyId) -> Result<(), ::db::Error> {
    let active = machine_account::table
        .filter(machine_account::company_id.eq(company))
        .filter(machine_account::status.eq(MachineAccountStatus::Active));
    // All writers lock accounts in the order of ids, so that they cannot deadlock.
    let sorted = active.order(machine_account::id).select(machine_account::id);
    let ids: Vec<UserId> = sorted.for_no_key_update().load(tx.conn()).await?;
    let update = diesel::update(machine_account::table.filter(machine_account::id.eq_any(&ids)));
    update.set(machine_account::is_outdated_at_issuer.eq(true)).execute(tx.conn()).await?;
    Ok(())
}

/// Marks up to 500 accounts with larger ids than `last` as outdated at the issuer. Returns their
/// ids, sorted. The limit keeps the transaction short.
pub async fn mark_outdated_after(tx: &mut Tx, last: Option<UserId>) -> Result<Vec<UserId>, ::db::Error> {
    let last = last.unwrap_or_else(|| Uuid::nil().into());
    let later = machine_account::table.filter(machine_account::id.gt(last)).order(machine_account::id);
    let ids: Vec<UserId> =
        later.limit(500).select(machine_account::id).for_no_key_update().load(tx.conn()).await?;
    let update = diesel::update(machine_account::table.filter(machine_account::id.eq_any(&ids)));
    update.set(machine_account::is_outdated_at_issuer.eq(true)).execute(tx.conn()).await?;
    Ok(ids)
}

/// Returns the ids of the active accounts of a company.
pub async fn list_active_ids(conn: &mut Conn, company: CompanyId) -> Result<Vec<UserId>, ::db::Error> {
    let active = machine_account::table
        .filter(machine_account::company_id.eq(company))
        .filter(machine_account::status.eq(MachineAccountStatus::Active));
    Ok(active.select(machine_account::id).load(conn).await?)
}

pub async fn list(
    conn: &Conn,
    company: CompanyId,
    statuses: Option<&[MachineAccountStatus]>,
    paging: &Paging<MachineAccountSort>,
) -> Result<Page<MachineAccount>, ::db::Error> {
    let order = match paging.sort {
        MachineAccountSort::Name => list::order_by(paging, machine_account::lower_name),
        MachineAccountSort::CreatedAt => list::order_by(paging, machine_account::created_at),
    };
    let counted = select_matching(company, statuses).select(machine_account::id);
    let sorted = select_matching(company, statuses)
        .select(MachineAccount::as_select())
        .order((order, machine_account::id));
    Ok(list::page(conn, paging, sorted, counted).await?)
}

/// Builds the query of the accounts that match a filter.
fn select_matching(
    company: CompanyId,
    statuses: Option<&[MachineAccountStatus]>,
) -> machine_account::BoxedQuery<'static, Pg> {
    let own = machine_account::company_id.eq(company);
    let accounts = machine_account::table.filter(own).filter(list::custom_plan()).into_boxed();
    match statuses {
        Some(statuses) => accounts.filter(machine_account::status.eq_any(statuses.to_vec())),
        None => accounts,
    }
}
