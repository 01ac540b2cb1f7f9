//! Queries and locks of tenants.

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

use crate::domain::{FoldedQuery, Tenant, TenantReference, TenantStatus, TenantType};
use crate::error::{CONFLICT, Error, TAX_NUMBER_TAKEN};
use crate::schema::tenant;

/// Sort key of a search.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum TenantSort {
    CreatedAt,
    Name,
}

impl SortKey for TenantSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// Filter of a search or of a lookup.
#[derive(Default)]
pub struct TenantFilter {
    pub query: Option<FoldedQuery>,
    pub types: Option<Vec<TenantType>>,
    pub statuses: Option<Vec<TenantStatus>>,
    pub created_from: Option<OffsetDateTime>,
    pub created_to: Option<OffsetDateTime>,
}

/// Inserts a tenant (INV-IDN-002).
///
/// # Errors
/// [`TAX_NUMBER_TAKEN`] if another tenant that is not Archived has the tax number.
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
            tenant::folded_name.eq(new.folded_name()),
            tenant::search_text.eq(new.search_text()),
        ),
    ));
    Prepared(insert).execute(tx.conn()).await.map_err(map_tax_number_taken)?;
    Ok(())
}

pub async fn look_up(mut conn: &Conn, id: CompanyId) -> QueryResult<Option<Tenant>> {
    tenant::table.find(id).select(Tenant::as_select()).first(&mut conn).await.optional()
}

pub async fn look_up_reference(mut conn: &Conn, id: CompanyId) -> QueryResult<Option<TenantReference>> {
    tenant::table.find(id).select(TenantReference::as_select()).first(&mut conn).await.optional()
}

/// Returns the committed version, without waiting for a concurrent change.
pub async fn find_version(conn: &mut Conn, id: CompanyId) -> Result<Option<i64>, ::db::Error> {
    Ok(tenant::table.find(id).select(tenant::version).first(conn).await.optional()?)
}

/// Blocks changes of the tenant, its employees and their roles until this transaction ends.
pub async fn lock_shared(tx: &mut Tx, id: CompanyId) -> Result<(), ::db::Error> {
    let row = tenant::table.find(id).select(tenant::id).for_share();
    row.first::<CompanyId>(tx.conn()).await.optional()?;
    Ok(())
}

/// Locks the tenant for changes until this transaction ends.
pub async fn lock(tx: &mut Tx, id: CompanyId) -> Result<Option<Tenant>, ::db::Error> {
    let row = tenant::table.find(id).select(Tenant::as_select()).for_no_key_update();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Returns the tenants with these ids, sorted by id.
pub async fn list_by_ids(conn: &mut Conn, keys: &[Uuid]) -> Result<Vec<Tenant>, ::db::Error> {
    let tenants = tenant::table.filter(tenant::id.eq_any(keys)).order(tenant::id);
    Ok(tenants.select(Tenant::as_select()).load(conn).await?)
}

/// Writes the changed fields if the row still has the version that was read, then sets the new
/// version on `changed`.
///
/// # Errors
/// - [`CONFLICT`] if the row has another version.
/// - [`TAX_NUMBER_TAKEN`] if another tenant that is not Archived has the tax number.
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
        tenant::folded_name.eq(changed.folded_name()),
        tenant::search_text.eq(changed.search_text()),
    ));
    if Prepared(save).execute(tx.conn()).await.map_err(map_tax_number_taken)? == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

/// Adds `change` to the number of employees (INV-IDN-011).
pub async fn add_to_employees_count(tx: &mut Tx, id: CompanyId, change: i32) -> Result<(), ::db::Error> {
    let count = diesel::update(tenant::table.find(id))
        .set(tenant::employees_count.eq(tenant::employees_count + change));
    Prepared(count).execute(tx.conn()).await?;
    Ok(())
}

