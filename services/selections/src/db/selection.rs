//! Rows of selections, and the views of them that reads return.

use ::db::{Conn, Json, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::UserId;
use diesel::dsl::exists;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use serde_json::value::RawValue;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{CardItem, Description, Item, Link, PublicCode, Selection, SelectionId, Title};
use crate::error::{CONFLICT, Error};
use crate::schema::{collaborator, selection};

/// The row of a selection, which is also the response to its owner and to crm.
#[derive(Debug, Queryable, Selectable, Insertable, Serialize, ToSchema)]
#[diesel(table_name = selection, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct SelectionView {
    pub id: SelectionId,
    pub owner_user_id: UserId,
    /// Code that opens the selection without a token.
    #[diesel(serialize_as = String)]
    #[schema(value_type = String, pattern = "^[0-9A-Za-z]{12}$", examples("7Gq2ZkX0aBcd"))]
    pub public_code: PublicCode,
    pub title: Title,
    pub description: Option<Description>,
    #[schema(value_type = Vec<Item>, max_items = 200)]
    pub items: Json<Vec<Item>>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub deleted_at: Option<OffsetDateTime>,
    /// Version for the next change.
    pub version: i64,
    #[serde(skip)]
    pub updated_by_user_id: UserId,
    #[serde(skip)]
    pub link_enabled: bool,
    #[serde(skip)]
    pub link_expires_at: Option<OffsetDateTime>,
    #[diesel(skip_insertion)]
    pub items_count: i32,
}

/// A selection that a code opens.
#[derive(Debug, Queryable, Selectable)]
#[diesel(table_name = selection, check_for_backend(Pg))]
pub struct OpenSelection {
    pub id: SelectionId,
    pub owner_user_id: UserId,
    pub version: i64,
    #[diesel(embed)]
    pub view: OpenSelectionView,
}

/// A selection as the read by code shows it: without id, owner and version.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = selection, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct OpenSelectionView {
    #[schema(value_type = String, pattern = "^[0-9A-Za-z]{12}$", examples("7Gq2ZkX0aBcd"))]
    pub public_code: PublicCode,
    pub title: Title,
    pub description: Option<Description>,
    // The row has the items without cards. The cached list with cards replaces the whole value.
    #[schema(value_type = Vec<CardItem>, max_items = 200)]
    pub items: Json<Box<RawValue>>,
    pub items_count: i32,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

impl From<Selection> for SelectionView {
    fn from(selection: Selection) -> Self {
        Self {
            id: selection.id,
            owner_user_id: selection.owner_user_id,
            public_code: selection.public_code,
            title: selection.title,
            description: selection.description,
            items_count: i32::try_from(selection.items.len()).unwrap_or(i32::MAX),
            items: Json(selection.items),
            created_at: selection.created_at,
            updated_at: selection.updated_at,
            deleted_at: selection.deleted_at,
            version: selection.version,
            updated_by_user_id: selection.updated_by_user_id,
            link_enabled: selection.link.is_enabled,
            link_expires_at: selection.link.expires_at,
        }
    }
}

impl From<SelectionView> for Selection {
    fn from(row: SelectionView) -> Self {
        Self {
            id: row.id,
            owner_user_id: row.owner_user_id,
            public_code: row.public_code,
            title: row.title,
            description: row.description,
            items: row.items.0,
            created_at: row.created_at,
            updated_at: row.updated_at,
            deleted_at: row.deleted_at,
            version: row.version,
            updated_by_user_id: row.updated_by_user_id,
            link: Link { is_enabled: row.link_enabled, expires_at: row.link_expires_at },
        }
    }
}

impl Queryable<diesel::sql_types::Text, Pg> for PublicCode {
    type Row = String;

    fn build(text: String) -> diesel::deserialize::Result<Self> {
        text.parse().map_err(|_| "invalid public code in the database".into())
    }
}

impl From<PublicCode> for String {
    fn from(code: PublicCode) -> Self {
        code.to_string()
    }
}

/// Sort keys of an owner's list.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum SelectionSort {
    CreatedAt,
    UpdatedAt,
    Title,
}

impl SortKey for SelectionSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// Inserts a selection. Returns false if its public code is already taken.
pub async fn insert(tx: &mut Tx, new: &Selection) -> Result<bool, ::db::Error> {
    let insert = diesel::insert_into(selection::table)
        .values(SelectionView::from(new.clone()))
        .on_conflict(selection::public_code)
        .do_nothing();
    let inserted = Prepared(insert).execute(tx.conn()).await?;
    Ok(inserted == 1)
}

/// Returns the selection, deleted or not.
pub async fn find(conn: &mut Conn, id: SelectionId) -> Result<Option<Selection>, ::db::Error> {
    let row = selection::table.find(id).select(SelectionView::as_select()).first(conn).await.optional()?;
    Ok(row.map(Selection::from))
}

/// Returns a selection to which a new deal may refer: one that is not deleted and that never had a
/// collaborator.
pub async fn find_for_new_deal(
    conn: &mut Conn,
    id: SelectionId,
) -> Result<Option<SelectionView>, ::db::Error> {
    let referable = selection::table
        .find(id)
        .filter(selection::deleted_at.is_null())
        .filter(selection::was_shared.eq(false))
        .select(SelectionView::as_select());
    Ok(referable.first(conn).await.optional()?)
}

