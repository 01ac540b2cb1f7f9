//! Posts as they are stored.

use ::db::{Cached, Conn, Db, Json, Lookup, Tx};
use auth::{CompanyId, UserId};
use diesel::dsl::case_when;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use super::schema::post;
use crate::domain::{
    Block, FileId, GalleryImage, Post, PostId, PostStatus, Summary, Tag, Title, search_text,
};
use crate::error::{CONFLICT, Error};

/// What a lookup may read of a post, in bytes: others wait behind it.
const LOOKED_UP: i32 = 64 * 1024;

/// What an item of an embed takes when it is shown, in bytes.
const ITEM: usize = 512;

/// A connection that has carried so many bytes of a post is not kept.
const LARGE: usize = 1024 * 1024;

#[derive(Queryable, Selectable)]
#[diesel(table_name = post, check_for_backend(Pg))]
struct Row {
    id: PostId,
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
    version: i64,
}

impl From<Row> for Post {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
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
            version: row.version,
        }
    }
}

/// Stores a new post, without blocks yet.
pub async fn insert(tx: &mut Tx, new: &Post) -> Result<(), ::db::Error> {
    diesel::insert_into(post::table)
        .values((
            post::id.eq(new.id),
            post::author_user_id.eq(new.author_user_id),
            post::author_company_id.eq(new.author_company_id),
            post::title.eq(&new.title),
            post::summary.eq(&new.summary),
            post::cover_file_id.eq(new.cover_file_id),
            post::tags.eq(Json(&new.tags)),
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

/// The post, unless it is deleted.
pub async fn read(db: &Db, id: PostId) -> Result<Option<Post>, ::db::Error> {
    let mut conn = db.conn().await?;
    let post = only(live(id).select(Row::as_select()).load(&mut conn).await?);
    if post.as_ref().is_some_and(is_large) {
        ::db::close(conn);
    }
    Ok(post)
}

/// The same within a transaction.
pub async fn find(tx: &mut Tx, id: PostId) -> Result<Option<Post>, ::db::Error> {
    let post = only(live(id).select(Row::as_select()).load(tx.conn()).await?);
    Ok(post.inspect(|post| keep_small(tx, post)))
}

/// A post as a lookup finds it.
pub struct Found {
    pub post: Post,
    /// Whether all of its blocks are here; of a long one it is the embeds alone.
    pub is_whole: bool,
    /// What the post takes when it is shown, roughly.
    pub bytes: usize,
}

/// The post, unless it is deleted.
pub async fn look_up(mut conn: Lookup<'_>, id: PostId) -> QueryResult<Option<Found>> {
    let blocks = case_when(post::blocks_bytes.le(LOOKED_UP), post::blocks);
    let rows = live(id).select((with_embeds(), blocks, post::blocks_bytes)).load(&mut conn).await?;
    let found = rows.into_iter().next();
    Ok(found.map(|(row, blocks, size): (Row, Option<Json<Vec<Block>>>, i32)| {
        let mut post = Post::from(row);
        let items = post.blocks.iter().filter_map(Block::embed).map(|embed| embed.items_count as usize);
        let bytes = usize::try_from(size).unwrap_or(0) + items.sum::<usize>() * ITEM;
        let is_whole = blocks.is_some();
        if let Some(Json(blocks)) = blocks {
            post.blocks = blocks;
        }
        Found { post, is_whole, bytes }
    }))
}

/// The post with its embeds alone for blocks: all that matters of blocks that are about to be replaced.
pub async fn find_embeds(mut conn: Lookup<'_>, id: PostId) -> QueryResult<Option<Post>> {
    Ok(only(live(id).select(with_embeds()).load(&mut conn).await?))
}

/// The same within a transaction, and nobody changes it before `tx` ends.
pub async fn lock_embeds(tx: &mut Tx, id: PostId) -> Result<Option<Post>, ::db::Error> {
    Ok(only(live(id).select(with_embeds()).for_update().load(tx.conn()).await?))
}

/// The columns of [`Row`], with the embeds for the blocks.
#[diesel::dsl::auto_type(no_type_alias)]
fn with_embeds() -> _ {
    (
        post::id,
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
        post::version,
    )
}

#[diesel::dsl::auto_type(no_type_alias)]
fn live(id: PostId) -> _ {
    post::table.find(id).filter(post::deleted_at.is_null())
}

/// Of an answer that was read to its end: an error may follow a row, such as that a large one took too long.
fn only(mut rows: Vec<Row>) -> Option<Post> {
    rows.pop().map(Post::from)
}

fn keep_small(tx: &mut Tx, post: &Post) {
    if is_large(post) {
        tx.close_after();
    }
}

/// Whether the post is worth a connection.
pub fn is_large(post: &Post) -> bool {
    let words = |image: &GalleryImage| {
        let caption = image.caption.as_ref().map_or(0, |caption| caption.as_str().len());
        caption + image.alt.as_ref().map_or(0, |alt| alt.as_str().len())
    };
    let sizes = post.blocks.iter().map(|block| match block {
        Block::Text(text) => text.text.len() + text.plain_text.len(),
        Block::ImageGallery(gallery) => gallery.images.iter().map(words).sum(),
        Block::SelectionEmbed(_) => 0,
    });
    sizes.sum::<usize>() > LARGE
}

/// Writes everything but the blocks, if the row still has the version that was read; the aggregate
/// gets the new one.
///
/// # Errors
/// [`CONFLICT`] when somebody else was first.
pub async fn save(tx: &mut Tx, changed: &mut Post) -> Result<(), Error> {
    let row = post::table.find(changed.id).filter(post::version.eq(changed.version));
    let save = diesel::update(row).set((
        post::title.eq(&changed.title),
        post::summary.eq(&changed.summary),
        post::cover_file_id.eq(changed.cover_file_id),
        post::tags.eq(Json(&changed.tags)),
        post::status.eq(changed.status),
        post::published_at.eq(changed.published_at),
        post::updated_at.eq(changed.updated_at),
        post::updated_by_user_id.eq(changed.updated_by_user_id),
        post::deleted_at.eq(changed.deleted_at),
        post::version.eq(changed.version + 1),
    ));
    let saved = Cached(save).execute(tx.conn()).await?;
    swapped(saved, changed)
}

/// Writes the blocks and what the post can be found by (INV-NWS-008), in the same way.
///
/// # Errors
/// [`CONFLICT`] when somebody else was first.
pub async fn save_blocks(tx: &mut Tx, changed: &mut Post) -> Result<(), Error> {
    keep_small(tx, changed);
    write_blocks(tx.conn(), changed).await
}

/// The same where nothing is written beside: one statement is a transaction by itself. Not for what is
/// [large](is_large), whose connection has to go even if nobody waits for the end.
///
/// # Errors
/// [`CONFLICT`] when somebody else was first.
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
    let saved = Cached(save).execute(conn).await?;
    swapped(saved, changed)
}

fn swapped(saved: usize, changed: &mut Post) -> Result<(), Error> {
    if saved == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}