pub async fn search(
    conn: &Conn,
    filter: &TenantFilter,
    paging: &Paging<TenantSort>,
) -> Result<Page<Tenant>, ::db::Error> {
    let plan = ScanPlan::choose(conn, filter).await?;
    let prefix = PrefixColumns::choose(conn, filter).await?;
    let order = match (paging.sort, plan) {
        (TenantSort::CreatedAt, ScanPlan::Ordered) => list::order_by(paging, tenant::created_at),
        (TenantSort::Name, ScanPlan::Ordered) => list::order_by(paging, tenant::lower_name),
        (TenantSort::CreatedAt, ScanPlan::Trigrams) => {
            list::order_by(paging, sql::<Timestamptz>("created_at + interval '0'"))
        }
        (TenantSort::Name, ScanPlan::Trigrams) => list::order_by(paging, sql::<Text>("lower_name || ''")),
    };
    let matching = || select_matching(filter, plan, prefix);
    let sorted = matching().select(Tenant::as_select()).order((order, tenant::id));
    Ok(list::page(conn, paging, sorted, matching().select(tenant::id)).await?)
}

/// Returns up to `limit` tenants for autocomplete.
///
/// Names that begin with the query precede the others. Both groups are sorted by name.
pub async fn look_up_by_query(
    mut conn: &Conn,
    filter: &TenantFilter,
    limit: i64,
) -> Result<Vec<TenantReference>, ::db::Error> {
    let select = |tenants: tenant::BoxedQuery<'static, Pg>| tenants.select(TenantReference::as_select());
    let by_name = (tenant::lower_name, tenant::id);
    let Some(query) = &filter.query else {
        return Ok(select(select_without_query(filter)).order(by_name).limit(limit).load(&mut conn).await?);
    };
    let prefix = PrefixColumns::choose(conn, filter).await?;
    let has_prefix = || prefix.matches(query);
    let mut items = select(select_without_query(filter).filter(has_prefix()))
        .order(by_name)
        .limit(limit)
        .load(&mut conn)
        .await?;
    let rest = limit - i64::try_from(items.len()).unwrap_or(limit);
    if rest > 0 {
        let plan = ScanPlan::choose(conn, filter).await?;
        let others = select(select_matching(filter, plan, prefix).filter(not(has_prefix()))).limit(rest);
        items.extend(match plan {
            ScanPlan::Ordered => others.order(by_name).load::<TenantReference>(&mut conn).await?,
            ScanPlan::Trigrams => {
                others.order((sql::<Text>("lower_name || ''"), tenant::id)).load(&mut conn).await?
            }
        });
    }
    Ok(items)
}

/// The way in which a search reads the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanPlan {
    /// Reads the rows in the order of the list until the page is full.
    Ordered,
    /// Finds all matching rows by the trigram index, then sorts them. The sort key is an
    /// expression, so that the planner cannot read an index in order instead.
    Trigrams,
}

/// A text is common if at least one in `COMMON_TEXT_DIVISOR` tenants contains it. For a common text
/// an ordered scan fills a page quickly.
const COMMON_TEXT_DIVISOR: i64 = 5;

/// Counts of a sample of 0.1 % of the table.
#[derive(QueryableByName)]
struct Sample {
    #[diesel(sql_type = BigInt)]
    matching: i64,
    #[diesel(sql_type = BigInt)]
    sampled: i64,
}

impl ScanPlan {
    /// Chooses the plan by a sample of the table.
    ///
    /// An ordered scan takes seconds for a rare text. A trigram search takes seconds for a common
    /// text. The planner's estimate of a text is too rough to choose. With few tenants the sample
    /// is empty and both plans are fast.
    async fn choose(mut conn: &Conn, filter: &TenantFilter) -> QueryResult<Self> {
        let Some(query) = filter.query.as_ref().filter(|query| !query.is_short()) else {
            return Ok(Self::Ordered);
        };
        let sample = "select count(*) filter (where search_text like $1) as matching, count(*) as sampled \
            from tenant tablesample system (0.1)";
        let sample = Prepared(diesel::sql_query(sample).bind::<Text, _>(query.substring_pattern()));
        let Sample { matching, sampled } = sample.get_result(&mut conn).await?;
        Ok(if matching > 0 && matching * COMMON_TEXT_DIVISOR >= sampled {
            Self::Ordered
        } else {
            Self::Trigrams
        })
    }
}

