//! Imports of feeds with the chunks of their files.

use ::db::{Conn, Json, Prepared, Tx};
use ::web::{CursorPage, CursorPaging};
use auth::CompanyId;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{FeedImport, FeedImportId, FeedUploadId};
use crate::error::{CONFLICT, Error, FEED_IMPORT_IN_PROGRESS};
use crate::schema::{feed_chunk, feed_import};

/// An element that the import ignores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct IgnoredElement {
    /// The path below `offer`. `*` counts the elements beyond the first 100 names.
    pub name: String,
    pub count: u64,
}

/// The number of uploads of a developer since `hour_began_at`.
#[derive(Clone, Copy, Debug, QueryableByName)]
pub struct UploadsInHour {
    #[diesel(sql_type = Integer)]
    pub uploads: i32,
    #[diesel(sql_type = Timestamptz)]
    pub hour_began_at: OffsetDateTime,
}

/// Counts one more upload of a developer at this time.
pub async fn count_upload(
    tx: &mut Tx,
    tenant: CompanyId,
    now: OffsetDateTime,
) -> Result<UploadsInHour, ::db::Error> {
    let count = diesel::sql_query(
        "insert into feed_upload_count as counted (tenant_id, hour_began_at, uploads) values ($1, $2, 1) \
         on conflict (tenant_id) do update set \
             hour_began_at = case when counted.hour_began_at <= $2 - interval '1 hour' then $2 \
                                  else counted.hour_began_at end, \
             uploads = case when counted.hour_began_at <= $2 - interval '1 hour' then 1 \
                            else counted.uploads + 1 end \
         returning uploads, hour_began_at",
    );
    let count = count.bind::<SqlUuid, _>(tenant).bind::<Timestamptz, _>(now);
    Ok(Prepared(count).get_result(tx.conn()).await?)
}

/// An import with its ignored elements.
pub type ImportRow = (FeedImport, Json<Vec<IgnoredElement>>);

/// Inserts an import.
///
/// # Errors
/// [`FEED_IMPORT_IN_PROGRESS`] if the developer has an import that is not finished.
pub async fn insert(tx: &mut Tx, new: &FeedImport) -> Result<(), Error> {
    let inserted = Prepared(diesel::insert_into(feed_import::table).values(new)).execute(tx.conn()).await;
    inserted.map_err(::db::Error::from).map_err(|error| match error.violated_constraint() {
        Some("feed_import_in_progress") => FEED_IMPORT_IN_PROGRESS.into(),
        _ => Error::from(error),
    })?;
    Ok(())
}

pub async fn look_up(mut conn: &Conn, tenant: CompanyId, id: FeedImportId) -> QueryResult<Option<ImportRow>> {
    let row = live(id).filter(feed_import::tenant_id.eq(tenant));
    row.select((FeedImport::as_select(), feed_import::ignored)).first(&mut conn).await.optional()
}

/// Returns one page of a developer's imports, newest first.
pub async fn list(
    mut conn: &Conn,
    tenant: CompanyId,
    paging: &CursorPaging<FeedImportId>,
) -> QueryResult<CursorPage<ImportRow>> {
    let mut rows = feed_import::table
        .filter(feed_import::tenant_id.eq(tenant))
        .filter(feed_import::deleted_at.is_null())
        .into_boxed();
    if let Some(after) = paging.after {
        rows = rows.filter(feed_import::id.lt(after));
    }
    let page = rows.order(feed_import::id.desc()).limit(paging.limit());
    let rows = page.select((FeedImport::as_select(), feed_import::ignored)).load(&mut conn).await?;
    Ok(paging.page(rows, |(last, _): &ImportRow| last.id))
}

