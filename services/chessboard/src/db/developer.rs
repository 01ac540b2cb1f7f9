//! Queries on developers for managers and administrators, with writes and locks.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::CompanyId;
use diesel::dsl::{count_star, exists, sql};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};
use uuid::Uuid;
use values::Private;

use crate::domain::{Developer, DeveloperStatus, ExternalDeveloperId, ProjectStatus, SyncSource};
use crate::error::{CONFLICT, DEVELOPER_ALREADY_EXISTS, DEVELOPER_TALENT_DUPLICATE, Error};
use crate::schema::{developer, lost_developer, project};

/// The sort keys of the administrator's list.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum DeveloperSort {
    Name,
    CreatedAt,
    UpdatedAt,
}

impl SortKey for DeveloperSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// The filters of the administrator's list.
#[derive(Default)]
pub struct DeveloperFilter {
    /// Folded by [`fold`](values::fold).
    pub query: Option<String>,
    pub statuses: Option<Vec<DeveloperStatus>>,
    pub sync_sources: Option<Vec<SyncSource>>,
    pub include_deleted: bool,
}

/// Inserts a new profile. If the company had a profile that a restore of the database lost, the
/// version continues above the lost one.
///
/// # Errors
/// - [`DEVELOPER_ALREADY_EXISTS`] if the company has a profile.
/// - [`DEVELOPER_TALENT_DUPLICATE`] if another profile has the external id.
pub async fn insert(tx: &mut Tx, new: &mut Developer) -> Result<(), Error> {
    let lost = lost_developer::table.find(new.id).select(lost_developer::version);
    if let Some(version) = lost.first::<i64>(tx.conn()).await.optional()? {
        new.version = version + 1;
    }
    let insert = diesel::insert_into(developer::table).values((
        (
            developer::id.eq(new.id),
            developer::status.eq(new.status),
            developer::name.eq(&new.name),
            developer::legal_name.eq(&new.legal_name),
            developer::description.eq(&new.description),
            developer::logo_file_id.eq(new.logo_file_id),
            developer::website.eq(&new.website),
            developer::contact_phone.eq(new.contact_phone.as_ref().map(Private::expose)),
            developer::contact_email.eq(new.contact_email.as_ref().map(Private::expose)),
            developer::founded_year.eq(new.founded_year),
            developer::highlights.eq(&new.highlights),
        ),
        (
            developer::sync_source.eq(new.sync_source),
            developer::external_chessboard_developer_id.eq(new.external_chessboard_developer_id),
            developer::replica_version.eq(new.replica_version),
            developer::last_synced_at.eq(new.last_synced_at),
            developer::created_at.eq(new.created_at),
            developer::created_by_user_id.eq(new.created_by_user_id),
            developer::updated_at.eq(new.updated_at),
            developer::updated_by_user_id.eq(new.updated_by_user_id),
            developer::version.eq(new.version),
            developer::folded_name.eq(new.folded_name()),
            developer::search_text.eq(new.search_text()),
        ),
    ));
    Prepared(insert).execute(tx.conn()).await.map_err(map_unique_violation)?;
    Ok(())
}

