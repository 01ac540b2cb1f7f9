//! The steps of a developer's pipeline.

use std::collections::HashSet;

use ::db::Lookups;
use ::web::{Fields, Json, Problem, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, put, web};
use auth::{CompanyId, Permitted};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use utoipa::ToSchema;
use values::{Invalid, List};

use super::board::OfDeveloper;
use crate::app::App;
use crate::db;
use crate::db::step::Pipeline;
use crate::domain::{
    ManageDeals, ManageOwnPipeline, ReadDeals, ReadOwnPipeline, StepGroup, StepId, StepName, Wanted,
};
use crate::error::{DEVELOPER_NOT_FOUND, Error};
use crate::ops;

type StepReference = Reference<StepId>;

/// A step as it is to be.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ListedStep {
    /// Of a step that there is or was; without, it is a new one.
    id: Option<StepReference>,
    /// Never changes.
    group: StepGroup,
    /// No two steps have the same.
    name: StepName,
    /// At most one of a group is.
    is_default: Option<bool>,
}

type ListedSteps = List<ListedStep, 1, 50>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReplacePipeline {
    /// In their order within each group; steps that are left out are archived.
    steps: ListedSteps,
    /// The version that the caller has seen; another one is a conflict.
    #[serde(default, deserialize_with = "::web::seen_version")]
    version: Option<i64>,
}

impl ReplacePipeline {
    /// INV-STP-1
    ///
    /// # Errors
    /// `400 VALIDATION_FAILED`
    fn into_wanted(self) -> Result<(Vec<Wanted>, Option<i64>), Problem> {
        let mut fields = Fields::default();
        let (mut ids, mut names, mut defaults) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut wanted = Vec::new();
        for (at, step) in self.steps.into_inner().into_iter().enumerate() {
            let mut once = |member: &str, is_new: bool| {
                let first = if is_new { Ok(()) } else { Err(Invalid::new("duplicate")) };
                fields.check(&format!("/Steps/{at}/{member}"), first);
            };
            let (id, is_default) = (step.id.map(|id| id.0), step.is_default.unwrap_or_default());
            once("Id", id.is_none_or(|id| ids.insert(id)));
            once("Name", names.insert(step.name.clone()));
            once("IsDefault", !is_default || defaults.insert(step.group));
            wanted.push(Wanted { id, group: step.group, name: step.name, is_default });
        }
        fields.finish(Some((wanted, self.version)))
    }
}

async fn read(lookups: &Lookups, tenant: CompanyId) -> Result<web::Json<Pipeline>, Error> {
    let found = lookups.run(async |conn| db::step::pipeline(conn, tenant).await).await?;
    Ok(web::Json(found.ok_or(DEVELOPER_NOT_FOUND)?))
}

async fn replace(app: &App, tenant: CompanyId, body: ReplacePipeline) -> Result<web::Json<Pipeline>, Error> {
    let (wanted, seen) = body.into_wanted()?;
    let now = clock::now();
    let replaced =
        app.db.tx(async |tx| ops::pipeline::replace_steps(tx, tenant, wanted, seen, now).await).await?;
    Ok(web::Json(replaced))
}

/// Read a developer's pipeline.
///
/// The live steps in order, then the archived ones, newest first.
#[utoipa::path(
    tag = "Pipeline", params(OfDeveloper),
    responses((status = 200, description = "The steps", body = Pipeline))
)]
#[get("/api/platform-manager/crm/pipeline-steps")]
pub async fn get_pipeline(
    _: Permitted<ReadDeals>,
    Query(of): Query<OfDeveloper>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    read(&lookups, of.id()).await
}

/// Replace a developer's pipeline.
///
/// What is the same already changes nothing. Deals stay in a step that is archived, and none comes into it.
#[utoipa::path(
    tag = "Pipeline", params(OfDeveloper), request_body = ReplacePipeline,
    responses((status = 200, description = "The steps as they are now", body = Pipeline))
)]
#[put("/api/platform-manager/crm/pipeline-steps")]
pub async fn replace_pipeline(
    app: Data<App>,
    _: Permitted<ManageDeals>,
    Query(of): Query<OfDeveloper>,
    Json(body): Json<ReplacePipeline>,
) -> Result<impl Responder, Error> {
    replace(&app, of.id(), body).await
}

/// Read the pipeline of one's own company.
///
/// The live steps in order, then the archived ones, newest first.
#[utoipa::path(
    tag = "Pipeline", responses((status = 200, description = "The steps", body = Pipeline))
)]
#[get("/api/v1/crm/pipeline-steps")]
pub async fn get_own_pipeline(
    permitted: Permitted<ReadOwnPipeline>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    read(&lookups, permitted.granted).await
}

/// Replace the pipeline of one's own company.
///
/// What is the same already changes nothing. Deals stay in a step that is archived, and none comes into it.
#[utoipa::path(
    tag = "Pipeline", request_body = ReplacePipeline,
    responses((status = 200, description = "The steps as they are now", body = Pipeline))
)]
#[put("/api/v1/crm/pipeline-steps")]
pub async fn replace_own_pipeline(
    app: Data<App>,
    permitted: Permitted<ManageOwnPipeline>,
    Json(body): Json<ReplacePipeline>,
) -> Result<impl Responder, Error> {
    replace(&app, permitted.granted, body).await
}
