//! Pipelines: a developer's steps, and the version that those who change them compare.

use ::db::{Cached, Lookup, Tx};
use auth::CompanyId;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::schema::{developer, step};
use crate::domain::{Replacement, Step, StepGroup, StepId, StepName, ToldName};
use crate::error::{Error, PIPELINE_CONFLICT};

/// A developer's steps.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Pipeline {
    pub tenant_id: CompanyId,
    pub developer_name: Option<ToldName>,
    /// Rises with each change.
    pub version: i64,
    /// Live ones in order, then the newest of those that are archived, a hundred at most.
    #[schema(max_items = 150)]
    pub steps: Vec<Step>,
}

/// A developer beside one of their steps, or none.
#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    developer_name: ToldName,
    #[diesel(sql_type = BigInt)]
    pipeline_version: i64,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    id: Option<StepId>,
    #[diesel(sql_type = Nullable<Text>)]
    group: Option<StepGroup>,
    #[diesel(sql_type = Nullable<Text>)]
    name: Option<StepName>,
    #[diesel(sql_type = Nullable<SmallInt>)]
    sort_order: Option<i16>,
    #[diesel(sql_type = Nullable<Bool>)]
    is_default: Option<bool>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    archived_at: Option<OffsetDateTime>,
}

impl Row {
    fn into_step(self, tenant_id: CompanyId) -> Option<Step> {
        Some(Step {
            id: self.id?,
            tenant_id,
            group: self.group?,
            name: self.name?,
            sort_order: self.sort_order?,
            is_default: self.is_default?,
            archived_at: self.archived_at,
        })
    }
}

const PIPELINE: &str = "\
    select developer.name as developer_name, developer.pipeline_version, step.* from developer left join lateral ( \
        select id, \"group\", name, sort_order, is_default, archived_at from step \
            where tenant_id = developer.id and archived_at is null \
        union all \
        (select id, \"group\", name, sort_order, is_default, archived_at from step \
            where tenant_id = developer.id and archived_at is not null order by archived_at desc, id desc limit 100) \
    ) as step on true \
    where developer.id = $1 \
    order by step.archived_at desc nulls first, step.sort_order, step.id desc";

/// The pipeline as it is at one moment; `None` where there is none.
pub async fn pipeline(mut conn: Lookup<'_>, tenant: CompanyId) -> QueryResult<Option<Pipeline>> {
    let statement = Cached(diesel::sql_query(PIPELINE).bind::<SqlUuid, _>(tenant));
    let rows: Vec<Row> = statement.load(&mut conn).await?;
    let pipeline = rows.as_slice().first().map(|row| (row.developer_name.clone(), row.pipeline_version));
    let steps = rows.into_iter().filter_map(|row| row.into_step(tenant)).collect();
    Ok(pipeline.map(|(name, version)| Pipeline {
        tenant_id: tenant,
        developer_name: Some(name),
        version,
        steps,
    }))
}

/// The version of a pipeline, where there is one.
pub async fn version(mut conn: Lookup<'_>, tenant: CompanyId) -> QueryResult<Option<i64>> {
    developer::table.find(tenant).select(developer::pipeline_version).first(&mut conn).await.optional()
}

/// Whose a step is.
pub async fn tenant_of(mut conn: Lookup<'_>, id: StepId) -> QueryResult<Option<CompanyId>> {
    step::table.find(id).select(step::tenant_id).first(&mut conn).await.optional()
}

/// The developer's live steps, and those of theirs that are `listed`.
pub async fn known(tx: &mut Tx, tenant: CompanyId, listed: &[StepId]) -> Result<Vec<Step>, ::db::Error> {
    let known = step::table
        .filter(step::tenant_id.eq(tenant))
        .filter(step::archived_at.is_null().or(step::id.eq_any(listed)));
    Ok(known.select(Step::as_select()).load(tx.conn()).await?)
}

/// The steps of a pipeline that is new.
pub async fn insert(tx: &mut Tx, steps: &[Step]) -> Result<(), ::db::Error> {
    diesel::insert_into(step::table).values(steps).execute(tx.conn()).await?;
    Ok(())
}

/// Writes what becomes of a pipeline, if it still has the version that was `seen`; it gets the next one.
///
/// # Errors
/// [`PIPELINE_CONFLICT`]
pub async fn write(
    tx: &mut Tx,
    tenant: CompanyId,
    seen: i64,
    replacement: &Replacement,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let row = developer::table.find(tenant).filter(developer::pipeline_version.eq(seen));
    let next = diesel::update(row).set(developer::pipeline_version.eq(seen + 1));
    if Cached(next).execute(tx.conn()).await? == 0 {
        return Err(PIPELINE_CONFLICT.into());
    }
    let archived = step::table.filter(step::id.eq_any(&replacement.archived));
    diesel::update(archived)
        .set((step::is_default.eq(false), step::archived_at.eq(now)))
        .execute(tx.conn())
        .await?;
    // First who is a default no more: a group never has two.
    let put: Vec<StepId> = replacement.put.iter().map(|step| step.id).collect();
    let defaults = step::table.filter(step::id.eq_any(put)).filter(step::is_default);
    diesel::update(defaults).set(step::is_default.eq(false)).execute(tx.conn()).await?;
    diesel::insert_into(step::table)
        .values(&replacement.put)
        .on_conflict(step::id)
        .do_update()
        .set((
            step::name.eq(excluded(step::name)),
            step::sort_order.eq(excluded(step::sort_order)),
            step::is_default.eq(excluded(step::is_default)),
            step::archived_at.eq(excluded(step::archived_at)),
        ))
        .execute(tx.conn())
        .await?;
    Ok(())
}
