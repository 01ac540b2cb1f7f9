//! Developers as they are stored, locked and found.

use ::db::{Cached, Lookup, Tx};
use ::web::{Page, Paging, SortKey};
use auth::CompanyId;
use diesel::dsl::{count_star, exists, sql};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};
use uuid::Uuid;
use values::Private;

use super::schema::{developer, project};
use crate::domain::{Developer, DeveloperStatus, OutsideId, ProjectStatus, SEPARATOR, SyncSource};
use crate::error::{CONFLICT, DEVELOPER_ALREADY_EXISTS, DEVELOPER_TALENT_DUPLICATE, Error};

/// What the list of all developers may be sorted by.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum DeveloperSort {
    Name,
    CreatedAt,
    UpdatedAt,
}

impl SortKey for DeveloperSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// Which developers are asked for.
#[derive(Default)]
pub struct DeveloperFilter {
    /// As [`fold`](values::fold) has it.
    pub query: Option<String>,
    pub statuses: Option<Vec<DeveloperStatus>>,
    pub sync_sources: Option<Vec<SyncSource>>,
    pub with_deleted: bool,
}

/// # Errors
/// [`DEVELOPER_ALREADY_EXISTS`], [`DEVELOPER_TALENT_DUPLICATE`]
pub async fn insert(tx: &mut Tx, new: &Developer) -> Result<(), Error> {
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
            developer::lower_name.eq(new.lower_name()),
            developer::search_text.eq(new.search_text()),
        ),
    ));
    Cached(insert).execute(tx.conn()).await.map_err(taken)?;
    Ok(())
}

/// Writes what can be changed, if the row still has the version that was read; the aggregate gets the new one. What has
/// no version is written only by whoever has changed it: else an edit would put back what the books have had since.
///
/// # Errors
/// [`CONFLICT`], [`DEVELOPER_TALENT_DUPLICATE`]
pub async fn save(tx: &mut Tx, before: &Developer, changed: &mut Developer) -> Result<(), Error> {
    let row = developer::table.find(changed.id).filter(developer::version.eq(changed.version));
    let synced = (
        developer::sync_source.eq(changed.sync_source),
        developer::external_chessboard_developer_id.eq(changed.external_chessboard_developer_id),
        developer::replica_version.eq(changed.replica_version),
        developer::last_synced_at.eq(changed.last_synced_at),
    );
    let claim = developer::hidden_by_identity.eq(changed.hidden_by_identity);
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
            developer::lower_name.eq(changed.lower_name()),
            developer::search_text.eq(changed.search_text()),
        ),
        changed.is_synced_otherwise_than(before).then_some(synced),
        (changed.hidden_by_identity != before.hidden_by_identity).then_some(claim),
    ));
    if Cached(save).execute(tx.conn()).await.map_err(taken)? == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

/// Writes what is nobody's conflict: whether identity may publish it, and how far the outside system has been followed.
///
/// # Errors
/// [`CONFLICT`]
pub async fn save_books(tx: &mut Tx, changed: &Developer) -> Result<(), Error> {
    let row = developer::table.find(changed.id).filter(developer::version.eq(changed.version));
    let save = diesel::update(row).set((
        developer::hidden_by_identity.eq(changed.hidden_by_identity),
        developer::replica_version.eq(changed.replica_version),
        developer::last_synced_at.eq(changed.last_synced_at),
    ));
    if Cached(save).execute(tx.conn()).await? == 0 { Err(CONFLICT.into()) } else { Ok(()) }
}

pub async fn look_up(mut conn: Lookup<'_>, id: CompanyId) -> QueryResult<Option<Developer>> {
    developer::table.find(id).select(Developer::as_select()).first(&mut conn).await.optional()
}

/// The developer as they are, deleted or not.
pub async fn find(tx: &mut Tx, id: CompanyId) -> Result<Option<Developer>, ::db::Error> {
    Ok(look_up(tx.conn(), id).await?)
}

