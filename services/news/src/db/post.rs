//! Rows of posts.

use ::db::{Conn, Db, Json, Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::dsl::{case_when, sql};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::Bool;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::{
    AuthorId, Block, FileId, GalleryImage, Post, PostId, PostStatus, Schedule, ScheduleFailure, Summary, Tag,
    Title, label_text, search_text, search_words, tag_key,
};
use crate::error::{CONFLICT, Error};
use crate::schema::{author, post, words_of};

/// Largest size of blocks that a lookup reads, in bytes. A larger one would delay the lookups
/// behind it.
const MAX_LOOKUP_BYTES: i32 = 64 * 1024;

/// Size of the texts in the largest response, in bytes.
///
/// Stored blocks exceed this size only if their texts have many control characters, whose escapes
/// are long. The HTML in the response leaves these characters out. Therefore the response for such
/// blocks is not larger than they are.
const MAX_TEXTS_BYTES: usize = 48 * 1024 * 1024;

/// Estimated size of an embed's item in a response, in bytes.
const EMBED_ITEM_BYTES: usize = 512;

/// Size of a post's texts, in bytes, above which the connection that carried the post is closed.
/// In the pool it would keep its large buffers.
const LARGE_POST_BYTES: usize = 1024 * 1024;

#[derive(Queryable, Selectable)]
#[diesel(table_name = post, check_for_backend(Pg))]
struct PostRow {
    id: PostId,
    author_id: AuthorId,
    author_user_id: UserId,
    author_company_id: Option<CompanyId>,
    title: Title,
    summary: Option<Summary>,
    cover_file_id: Option<FileId>,
    tags: Json<Vec<Tag>>,
    status: PostStatus,
    blocks: Json<Vec<Block>>,
    published_at: Option<OffsetDateTime>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
    updated_by_user_id: UserId,
    deleted_at: Option<OffsetDateTime>,
    deleted_by_moderator: bool,
    publish_at: Option<OffsetDateTime>,
    unpublish_at: Option<OffsetDateTime>,
    scheduled_by_user_id: Option<UserId>,
    schedule_token_issued_at: Option<OffsetDateTime>,
    schedule_failure: Option<Json<ScheduleFailure>>,
    version: i64,
}

impl From<PostRow> for Post {
    fn from(row: PostRow) -> Self {
        Self {
            id: row.id,
            author_id: row.author_id,
            author_user_id: row.author_user_id,
            author_company_id: row.author_company_id,
            title: row.title,
            summary: row.summary,
            cover_file_id: row.cover_file_id,
            tags: row.tags.0,
            status: row.status,
            blocks: row.blocks.0,
            published_at: row.published_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
            updated_by_user_id: row.updated_by_user_id,
            deleted_at: row.deleted_at,
            deleted_by_moderator: row.deleted_by_moderator,
            schedule: Schedule {
                publish_at: row.publish_at,
                unpublish_at: row.unpublish_at,
                set_by: row.scheduled_by_user_id.zip(row.schedule_token_issued_at),
            },
            schedule_failure: row.schedule_failure.map(|failure| failure.0),
            version: row.version,
        }
    }
}

/// Inserts a new post without blocks.
pub async fn insert(tx: &mut Tx, new: &Post) -> Result<(), ::db::Error> {
    diesel::insert_into(post::table)
        .values((
            post::id.eq(new.id),
            post::author_id.eq(new.author_id),
            post::author_user_id.eq(new.author_user_id),
            post::author_company_id.eq(new.author_company_id),
            post::title.eq(&new.title),
            post::summary.eq(&new.summary),
            post::cover_file_id.eq(new.cover_file_id),
            post::tags.eq(Json(&new.tags)),
            post::tag_keys.eq(tag_keys(new)),
            post::label_words.eq(words_of(search_words(new.title.as_str()), label_text(new), "")),
            post::status.eq(new.status),
            post::blocks.eq(Json(&new.blocks)),
            post::search_text.eq(search_text(&new.blocks)),
            post::created_at.eq(new.created_at),
            post::updated_at.eq(new.updated_at),
            post::updated_by_user_id.eq(new.updated_by_user_id),
            post::version.eq(new.version),
        ))
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Returns the tags as search compares them.
fn tag_keys(post: &Post) -> Vec<String> {
    post.tags.iter().map(tag_key).collect()
}

/// Counts the drafts of an author.
pub async fn count_drafts(tx: &mut Tx, author: UserId) -> Result<i64, ::db::Error> {
    let drafts = post::table
        .filter(post::author_user_id.eq(author))
        // A generic plan uses the partial index only with a literal.
        .filter(sql::<Bool>("status = 'Draft'"))
        .filter(post::deleted_at.is_null());
    Ok(Prepared(drafts.count()).get_result(tx.conn()).await?)
}

/// Reads the post outside a transaction, unless it is deleted.
pub async fn read(db: &Db, id: PostId) -> Result<Option<Post>, ::db::Error> {
    let mut conn = db.conn().await?;
    let post = single(not_deleted(id).select(PostRow::as_select()).load(&mut conn).await?);
    if post.as_ref().is_some_and(is_large) {
        ::db::close(conn);
    }
    Ok(post)
}

/// Reads the present blocks of the post, deleted or not, unless its version is another one.
pub async fn read_blocks(db: &Db, id: PostId, version: i64) -> Result<Option<Vec<Block>>, ::db::Error> {
    let mut conn = db.conn().await?;
    let found = post::table.find(id).filter(post::version.eq(version));
    let rows = found.select((post::blocks, post::blocks_bytes)).load(&mut conn).await?;
    let row: Option<(Json<Vec<Block>>, i32)> = rows.into_iter().next();
    if row.as_ref().is_some_and(|(_, size)| usize::try_from(*size).is_ok_and(|size| size > LARGE_POST_BYTES))
    {
        ::db::close(conn);
    }
    Ok(row.map(|(blocks, _)| blocks.0))
}

/// Reads the post in a transaction, unless it is deleted.
pub async fn find(tx: &mut Tx, id: PostId) -> Result<Option<Post>, ::db::Error> {
    let post = single(not_deleted(id).select(PostRow::as_select()).load(tx.conn()).await?);
    Ok(post.inspect(|post| close_connection_if_large(tx, post)))
}

/// Locks the row of the post until `tx` ends, and returns the whole post, unless it is deleted.
pub async fn lock(tx: &mut Tx, id: PostId) -> Result<Option<Post>, ::db::Error> {
    let post = single(not_deleted(id).select(PostRow::as_select()).for_update().load(tx.conn()).await?);
    Ok(post.inspect(|post| close_connection_if_large(tx, post)))
}

/// Locks the row of the post until `tx` ends, and returns the whole post, deleted or not.
pub async fn lock_any(tx: &mut Tx, id: PostId) -> Result<Option<Post>, ::db::Error> {
    let found = post::table.find(id).select(PostRow::as_select()).for_update();
    let post = single(found.load(tx.conn()).await?);
    Ok(post.inspect(|post| close_connection_if_large(tx, post)))
}

/// Returns the posts of these ids, deleted ones too, each with only its embeds and with the number
/// of its blocks.
pub async fn list_states(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<(Post, usize)>, ::db::Error> {
    let posts = post::table.filter(post::id.eq_any(ids)).select((columns_with_embeds(), post::blocks_count));
    let posts: Vec<(PostRow, i32)> = posts.load(tx.conn()).await?;
    let with_count = |(row, count): (PostRow, i32)| (row.into(), usize::try_from(count).unwrap_or(0));
    Ok(posts.into_iter().map(with_count).collect())
}

/// A post that a lookup found.
pub struct FoundPost {
    pub post: Post,
    /// False if `post` has only its embeds, as when it is too long for a lookup.
    pub is_whole: bool,
    /// Estimated size of the post in a response, in bytes.
    pub bytes: usize,
}

/// Looks up the post with only its embeds, deleted or not.
pub async fn look_up_any(mut conn: &Conn, id: PostId) -> QueryResult<Option<FoundPost>> {
    let found = post::table.find(id).select((columns_with_embeds(), post::blocks_bytes));
    let found = found.load(&mut conn).await?.into_iter().next();
    Ok(found.map(|(row, size): (PostRow, i32)| to_found(row.into(), None, size)))
}

/// Looks up the post, unless it is deleted.
pub async fn look_up(mut conn: &Conn, id: PostId) -> QueryResult<Option<FoundPost>> {
    let blocks = case_when(post::blocks_bytes.le(MAX_LOOKUP_BYTES), post::blocks);
    let rows =
        not_deleted(id).select((columns_with_embeds(), blocks, post::blocks_bytes)).load(&mut conn).await?;
    let found = rows.into_iter().next();
    Ok(found.map(|(row, blocks, size): (PostRow, Option<Json<Vec<Block>>>, i32)| {
        to_found(row.into(), blocks, size)
    }))
}

/// Returns the result of a lookup of a post with its embeds, its blocks if they were read, and
/// their size.
fn to_found(mut post: Post, blocks: Option<Json<Vec<Block>>>, size: i32) -> FoundPost {
    let items = post.blocks.iter().filter_map(Block::embed).map(|embed| embed.items_count as usize);
    let size = usize::try_from(size).unwrap_or(0);
    // The database stores each text twice, as sent and as plain text. The response adds its HTML,
    // about half of the stored size, until the texts have `MAX_TEXTS_BYTES`.
    let texts = (size + size / 2).min(size.max(MAX_TEXTS_BYTES));
    let bytes = texts + items.sum::<usize>() * EMBED_ITEM_BYTES;
    let is_whole = blocks.is_some();
    if let Some(Json(blocks)) = blocks {
        post.blocks = blocks;
    }
    FoundPost { post, is_whole, bytes }
}

/// A post as the blocks edit needs it.
pub struct PostToEdit {
    /// The post with only its embeds.
    pub post: Post,
    /// Size of the stored blocks, in bytes.
    pub stored_bytes: usize,
    /// Size of the stored blocks of all posts of the author, in bytes.
    pub author_bytes: usize,
}

/// Looks up the post for an edit of its blocks, unless it is deleted.
pub async fn look_up_for_edit(mut conn: &Conn, id: PostId) -> QueryResult<Option<PostToEdit>> {
    let of_author = author::table.filter(author::id.eq(post::author_id)).select(author::content_bytes);
    let columns = (columns_with_embeds(), post::blocks_bytes, of_author.single_value());
    let found = not_deleted(id).select(columns).load(&mut conn).await?.into_iter().next();
    Ok(found.map(|(row, stored, of_author): (PostRow, i32, Option<i64>)| PostToEdit {
        post: row.into(),
        stored_bytes: usize::try_from(stored).unwrap_or(0),
        author_bytes: of_author.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0),
    }))
}

/// Locks the row of the post until `tx` ends, and returns the post with only its embeds, unless it
/// is deleted.
pub async fn lock_embeds(tx: &mut Tx, id: PostId) -> Result<Option<Post>, ::db::Error> {
    Ok(single(not_deleted(id).select(columns_with_embeds()).for_update().load(tx.conn()).await?))
}

/// Returns the columns of [`PostRow`], with the embeds in place of the blocks.
#[diesel::dsl::auto_type(no_type_alias)]
fn columns_with_embeds() -> _ {
    (
        post::id,
        post::author_id,
        post::author_user_id,
        post::author_company_id,
        post::title,
        post::summary,
        post::cover_file_id,
        post::tags,
        post::status,
        post::embeds,
        post::published_at,
        post::created_at,
        post::updated_at,
        post::updated_by_user_id,
        post::deleted_at,
        post::deleted_by_moderator,
        post::publish_at,
        post::unpublish_at,
        post::scheduled_by_user_id,
        post::schedule_token_issued_at,
        post::schedule_failure,
        post::version,
    )
}

#[diesel::dsl::auto_type(no_type_alias)]
fn not_deleted(id: PostId) -> _ {
    post::table.find(id).filter(post::deleted_at.is_null())
}

/// Returns the single row of a result.
///
/// The caller has read the result to its end, because an error such as a timeout can follow a
/// large row.
fn single(mut rows: Vec<PostRow>) -> Option<Post> {
    rows.pop().map(Post::from)
}

fn close_connection_if_large(tx: &mut Tx, post: &Post) {
    if is_large(post) {
        tx.close_connection_afterwards();
    }
}

/// Returns true if the texts of the post exceed [`LARGE_POST_BYTES`].
pub fn is_large(post: &Post) -> bool {
    let text_bytes = |image: &GalleryImage| {
        let caption = image.caption.as_ref().map_or(0, |caption| caption.as_str().len());
        caption + image.alt.as_ref().map_or(0, |alt| alt.as_str().len())
    };
    let sizes = post.blocks.iter().map(|block| match block {
        Block::Text(text) => text.text_bytes(),
        Block::ImageGallery(gallery) => gallery.images.iter().map(text_bytes).sum(),
        Block::SelectionEmbed(_) => 0,
    });
    sizes.sum::<usize>() > LARGE_POST_BYTES
}

/// Writes everything but the blocks, and increments the version of row and aggregate.
///
/// # Errors
/// [`CONFLICT`] if the row no longer has the version that was read.
pub async fn save(tx: &mut Tx, changed: &mut Post) -> Result<(), Error> {
    let row = post::table.find(changed.id).filter(post::version.eq(changed.version));
    let save = diesel::update(row).set((
        post::title.eq(&changed.title),
        post::summary.eq(&changed.summary),
        post::cover_file_id.eq(changed.cover_file_id),
        post::tags.eq(Json(&changed.tags)),
        post::tag_keys.eq(tag_keys(changed)),
        post::label_words.eq(words_of(search_words(changed.title.as_str()), label_text(changed), "")),
        post::status.eq(changed.status),
        post::published_at.eq(changed.published_at),
        post::updated_at.eq(changed.updated_at),
        post::updated_by_user_id.eq(changed.updated_by_user_id),
        post::deleted_at.eq(changed.deleted_at),
        post::deleted_by_moderator.eq(changed.deleted_by_moderator),
        post::publish_at.eq(changed.schedule.publish_at),
        post::unpublish_at.eq(changed.schedule.unpublish_at),
        post::scheduled_by_user_id.eq(changed.schedule.set_by.map(|(user, _)| user)),
        post::schedule_token_issued_at.eq(changed.schedule.set_by.map(|(_, at)| at)),
        post::schedule_failure.eq(changed.schedule_failure.as_ref().map(Json)),
        post::version.eq(changed.version + 1),
    ));
    let saved = Prepared(save).execute(tx.conn()).await?;
    finish_save(saved, changed)
}

/// Writes the blocks and the search text (INV-NWS-008), and increments the version.
///
/// # Errors
/// [`CONFLICT`] if the row no longer has the version that was read.
pub async fn save_blocks(tx: &mut Tx, changed: &mut Post) -> Result<(), Error> {
    close_connection_if_large(tx, changed);
    write_blocks(tx.conn(), changed).await
}

/// Writes blocks and search text in one statement, for an edit that writes nothing else.
///
/// Use [`save_blocks`] for a [large](is_large) post: its connection must be closed even if the
/// request is cancelled.
///
/// # Errors
/// [`CONFLICT`] if the row no longer has the version that was read.
pub async fn save_only_blocks(db: &Db, changed: &mut Post) -> Result<(), Error> {
    write_blocks(&mut *db.conn().await?, changed).await
}

async fn write_blocks(conn: &mut Conn, changed: &mut Post) -> Result<(), Error> {
    let row = post::table.find(changed.id).filter(post::version.eq(changed.version));
    let embeds: Vec<&Block> = changed.blocks.iter().filter(|block| block.embed().is_some()).collect();
    let save = diesel::update(row).set((
        post::blocks.eq(Json(&changed.blocks)),
        post::embeds.eq(Json(embeds)),
        post::search_text.eq(search_text(&changed.blocks)),
        post::updated_at.eq(changed.updated_at),
        post::updated_by_user_id.eq(changed.updated_by_user_id),
        post::version.eq(changed.version + 1),
    ));
    let saved = Prepared(save).execute(conn).await?;
    finish_save(saved, changed)
}

/// Increments the version of the aggregate, or returns [`CONFLICT`] if no row was written.
fn finish_save(saved: usize, changed: &mut Post) -> Result<(), Error> {
    if saved == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}