/// Builds the query of the tenants that match a filter.
fn select_matching(
    filter: &TenantFilter,
    plan: ScanPlan,
    prefix: PrefixColumns,
) -> tenant::BoxedQuery<'static, Pg> {
    let tenants = select_without_query(filter);
    let Some(query) = &filter.query else { return tenants };
    if query.is_short() {
        return if query.is_number() {
            tenants.filter(prefix.matches(query).or(tenant::tax_number.like(query.prefix_pattern())))
        } else {
            tenants.filter(prefix.matches(query))
        };
    }
    let tenants = tenants.filter(tenant::search_text.like(query.substring_pattern()));
    match plan {
        ScanPlan::Ordered => tenants,
        ScanPlan::Trigrams => {
            let trigrams = sql::<Bool>("trigrams(search_text) @> trigrams(");
            tenants.filter(trigrams.bind::<Text, _>(query.text().to_owned()).sql(")"))
        }
    }
}

/// The columns that a search for names by prefix compares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrefixColumns {
    /// The sort key. An index returns the names in their order.
    Lower,
    /// The sort key and the folded form. The result must be sorted.
    LowerAndFolded,
}

type Condition = Box<dyn BoxableExpression<tenant::table, Pg, SqlType = Bool>>;

impl PrefixColumns {
    /// Chooses both columns only if the folded form of some name begins with the query, while the
    /// lower-case form of that name does not. Such names are rare.
    async fn choose(mut conn: &Conn, filter: &TenantFilter) -> QueryResult<Self> {
        let Some(query) = &filter.query else { return Ok(Self::Lower) };
        let folded_only = tenant::table
            .filter(tenant::folded_name.like(query.prefix_pattern()))
            .filter(not(Self::Lower.matches(query)));
        let has_any = diesel::select(diesel::dsl::exists(folded_only)).get_result(&mut conn).await?;
        Ok(if has_any { Self::LowerAndFolded } else { Self::Lower })
    }

    /// Matches names that begin with the query. `folded_name` is null where it equals `lower_name`,
    /// so the folded pattern is compared with `lower_name`, too.
    fn matches(self, query: &FoldedQuery) -> Condition {
        let (lower, folded) = (query.lower_prefix_pattern(), query.prefix_pattern());
        let has_lower = tenant::lower_name.like(lower.clone());
        let has_either: Condition = if lower == folded {
            Box::new(has_lower)
        } else {
            Box::new(has_lower.or(tenant::lower_name.like(folded.clone())))
        };
        match self {
            Self::Lower => has_either,
            Self::LowerAndFolded => {
                let has_folded = tenant::folded_name.is_not_null().and(tenant::folded_name.like(folded));
                Box::new(has_either.or(has_folded.assume_not_null()))
            }
        }
    }
}

/// Builds the query of the tenants that match a filter without its search text.
fn select_without_query(filter: &TenantFilter) -> tenant::BoxedQuery<'static, Pg> {
    let mut tenants = tenant::table.filter(list::custom_plan()).into_boxed();
    if let Some(types) = &filter.types {
        tenants = tenants.filter(tenant::type_.eq_any(types.clone()));
    }
    if let Some(statuses) = &filter.statuses {
        tenants = tenants.filter(tenant::status.eq_any(statuses.clone()));
    }
    if let Some(from) = filter.created_from {
        tenants = tenants.filter(tenant::created_at.ge(from));
    }
    if let Some(to) = filter.created_to {
        tenants = tenants.filter(tenant::created_at.lt(to));
    }
    tenants
}

/// Maps a violation of the unique tax number to [`TAX_NUMBER_TAKEN`] (INV-IDN-002).
fn map_tax_number_taken(error: diesel::result::Error) -> Error {
    let error = ::db::Error::from(error);
    match error.violated_constraint() {
        Some("tenant_tax_number") => TAX_NUMBER_TAKEN.into(),
        _ => error.into(),
    }
}