/// The developer, deleted or not, who stays as they are until this transaction ends: for whoever makes or tells of
/// something below.
pub async fn lock_for_reading(tx: &mut Tx, id: CompanyId) -> Result<Option<Developer>, ::db::Error> {
    let row = developer::table.find(id).select(Developer::as_select()).for_share();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// The developer, deleted or not, who is this transaction's to change: nothing is made below meanwhile.
pub async fn lock(tx: &mut Tx, id: CompanyId) -> Result<Option<Developer>, ::db::Error> {
    let row = developer::table.find(id).select(Developer::as_select()).for_no_key_update();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Whose profile has an outside id, deleted ones too.
pub async fn of_outside_id(tx: &mut Tx, outside: OutsideId) -> Result<Option<CompanyId>, ::db::Error> {
    let row = developer::table.filter(developer::external_chessboard_developer_id.eq(outside));
    Ok(row.select(developer::id).first(tx.conn()).await.optional()?)
}

/// Whether there are projects that are not deleted, of whatever status.
pub async fn has_live_projects(tx: &mut Tx, id: CompanyId) -> Result<bool, ::db::Error> {
    let live = project::table.filter(project::tenant_id.eq(id)).filter(project::deleted_at.is_null());
    Ok(diesel::select(exists(live)).get_result(tx.conn()).await?)
}

/// INV-PRJ-2: counts the published projects of a developer anew. Under the lock nobody publishes one.
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
    Cached(save).execute(tx.conn()).await?;
    Ok(())
}

/// Whose count of published projects is not what it should be.
pub async fn miscounted(mut conn: Lookup<'_>) -> Result<Vec<CompanyId>, ::db::Error> {
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
    let rows: Vec<Row> = Cached(found).load(&mut conn).await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Those of `keys`, by id.
pub async fn all_of(tx: &mut Tx, keys: &[Uuid]) -> Result<Vec<Developer>, ::db::Error> {
    let some = developer::table.filter(developer::id.eq_any(keys)).order(developer::id);
    Ok(some.select(Developer::as_select()).load(tx.conn()).await?)
}

/// One page of all developers.
pub async fn list(
    conn: Lookup<'_>,
    filter: &DeveloperFilter,
    paging: &Paging<DeveloperSort>,
) -> Result<Page<Developer>, ::db::Error> {
    let order = match paging.sort {
        DeveloperSort::Name => list::by(paging, developer::lower_name),
        DeveloperSort::CreatedAt => list::by(paging, developer::created_at),
        DeveloperSort::UpdatedAt => list::by(paging, developer::updated_at),
    };
    let sorted = found(filter).select(Developer::as_select()).order((order, developer::id));
    Ok(list::page(conn, paging, sorted, found(filter).select(developer::id)).await?)
}

fn found(filter: &DeveloperFilter) -> developer::BoxedQuery<'static, Pg> {
    let mut found = developer::table.filter(list::planned_anew()).into_boxed();
    if let Some(query) = &filter.query {
        let trigrams = sql::<Bool>("trigrams(search_text) @> trigrams(");
        found = found.filter(developer::search_text.like(values::anywhere(query)));
        found = found.filter(trigrams.bind::<Text, _>(query.clone()).sql(")"));
        if query.contains(SEPARATOR) {
            // What stands between the two names is in neither.
            let anywhere = values::anywhere(query);
            let own = sql::<Bool>("(lower_name like ").bind::<Text, _>(anywhere.clone());
            let own = own.sql(" or substr(search_text, length(lower_name) + 2) like ");
            found = found.filter(own.bind::<Text, _>(anywhere).sql(")"));
        }
    }
    if let Some(statuses) = &filter.statuses {
        found = found.filter(developer::status.eq_any(statuses.clone()));
    }
    if let Some(sources) = &filter.sync_sources {
        found = found.filter(developer::sync_source.eq_any(sources.clone()));
    }
    if filter.with_deleted { found } else { found.filter(developer::deleted_at.is_null()) }
}

fn taken(error: diesel::result::Error) -> Error {
    let error = ::db::Error::from(error);
    match error.violated_constraint() {
        Some("developer_pkey") => DEVELOPER_ALREADY_EXISTS.into(),
        Some("developer_external_chessboard_developer_id_key") => DEVELOPER_TALENT_DUPLICATE.into(),
        _ => error.into(),
    }
}