/// Writes the mutable columns and raises the version of the row and of `changed`.
///
/// [`save_bookkeeping`] raises no version, so the row may have newer bookkeeping columns than
/// `before`. This function writes them only if they have changed, so that no edit restores their
/// old values.
///
/// # Errors
/// - [`CONFLICT`] if the row no longer has the version that was read.
/// - [`DEVELOPER_TALENT_DUPLICATE`] if another profile has the external id.
pub async fn save(tx: &mut Tx, before: &Developer, changed: &mut Developer) -> Result<(), Error> {
    let row = developer::table.find(changed.id).filter(developer::version.eq(changed.version));
    let sync_state = (
        developer::sync_source.eq(changed.sync_source),
        developer::external_chessboard_developer_id.eq(changed.external_chessboard_developer_id),
        developer::replica_version.eq(changed.replica_version),
        developer::last_synced_at.eq(changed.last_synced_at),
    );
    let cascade_state = developer::hidden_by_identity.eq(changed.hidden_by_identity);
    let save = diesel::update(row).set((
        (
            developer::status.eq(changed.status),
            developer::name.eq(&changed.name),
            developer::legal_name.eq(&changed.legal_name),
            developer::description.eq(&changed.description),
            developer::logo_file_id.eq(changed.logo_file_id),
            developer::website.eq(&changed.website),
            developer::contact_phone.eq(changed.contact_phone.as_ref().map(Private::expose)),
            developer::contact_email.eq(changed.contact_email.as_ref().map(Private::expose)),
            developer::founded_year.eq(changed.founded_year),
            developer::highlights.eq(&changed.highlights),
        ),
        (
            developer::updated_at.eq(changed.updated_at),
            developer::updated_by_user_id.eq(changed.updated_by_user_id),
            developer::deleted_at.eq(changed.deleted_at),
            developer::deleted_by_user_id.eq(changed.deleted_by_user_id),
            developer::version.eq(changed.version + 1),
            developer::folded_name.eq(changed.folded_name()),
            developer::search_text.eq(changed.search_text()),
        ),
        changed.has_other_sync_state_than(before).then_some(sync_state),
        (changed.hidden_by_identity != before.hidden_by_identity).then_some(cascade_state),
    ));
    if Prepared(save).execute(tx.conn()).await.map_err(map_unique_violation)? == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

/// Writes the bookkeeping columns without raising the version.
///
/// Bookkeeping is the state of the identity cascade and the applied external version with its time.
///
/// # Errors
/// [`CONFLICT`] if the row no longer has the version that was read.
pub async fn save_bookkeeping(tx: &mut Tx, changed: &Developer) -> Result<(), Error> {
    let row = developer::table.find(changed.id).filter(developer::version.eq(changed.version));
    let save = diesel::update(row).set((
        developer::hidden_by_identity.eq(changed.hidden_by_identity),
        developer::replica_version.eq(changed.replica_version),
        developer::last_synced_at.eq(changed.last_synced_at),
    ));
    if Prepared(save).execute(tx.conn()).await? == 0 { Err(CONFLICT.into()) } else { Ok(()) }
}

pub async fn look_up(mut conn: &Conn, id: CompanyId) -> QueryResult<Option<Developer>> {
    developer::table.find(id).select(Developer::as_select()).first(&mut conn).await.optional()
}

/// Returns the developer, deleted or not.
pub async fn find(tx: &mut Tx, id: CompanyId) -> Result<Option<Developer>, ::db::Error> {
    Ok(look_up(tx.conn(), id).await?)
}

/// Locks the developer, deleted or not, for reading until the transaction ends.
///
/// Transactions that create or publish something of the developer take this lock.
pub async fn lock_for_reading(tx: &mut Tx, id: CompanyId) -> Result<Option<Developer>, ::db::Error> {
    let row = developer::table.find(id).select(Developer::as_select()).for_share();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Locks the developer, deleted or not, for writing until the transaction ends.
///
/// No concurrent transaction can create a project of the developer.
pub async fn lock(tx: &mut Tx, id: CompanyId) -> Result<Option<Developer>, ::db::Error> {
    let row = developer::table.find(id).select(Developer::as_select()).for_no_key_update();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Returns the developer whose profile, deleted or not, has the external id.
pub async fn find_owner_of_external_id(
    tx: &mut Tx,
    external_id: ExternalDeveloperId,
) -> Result<Option<CompanyId>, ::db::Error> {
    let row = developer::table.filter(developer::external_chessboard_developer_id.eq(external_id));
    Ok(row.select(developer::id).first(tx.conn()).await.optional()?)
}

/// Returns true if the developer has a project that is not deleted, in any status.
pub async fn has_live_projects(tx: &mut Tx, id: CompanyId) -> Result<bool, ::db::Error> {
    let live = project::table.filter(project::tenant_id.eq(id)).filter(project::deleted_at.is_null());
    Ok(diesel::select(exists(live)).get_result(tx.conn()).await?)
}

/// Stores the profiles that a restore of the database lost, each with the version of its Hidden
/// event.
pub async fn insert_lost(tx: &mut Tx, lost: &[(CompanyId, i64)]) -> Result<(), ::db::Error> {
    if lost.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = lost
        .iter()
        .map(|(id, version)| (lost_developer::id.eq(id), lost_developer::version.eq(version)))
        .collect();
    let insert = diesel::insert_into(lost_developer::table).values(rows);
    let insert = insert.on_conflict(lost_developer::id).do_update();
    let insert = insert.set(lost_developer::version.eq(excluded(lost_developer::version)));
    insert.execute(tx.conn()).await?;
    Ok(())
}

/// Recounts the live Published projects of a developer (INV-PRJ-2).
///
/// The lock of the developer prevents concurrent publications of its projects.
pub async fn recount_projects(tx: &mut Tx, id: CompanyId) -> Result<(), ::db::Error> {
    let row = developer::table.find(id).select(developer::id).for_no_key_update();
    if row.first::<CompanyId>(tx.conn()).await.optional()?.is_none() {
        return Ok(());
    }
    let published = project::table
        .filter(project::tenant_id.eq(id))
        .filter(project::deleted_at.is_null())
        .filter(project::status.eq(ProjectStatus::Published));
    let count: i64 = published.select(count_star()).first(tx.conn()).await?;
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let differs = developer::table.find(id).filter(developer::projects_published_count.ne(count));
    let save = diesel::update(differs).set(developer::projects_published_count.eq(count));
    Prepared(save).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the developers whose stored count of Published projects is wrong.
pub async fn find_miscounted(mut conn: &Conn) -> Result<Vec<CompanyId>, ::db::Error> {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = diesel::sql_types::Uuid)]
        id: CompanyId,
    }
    let found = diesel::sql_query(
        "select developer.id from developer \
         left join (select tenant_id, count(*) as published from project \
             where deleted_at is null and status = 'Published' group by tenant_id) as counted \
             on counted.tenant_id = developer.id \
         where developer.projects_published_count <> coalesce(counted.published, 0)",
    );
    let rows: Vec<Row> = Prepared(found).load(&mut conn).await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Returns the developers with these ids, sorted by id.
pub async fn list_by_ids(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<Developer>, ::db::Error> {
    let rows = developer::table.filter(developer::id.eq_any(ids)).order(developer::id);
    Ok(rows.select(Developer::as_select()).load(tx.conn()).await?)
}

/// Returns one page of all developers.
pub async fn list(
    conn: &Conn,
    filter: &DeveloperFilter,
    paging: &Paging<DeveloperSort>,
) -> Result<Page<Developer>, ::db::Error> {
    let order = match paging.sort {
        DeveloperSort::Name => list::order_by(paging, developer::folded_name),
        DeveloperSort::CreatedAt => list::order_by(paging, developer::created_at),
        DeveloperSort::UpdatedAt => list::order_by(paging, developer::updated_at),
    };
    let sorted = filtered(filter).select(Developer::as_select()).order((order, developer::id));
    Ok(list::page(conn, paging, sorted, filtered(filter).select(developer::id)).await?)
}

fn filtered(filter: &DeveloperFilter) -> developer::BoxedQuery<'static, Pg> {
    let mut found = developer::table.filter(list::custom_plan()).into_boxed();
    if let Some(query) = &filter.query {
        let trigrams = sql::<Bool>("trigrams(search_text) @> trigrams(");
        found = found.filter(developer::search_text.like(values::like_containing(query)));
        found = found.filter(trigrams.bind::<Text, _>(query.clone()).sql(")"));
    }
    if let Some(statuses) = &filter.statuses {
        found = found.filter(developer::status.eq_any(statuses.clone()));
    }
    if let Some(sources) = &filter.sync_sources {
        found = found.filter(developer::sync_source.eq_any(sources.clone()));
    }
    if filter.include_deleted { found } else { found.filter(developer::deleted_at.is_null()) }
}

/// Maps a violated unique constraint to its code.
fn map_unique_violation(error: diesel::result::Error) -> Error {
    let error = ::db::Error::from(error);
    match error.violated_constraint() {
        Some("developer_pkey") => DEVELOPER_ALREADY_EXISTS.into(),
        Some("developer_external_chessboard_developer_id_key") => DEVELOPER_TALENT_DUPLICATE.into(),
        _ => error.into(),
    }
}