/// Records that a selection has had a collaborator.
pub async fn set_shared(tx: &mut Tx, id: SelectionId) -> Result<(), ::db::Error> {
    let never_shared = selection::table.find(id).filter(selection::was_shared.eq(false));
    diesel::update(never_shared).set(selection::was_shared.eq(true)).execute(tx.conn()).await?;
    Ok(())
}

/// Returns a user's selection and locks its row, so that concurrent changes run one after the
/// other.
///
/// Does not lock a deleted selection or one of another owner, so other users cannot delay a change.
pub async fn lock_own(tx: &mut Tx, id: SelectionId, owner: UserId) -> Result<Option<Selection>, ::db::Error> {
    let own = selection::table
        .find(id)
        .filter(selection::deleted_at.is_null())
        .filter(selection::owner_user_id.eq(owner))
        .select(SelectionView::as_select())
        .for_no_key_update();
    let row: Option<SelectionView> = own.first(tx.conn()).await.optional()?;
    Ok(row.map(Selection::from))
}

/// Returns and locks a selection, as [`lock_own`] does, for its owner and its collaborators.
pub async fn lock_editable(
    tx: &mut Tx,
    id: SelectionId,
    user: UserId,
) -> Result<Option<Selection>, ::db::Error> {
    let present = collaborator::table.find((id, user)).filter(collaborator::left_at.is_null());
    let is_collaborator = exists(present);
    let editable = selection::table
        .find(id)
        .filter(selection::deleted_at.is_null())
        .filter(selection::owner_user_id.eq(user).or(is_collaborator))
        .select(SelectionView::as_select())
        .for_no_key_update();
    let row: Option<SelectionView> = editable.first(tx.conn()).await.optional()?;
    Ok(row.map(Selection::from))
}

/// Writes the members that users can change, and increments the version of row and aggregate.
///
/// # Errors
/// [`CONFLICT`] if the row no longer has the version that was read.
pub async fn save(tx: &mut Tx, changed: &mut Selection) -> Result<(), Error> {
    let row = selection::table.find(changed.id).filter(selection::version.eq(changed.version));
    let save = diesel::update(row).set((
        selection::title.eq(&changed.title),
        selection::description.eq(&changed.description),
        selection::items.eq(Json(&changed.items)),
        selection::updated_at.eq(changed.updated_at),
        selection::deleted_at.eq(changed.deleted_at),
        selection::updated_by_user_id.eq(changed.updated_by_user_id),
        selection::link_enabled.eq(changed.link.is_enabled),
        selection::link_expires_at.eq(changed.link.expires_at),
        selection::version.eq(changed.version + 1),
    ));
    let saved = Prepared(save).execute(tx.conn()).await?;
    if saved == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

/// Returns the selection that `code` opens. A link that is off or has expired opens none.
pub async fn open(mut conn: &Conn, code: &PublicCode) -> QueryResult<Option<OpenSelection>> {
    let has_not_expired = selection::link_expires_at
        .is_null()
        .or(selection::link_expires_at.assume_not_null().gt(diesel::dsl::now));
    selection::table
        .filter(selection::public_code.eq(code.as_str()))
        .filter(selection::deleted_at.is_null())
        .filter(selection::link_enabled)
        .filter(has_not_expired)
        .select(OpenSelection::as_select())
        .first(&mut conn)
        .await
        .optional()
}

/// Returns one page of an owner's selections, without deleted ones.
pub async fn list_of_owner(
    conn: &Conn,
    owner: UserId,
    paging: &Paging<SelectionSort>,
) -> Result<Page<SelectionView>, ::db::Error> {
    let own = || {
        selection::table.filter(selection::owner_user_id.eq(owner)).filter(selection::deleted_at.is_null())
    };
    let sorted = own().select(SelectionView::as_select()).order((order_by(paging), selection::id));
    Ok(list::page(conn, paging, sorted, own().select(selection::id)).await?)
}

/// Returns one page of the selections of which a user is a collaborator, without deleted ones.
///
/// A user has at most [`MAX_SHARED`](crate::domain::MAX_SHARED) of them, so the list needs no index
/// for its order.
pub async fn list_shared(
    conn: &Conn,
    user: UserId,
    paging: &Paging<SelectionSort>,
) -> Result<Page<SelectionView>, ::db::Error> {
    let shared = || {
        let of_user = collaborator::table.filter(collaborator::user_id.eq(user));
        let ids = of_user.filter(collaborator::left_at.is_null()).select(collaborator::selection_id);
        selection::table.filter(selection::id.eq_any(ids)).filter(selection::deleted_at.is_null())
    };
    let sorted = shared().select(SelectionView::as_select()).order((order_by(paging), selection::id));
    Ok(list::page(conn, paging, sorted, shared().select(selection::id)).await?)
}

fn order_by(paging: &Paging<SelectionSort>) -> list::OrderBy<selection::table> {
    match paging.sort {
        SelectionSort::CreatedAt => list::order_by(paging, selection::created_at),
        SelectionSort::UpdatedAt => list::order_by(paging, selection::updated_at),
        SelectionSort::Title => list::order_by(paging, selection::title),
    }
}
