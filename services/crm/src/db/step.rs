//! Pipelines: the steps of a developer and their version.

use std::collections::HashMap;

use ::db::{Conn, Json, Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{PipelineEditor, PublishedName, Replacement, Step, StepGroup, StepId, StepName};
use crate::error::{Error, PIPELINE_CONFLICT};
use crate::schema::{developer, pipeline_log, step};

/// The pipeline of a developer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Pipeline {
    pub tenant_id: CompanyId,
    pub developer_name: Option<PublishedName>,
    /// Rises by one with each change.
    pub version: i64,
    /// Time of the last change. `null` for the default pipeline.
    #[serde(with = "time::serde::rfc3339::option")]
    pub updated_at: Option<OffsetDateTime>,
    /// User of the last change. `null` for the default pipeline.
    pub updated_by_user_id: Option<UserId>,
    /// The live steps in order, then at most 100 archived steps, newest first.
    #[schema(max_items = 150)]
    pub steps: Vec<Step>,
}

/// A developer joined with one of its steps, or with none.
#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    developer_name: PublishedName,
    #[diesel(sql_type = BigInt)]
    pipeline_version: i64,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    pipeline_updated_at: Option<OffsetDateTime>,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    pipeline_updated_by_user_id: Option<UserId>,
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

const PIPELINE_SQL: &str = "\
    select developer.name as developer_name, pipeline_version, pipeline_updated_at, pipeline_updated_by_user_id, step.* \
    from developer left join lateral ( \
        select id, \"group\", name, sort_order, is_default, archived_at from step \
            where tenant_id = developer.id and archived_at is null \
        union all \
        (select id, \"group\", name, sort_order, is_default, archived_at from step \
            where tenant_id = developer.id and archived_at is not null order by archived_at desc, id desc limit 100) \
    ) as step on true \
    where developer.id = $1 \
    order by step.archived_at desc nulls first, step.sort_order, step.id desc";

/// Reads a pipeline from one snapshot. Returns `None` for an unknown developer.
pub async fn find_pipeline(mut conn: &Conn, tenant: CompanyId) -> QueryResult<Option<Pipeline>> {
    let statement = Prepared(diesel::sql_query(PIPELINE_SQL).bind::<SqlUuid, _>(tenant));
    let rows: Vec<Row> = statement.load(&mut conn).await?;
    let pipeline = rows.as_slice().first().map(|row| Pipeline {
        tenant_id: tenant,
        developer_name: Some(row.developer_name.clone()),
        version: row.pipeline_version,
        updated_at: row.pipeline_updated_at,
        updated_by_user_id: row.pipeline_updated_by_user_id,
        steps: Vec::new(),
    });
    let steps = rows.into_iter().filter_map(|row| row.into_step(tenant)).collect();
    Ok(pipeline.map(|pipeline| Pipeline { steps, ..pipeline }))
}

pub async fn pipeline_version(mut conn: &Conn, tenant: CompanyId) -> QueryResult<Option<i64>> {
    developer::table.find(tenant).select(developer::pipeline_version).first(&mut conn).await.optional()
}

pub async fn tenant_of(mut conn: &Conn, id: StepId) -> QueryResult<Option<CompanyId>> {
    step::table.find(id).select(step::tenant_id).first(&mut conn).await.optional()
}

/// Reads the developer's live steps and its steps among `listed`.
pub async fn live_and_listed_steps(
    tx: &mut Tx,
    tenant: CompanyId,
    listed: &[StepId],
) -> Result<Vec<Step>, ::db::Error> {
    let known = step::table
        .filter(step::tenant_id.eq(tenant))
        .filter(step::archived_at.is_null().or(step::id.eq_any(listed)));
    Ok(known.select(Step::as_select()).load(tx.conn()).await?)
}

/// Reads the live steps of each of `tenants`, sorted by their position.
pub async fn live_steps_by_tenant(
    tx: &mut Tx,
    tenants: &[CompanyId],
) -> Result<HashMap<CompanyId, Vec<Step>>, ::db::Error> {
    let live = step::table.filter(step::tenant_id.eq_any(tenants)).filter(step::archived_at.is_null());
    let steps: Vec<Step> = live.order(step::sort_order).select(Step::as_select()).load(tx.conn()).await?;
    let mut by_tenant: HashMap<_, Vec<_>> = HashMap::new();
    for step in steps {
        by_tenant.entry(step.tenant_id).or_default().push(step);
    }
    Ok(by_tenant)
}

/// Inserts the steps of a new pipeline.
pub async fn insert(tx: &mut Tx, steps: &[Step]) -> Result<(), ::db::Error> {
    diesel::insert_into(step::table).values(steps).execute(tx.conn()).await?;
    Ok(())
}

/// Writes the changes of a pipeline, raises its version and logs the change.
///
/// # Errors
/// [`PIPELINE_CONFLICT`] if the pipeline does not have the version `seen`.
pub async fn replace(
    tx: &mut Tx,
    tenant: CompanyId,
    seen: i64,
    replacement: &Replacement,
    by: PipelineEditor,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let row = developer::table.find(tenant).filter(developer::pipeline_version.eq(seen));
    let next = diesel::update(row).set((
        developer::pipeline_version.eq(seen + 1),
        developer::pipeline_updated_at.eq(now),
        developer::pipeline_updated_by_user_id.eq(by.user_id),
    ));
    if Prepared(next).execute(tx.conn()).await? == 0 {
        return Err(PIPELINE_CONFLICT.into());
    }
    let archived = step::table.filter(step::id.eq_any(&replacement.archived));
    diesel::update(archived)
        .set((step::is_default.eq(false), step::archived_at.eq(now)))
        .execute(tx.conn())
        .await?;
    // The unique index allows one default for each group, so old defaults are cleared first.
    let upserted: Vec<StepId> = replacement.upserted.iter().map(|step| step.id).collect();
    let defaults = step::table.filter(step::id.eq_any(upserted)).filter(step::is_default);
    diesel::update(defaults).set(step::is_default.eq(false)).execute(tx.conn()).await?;
    diesel::insert_into(step::table)
        .values(&replacement.upserted)
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
    let entry = diesel::insert_into(pipeline_log::table).values((
        pipeline_log::tenant_id.eq(tenant),
        pipeline_log::version.eq(seen + 1),
        pipeline_log::actor_user_id.eq(by.user_id),
        pipeline_log::actor_role.eq(by.role),
        pipeline_log::changed_at.eq(now),
        pipeline_log::changes.eq(Json(replacement)),
    ));
    Prepared(entry).execute(tx.conn()).await?;
    Ok(())
}