/// Locks an import for writing until the transaction ends.
pub async fn lock(tx: &mut Tx, id: FeedImportId) -> Result<Option<FeedImport>, ::db::Error> {
    let row = live(id).select(FeedImport::as_select()).for_no_key_update();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Writes the mutable columns and raises the version of the row and of `changed`.
///
/// # Errors
/// [`CONFLICT`] if the row no longer has the version that was read.
pub async fn save(tx: &mut Tx, changed: &mut FeedImport) -> Result<(), Error> {
    let row = feed_import::table.find(changed.id).filter(feed_import::version.eq(changed.version));
    let save = diesel::update(row).set((
        feed_import::state.eq(changed.state),
        feed_import::upload_id.eq(changed.upload_id),
        feed_import::file_bytes.eq(changed.file_bytes),
        feed_import::refusal_code.eq(&changed.refusal_code),
        feed_import::refusal_line.eq(changed.refusal_line),
        feed_import::offers_count.eq(changed.offers_count),
        feed_import::rejected_count.eq(changed.rejected_count),
        feed_import::skip_rejected.eq(changed.skip_rejected),
        feed_import::updated_at.eq(changed.updated_at),
        feed_import::applied_by_user_id.eq(changed.applied_by_user_id),
        feed_import::version.eq(changed.version + 1),
    ));
    if Prepared(save).execute(tx.conn()).await? == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

/// Stores the elements that an import ignores.
pub async fn save_ignored(
    tx: &mut Tx,
    id: FeedImportId,
    ignored: Vec<IgnoredElement>,
) -> Result<(), ::db::Error> {
    let row = diesel::update(feed_import::table.find(id)).set(feed_import::ignored.eq(Json(ignored)));
    row.execute(tx.conn()).await?;
    Ok(())
}

/// Hides an import. A job deletes its rows.
pub async fn delete(tx: &mut Tx, id: FeedImportId, at: OffsetDateTime) -> Result<(), ::db::Error> {
    let row = diesel::update(feed_import::table.find(id)).set(feed_import::deleted_at.eq(at));
    row.execute(tx.conn()).await?;
    Ok(())
}

/// Hides up to `limit` imports without a change since `before`. Returns their number.
pub async fn delete_before(
    tx: &mut Tx,
    before: OffsetDateTime,
    at: OffsetDateTime,
    limit: i64,
) -> Result<usize, ::db::Error> {
    let expired = feed_import::table
        .filter(feed_import::deleted_at.is_null())
        .filter(feed_import::updated_at.lt(before))
        .order(feed_import::updated_at)
        .limit(limit)
        .select(feed_import::id)
        .for_update()
        .skip_locked();
    let expired: Vec<FeedImportId> = expired.load(tx.conn()).await?;
    let rows = feed_import::table.filter(feed_import::id.eq_any(&expired));
    diesel::update(rows).set(feed_import::deleted_at.eq(at)).execute(tx.conn()).await?;
    Ok(expired.len())
}

/// Returns the import that was deleted first, of those whose rows still exist.
pub async fn find_deleted(tx: &mut Tx) -> Result<Option<FeedImportId>, ::db::Error> {
    let rows = feed_import::table.filter(feed_import::deleted_at.is_not_null());
    let first = rows.order(feed_import::deleted_at).select(feed_import::id).first(tx.conn()).await;
    Ok(first.optional()?)
}

/// Deletes the row of an import whose rows in other tables are already deleted.
pub async fn remove(tx: &mut Tx, id: FeedImportId) -> Result<(), ::db::Error> {
    diesel::delete(feed_import::table.find(id)).execute(tx.conn()).await?;
    Ok(())
}

/// Stores a part of a file in its own statement.
///
/// # Errors
/// [`CONFLICT`] if another upload has begun, or if the import is deleted.
pub async fn insert_chunk(
    conn: &mut Conn,
    id: FeedImportId,
    upload: FeedUploadId,
    position: i32,
    content: &[u8],
) -> Result<(), Error> {
    let insert = diesel::sql_query(
        "insert into feed_chunk (import_id, upload_id, position, content) \
         select $1, $2, $3, $4 from feed_import \
         where id = $1 and upload_id = $2 and state = 'Uploading' and deleted_at is null",
    );
    let insert = insert
        .bind::<SqlUuid, _>(id)
        .bind::<SqlUuid, _>(upload)
        .bind::<Integer, _>(position)
        .bind::<Binary, _>(content);
    if Prepared(insert).execute(conn).await? == 0 {
        return Err(CONFLICT.into());
    }
    Ok(())
}

/// Returns a part of a file.
pub async fn find_chunk(
    conn: &mut Conn,
    id: FeedImportId,
    upload: FeedUploadId,
    position: i32,
) -> Result<Option<Vec<u8>>, ::db::Error> {
    let chunk = feed_chunk::table.find((id, upload, position)).select(feed_chunk::content);
    Ok(Prepared(chunk).get_result(conn).await.optional()?)
}

/// Deletes up to `limit` parts of files of an import, except those of `kept`. Returns their number.
pub async fn delete_chunks(
    tx: &mut Tx,
    id: FeedImportId,
    kept: Option<FeedUploadId>,
    limit: i64,
) -> Result<usize, ::db::Error> {
    let delete = diesel::sql_query(
        "delete from feed_chunk where (import_id, upload_id, position) in ( \
            select import_id, upload_id, position from feed_chunk \
            where import_id = $1 and upload_id is distinct from $2 limit $3)",
    );
    let delete = delete.bind::<SqlUuid, _>(id).bind::<Nullable<SqlUuid>, _>(kept).bind::<BigInt, _>(limit);
    Ok(Prepared(delete).execute(tx.conn()).await?)
}

/// Deletes the results of the validation of an import, up to `limit` rows of each table. Returns
/// the number of deleted rows.
pub async fn delete_results(tx: &mut Tx, id: FeedImportId, limit: i64) -> Result<usize, ::db::Error> {
    let mut deleted = 0;
    for (table, key) in [
        ("feed_offer", "building_id, position"),
        ("feed_problem", "id"),
        ("feed_change", "building_id, position"),
        ("feed_building", "building_id"),
    ] {
        let delete = diesel::sql_query(format!(
            "delete from {table} where (import_id, {key}) in ( \
                select import_id, {key} from {table} where import_id = $1 limit $2)"
        ));
        let delete = delete.bind::<SqlUuid, _>(id).bind::<BigInt, _>(limit);
        deleted += delete.execute(tx.conn()).await?;
    }
    Ok(deleted)
}

#[diesel::dsl::auto_type(no_type_alias)]
fn live(id: FeedImportId) -> _ {
    feed_import::table.find(id).filter(feed_import::deleted_at.is_null())
}
