//! Tenants as they are stored, locked and found.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::CompanyId;
use diesel::dsl::{not, sql};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Text, Timestamptz};
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use uuid::Uuid;
use values::Private;

use super::schema::tenant;
use crate::domain::{Fold, Tenant, TenantReference, TenantStatus, TenantType};
use crate::error::{CONFLICT, Error, TAX_NUMBER_TAKEN};

/// What a search may be sorted by.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum TenantSort {
    CreatedAt,
    Name,
}

impl SortKey for TenantSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// Which tenants are asked for.
#[derive(Default)]
pub struct TenantFilter {
    pub query: Option<Fold>,
    pub types: Option<Vec<TenantType>>,
    pub statuses: Option<Vec<TenantStatus>>,
    pub created_from: Option<OffsetDateTime>,
    pub created_to: Option<OffsetDateTime>,
}

/// # Errors
/// [`TAX_NUMBER_TAKEN`]
pub async fn insert(tx: &mut Tx, new: &Tenant) -> Result<(), Error> {
    let insert = diesel::insert_into(tenant::table).values((
        (
            tenant::id.eq(new.id),
            tenant::name.eq(&new.name),
            tenant::legal_name.eq(&new.legal_name),
            tenant::type_.eq(new.kind),
            tenant::status.eq(new.status),
            tenant::tax_number.eq(new.tax_number.as_ref().map(Private::expose)),
        ),
        (
            tenant::created_at.eq(new.created_at),
            tenant::updated_at.eq(new.updated_at),
            tenant::version.eq(new.version),
            tenant::lower_name.eq(new.lower_name()),
            tenant::search_text.eq(new.search_text()),
        ),
    ));
    Prepared(insert).execute(tx.conn()).await.map_err(tax_number_taken)?;
    Ok(())
}

pub async fn look_up(mut conn: &Conn, id: CompanyId) -> QueryResult<Option<Tenant>> {
    tenant::table.find(id).select(Tenant::as_select()).first(&mut conn).await.optional()
}

pub async fn look_up_reference(mut conn: &Conn, id: CompanyId) -> QueryResult<Option<TenantReference>> {
    tenant::table.find(id).select(TenantReference::as_select()).first(&mut conn).await.optional()
}

/// The version alone, as it is before whoever changes it now has committed.
pub async fn version(conn: &mut Conn, id: CompanyId) -> Result<Option<i64>, ::db::Error> {
    Ok(tenant::table.find(id).select(tenant::version).first(conn).await.optional()?)
}

/// Has whoever changes the tenant, its employees or their roles wait until this transaction ends.
pub async fn lock_for_reading(tx: &mut Tx, id: CompanyId) -> Result<(), ::db::Error> {
    let row = tenant::table.find(id).select(tenant::id).for_share();
    row.first::<CompanyId>(tx.conn()).await.optional()?;
    Ok(())
}

