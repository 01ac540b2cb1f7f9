//! Routes of pipelines.

use std::collections::HashSet;

use ::db::PipelinedConn;
use ::web::{Fields, Json, Problem, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, put, web};
use auth::{CompanyId, Permitted};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use utoipa::ToSchema;
use values::{Invalid, List};

use super::board::DeveloperParam;
use crate::app::App;
use crate::db;
use crate::db::step::Pipeline;
use crate::domain::{
    DesiredStep, ManageDeals, ManageOwnPipeline, PipelineEditor, ReadDeals, ReadOwnPipeline, Role, StepGroup,
    StepId, StepName,
};
use crate::error::{DEVELOPER_NOT_FOUND, Error};
use crate::ops;

type StepReference = Reference<StepId>;

/// A step of the requested pipeline.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ListedStep {
    /// Id of a live or an archived step. Omit it for a new step.
    id: Option<StepReference>,
    /// Group of the step. It never changes.
    group: StepGroup,
    /// Name, unique in the pipeline.
    name: StepName,
    /// True for the receiving step of the group. At most one step of a group.
    is_default: Option<bool>,
}

type ListedSteps = List<ListedStep, 1, 50>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReplacePipeline {
    /// The steps, in their order within each group. An omitted step becomes archived.
    steps: ListedSteps,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_PIPELINE_CONFLICT`.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

impl ReplacePipeline {
    /// Checks that ids, names and the default of each group are unique (INV-STP-1).
    ///
    /// # Errors
    /// `VALIDATION_FAILED` with `duplicate` at each repeated member.
    fn into_desired_steps(self) -> Result<(Vec<DesiredStep>, Option<i64>), Problem> {
        let mut fields = Fields::default();
        let (mut ids, mut names, mut defaults) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut desired = Vec::new();
        for (at, step) in self.steps.into_inner().into_iter().enumerate() {
            let mut check_unique = |member: &str, is_new: bool| {
                let first = if is_new { Ok(()) } else { Err(Invalid::new("duplicate")) };
                fields.check(&format!("/Steps/{at}/{member}"), first);
            };
            let (id, is_default) = (step.id.map(|id| id.0), step.is_default.unwrap_or_default());
            check_unique("Id", id.is_none_or(|id| ids.insert(id)));
            check_unique("Name", names.insert(step.name.clone()));
            check_unique("IsDefault", !is_default || defaults.insert(step.group));
            desired.push(DesiredStep { id, group: step.group, name: step.name, is_default });
        }
        fields.finish(Some((desired, self.version)))
    }
}

async fn read(lookups: &PipelinedConn, tenant: CompanyId) -> Result<web::Json<Pipeline>, Error> {
    let found = lookups.run(async |conn| db::step::find_pipeline(conn, tenant).await).await?;
    Ok(web::Json(found.ok_or(DEVELOPER_NOT_FOUND)?))
}

async fn replace(
    app: &App,
    tenant: CompanyId,
    body: ReplacePipeline,
    by: PipelineEditor,
) -> Result<web::Json<Pipeline>, Error> {
    let (desired, seen_version) = body.into_desired_steps()?;
    let now = clock::now();
    let pipeline = app
        .db
        .tx(async |tx| ops::pipeline::replace_steps(tx, tenant, desired, seen_version, by, now).await)
        .await?;
    Ok(web::Json(pipeline))
}

/// Read the pipeline of a developer.
///
/// The live steps in order, then the archived ones, newest first.
#[utoipa::path(
    tag = "Pipeline", params(DeveloperParam),
    responses((status = 200, description = "The pipeline", body = Pipeline))
)]
#[get("/api/platform-manager/crm/pipeline-steps")]
pub async fn get_pipeline(
    _: Permitted<ReadDeals>,
    Query(developer): Query<DeveloperParam>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read(&lookups, developer.id()).await
}

/// Replace the pipeline of a developer.
///
/// Identical steps change nothing. Deals stay in an archived step, and no deal enters it.
#[utoipa::path(
    tag = "Pipeline", params(DeveloperParam), request_body = ReplacePipeline,
    responses((status = 200, description = "The pipeline as it is now", body = Pipeline))
)]
#[put("/api/platform-manager/crm/pipeline-steps")]
pub async fn replace_pipeline(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    Query(developer): Query<DeveloperParam>,
    Json(body): Json<ReplacePipeline>,
) -> Result<impl Responder, Error> {
    let by = PipelineEditor { user_id: permitted.actor.user_id, role: Role::PlatformManager };
    replace(&app, developer.id(), body, by).await
}

/// Read the pipeline of the own company.
///
/// The live steps in order, then the archived ones, newest first.
#[utoipa::path(
    tag = "Pipeline", responses((status = 200, description = "The pipeline", body = Pipeline))
)]
#[get("/api/v1/crm/pipeline-steps")]
pub async fn get_own_pipeline(
    permitted: Permitted<ReadOwnPipeline>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read(&lookups, permitted.granted).await
}

/// Replace the pipeline of the own company.
///
/// Identical steps change nothing. Deals stay in an archived step, and no deal enters it.
#[utoipa::path(
    tag = "Pipeline", request_body = ReplacePipeline,
    responses((status = 200, description = "The pipeline as it is now", body = Pipeline))
)]
#[put("/api/v1/crm/pipeline-steps")]
pub async fn replace_own_pipeline(
    app: Data<App>,
    permitted: Permitted<ManageOwnPipeline>,
    Json(body): Json<ReplacePipeline>,
) -> Result<impl Responder, Error> {
    let by = PipelineEditor { user_id: permitted.actor.user_id, role: Role::DeveloperManager };
    replace(&app, permitted.granted, body, by).await
}