/// The tenant, which is this transaction's to change until it ends.
pub async fn lock(tx: &mut Tx, id: CompanyId) -> Result<Option<Tenant>, ::db::Error> {
    let row = tenant::table.find(id).select(Tenant::as_select()).for_no_key_update();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Those of `keys`, by id.
pub async fn all_of(conn: &mut Conn, keys: &[Uuid]) -> Result<Vec<Tenant>, ::db::Error> {
    let some = tenant::table.filter(tenant::id.eq_any(keys)).order(tenant::id);
    Ok(some.select(Tenant::as_select()).load(conn).await?)
}

/// Writes what can be changed, if the row still has the version that was read; the aggregate gets the new one.
///
/// # Errors
/// [`CONFLICT`], [`TAX_NUMBER_TAKEN`]
pub async fn save(tx: &mut Tx, changed: &mut Tenant) -> Result<(), Error> {
    let row = tenant::table.find(changed.id).filter(tenant::version.eq(changed.version));
    let save = diesel::update(row).set((
        tenant::name.eq(&changed.name),
        tenant::legal_name.eq(&changed.legal_name),
        tenant::status.eq(changed.status),
        tenant::tax_number.eq(changed.tax_number.as_ref().map(Private::expose)),
        tenant::suspended_at.eq(changed.suspended_at),
        tenant::suspension_reason.eq(changed.suspension_reason.as_ref().map(Private::expose)),
        tenant::updated_at.eq(changed.updated_at),
        tenant::version.eq(changed.version + 1),
        tenant::lower_name.eq(changed.lower_name()),
        tenant::search_text.eq(changed.search_text()),
    ));
    if Prepared(save).execute(tx.conn()).await.map_err(tax_number_taken)? == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

/// INV-IDN-011
pub async fn count_employees(tx: &mut Tx, id: CompanyId, change: i32) -> Result<(), ::db::Error> {
    let count = diesel::update(tenant::table.find(id))
        .set(tenant::employees_count.eq(tenant::employees_count + change));
    Prepared(count).execute(tx.conn()).await?;
    Ok(())
}

/// One page of a search.
pub async fn search(
    conn: &Conn,
    filter: &TenantFilter,
    paging: &Paging<TenantSort>,
) -> Result<Page<Tenant>, ::db::Error> {
    let way = Way::of(conn, filter).await?;
    let order = match (paging.sort, way) {
        (TenantSort::CreatedAt, Way::InOrder) => list::order_by(paging, tenant::created_at),
        (TenantSort::Name, Way::InOrder) => list::order_by(paging, tenant::lower_name),
        (TenantSort::CreatedAt, Way::ByTrigrams) => {
            list::order_by(paging, sql::<Timestamptz>("created_at + interval '0'"))
        }
        (TenantSort::Name, Way::ByTrigrams) => list::order_by(paging, sql::<Text>("lower_name || ''")),
    };
    let sorted = found(filter, way).select(Tenant::as_select()).order((order, tenant::id));
    Ok(list::page(conn, paging, sorted, found(filter, way).select(tenant::id)).await?)
}

/// So many, for autocomplete: those whose names begin with what is looked for, then the others, each by name.
pub async fn look_up_some(
    mut conn: &Conn,
    filter: &TenantFilter,
    limit: i64,
) -> Result<Vec<TenantReference>, ::db::Error> {
    let select = |found: tenant::BoxedQuery<'static, Pg>| found.select(TenantReference::as_select());
    let by_name = (tenant::lower_name, tenant::id);
    let Some(query) = &filter.query else {
        return Ok(select(narrowed(filter)).order(by_name).limit(limit).load(&mut conn).await?);
    };
    let begins = || begins_with(query);
    let mut items =
        select(narrowed(filter).filter(begins())).order(by_name).limit(limit).load(&mut conn).await?;
    let rest = limit - i64::try_from(items.len()).unwrap_or(limit);
    if rest > 0 {
        let way = Way::of(conn, filter).await?;
        let others = select(found(filter, way).filter(not(begins()))).limit(rest);
        items.extend(match way {
            Way::InOrder => others.order(by_name).load::<TenantReference>(&mut conn).await?,
            Way::ByTrigrams => {
                others.order((sql::<Text>("lower_name || ''"), tenant::id)).load(&mut conn).await?
            }
        });
    }
    Ok(items)
}

/// How what is looked for is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Walking in the order of the list, or in any, until enough are met.
    InOrder,
    /// By the trigrams of all that have it, which are then sorted: by an expression, so that nobody walks in order.
    ByTrigrams,
}

/// Of what one in so many tenants has enough is soon met.
const COMMON: i64 = 5;

/// How many of a thousandth of all tenants have a text, and how many these are.
#[derive(QueryableByName)]
struct Sample {
    #[diesel(sql_type = BigInt)]
    found: i64,
    #[diesel(sql_type = BigInt)]
    looked_at: i64,
}

impl Way {
    /// A plan that suits what is common takes seconds for what is rare, and the reverse, and the planner's guess at a text is
    /// rough. So a sample says what it is; of few tenants, of which it has none, either way is short.
    async fn of(mut conn: &Conn, filter: &TenantFilter) -> QueryResult<Self> {
        let Some(query) = filter.query.as_ref().filter(|query| !query.is_short()) else {
            return Ok(Self::InOrder);
        };
        let sample = "select count(*) filter (where search_text like $1) as found, count(*) as looked_at \
            from tenant tablesample system (0.1)";
        let sample = Prepared(diesel::sql_query(sample).bind::<Text, _>(query.anywhere()));
        let Sample { found, looked_at } = sample.get_result(&mut conn).await?;
        Ok(if found > 0 && found * COMMON >= looked_at { Self::InOrder } else { Self::ByTrigrams })
    }
}

/// What a filter finds.
fn found(filter: &TenantFilter, way: Way) -> tenant::BoxedQuery<'static, Pg> {
    let found = narrowed(filter);
    let Some(query) = &filter.query else { return found };
    if query.is_short() {
        return if query.is_number() {
            found.filter(begins_with(query).or(tenant::tax_number.like(query.beginning().0)))
        } else {
            found.filter(begins_with(query))
        };
    }
    let found = found.filter(tenant::search_text.like(query.anywhere()));
    match way {
        Way::InOrder => found,
        Way::ByTrigrams => {
            let trigrams = sql::<Bool>("trigrams(search_text) @> trigrams(");
            found.filter(trigrams.bind::<Text, _>(query.text().to_owned()).sql(")"))
        }
    }
}

/// Names that begin with what is looked for.
fn begins_with(query: &Fold) -> Box<dyn BoxableExpression<tenant::table, Pg, SqlType = Bool>> {
    let (lower, folded) = query.beginning();
    let begins = tenant::lower_name.like(lower);
    match folded {
        Some(folded) => Box::new(begins.or(tenant::lower_name.like(folded))),
        None => Box::new(begins),
    }
}

/// What a filter finds by all but its query.
fn narrowed(filter: &TenantFilter) -> tenant::BoxedQuery<'static, Pg> {
    let mut found = tenant::table.filter(list::custom_plan()).into_boxed();
    if let Some(types) = &filter.types {
        found = found.filter(tenant::type_.eq_any(types.clone()));
    }
    if let Some(statuses) = &filter.statuses {
        found = found.filter(tenant::status.eq_any(statuses.clone()));
    }
    if let Some(from) = filter.created_from {
        found = found.filter(tenant::created_at.ge(from));
    }
    if let Some(to) = filter.created_to {
        found = found.filter(tenant::created_at.lt(to));
    }
    found
}

/// INV-IDN-002
fn tax_number_taken(error: diesel::result::Error) -> Error {
    let error = ::db::Error::from(error);
    match error.violated_constraint() {
        Some("tenant_tax_number") => TAX_NUMBER_TAKEN.into(),
        _ => error.into(),
    }
}
