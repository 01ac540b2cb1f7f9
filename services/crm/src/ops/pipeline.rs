//! Use cases of pipelines within a transaction.

use ::db::Tx;
use ::web::Messages;
use auth::CompanyId;
use time::OffsetDateTime;

use crate::db;
use crate::db::step::Pipeline;
use crate::domain::{
    DEFAULT_PIPELINE, DesiredStep, PipelineEditor, PipelineRefusal, PublishedName, StepGroup, StepName,
    replace,
};
use crate::error::{
    DEAL_STEP_NOT_FOUND, DEVELOPER_NOT_FOUND, Error, PIPELINE_CONFLICT, PIPELINE_STEP_GROUP_FIXED,
};

/// Stores a developer. The first event of a developer creates the default pipeline.
pub async fn upsert_developer(
    tx: &mut Tx,
    tenant: CompanyId,
    name: &PublishedName,
    version: i64,
) -> Result<(), ::db::Error> {
    if !db::developer::upsert(tx, tenant, name, version).await? {
        return Ok(());
    }
    // Only a step with an id can be refused, and all steps of the default pipeline are new.
    let steps =
        replace(tenant, &[], default_pipeline(tx.language())).map_or_else(|_| Vec::new(), |new| new.upserted);
    db::step::insert(tx, &steps).await
}

/// Returns the default pipeline with names in `language`.
fn default_pipeline(language: &str) -> Vec<DesiredStep> {
    let messages = Messages::new(<crate::Service as ::service::Service>::MESSAGES, language).ok();
    let render = |id: &str| messages.as_ref().and_then(|messages| messages.render_default(id));
    let named = DEFAULT_PIPELINE.iter().filter_map(|(group, id)| {
        // A step without a message gets the message's id as its name, since a developer needs every
        // step.
        let name = StepName::parse(&render(id).unwrap_or_else(|| (*id).to_owned())).ok()?;
        Some((*group, name))
    });
    let mut previous: Option<StepGroup> = None;
    let desired = named.map(|(group, name)| {
        let is_default = previous.replace(group) != Some(group);
        DesiredStep { id: None, group, name, is_default }
    });
    desired.collect()
}

/// Makes the desired steps the live steps of the pipeline.
///
/// # Errors
/// In this order:
/// - [`DEVELOPER_NOT_FOUND`] if the developer is unknown.
/// - [`DEAL_STEP_NOT_FOUND`] if a listed step belongs to another developer or does not exist.
/// - [`PIPELINE_STEP_GROUP_FIXED`] if a step would change its group.
/// - [`PIPELINE_CONFLICT`] if the seen version is stale or another change won the race.
pub async fn replace_steps(
    tx: &mut Tx,
    tenant: CompanyId,
    desired: Vec<DesiredStep>,
    seen_version: Option<i64>,
    by: PipelineEditor,
    now: OffsetDateTime,
) -> Result<Pipeline, Error> {
    // The version is read first, so the compare and swap detects every later change of the steps.
    let version = db::step::pipeline_version(tx.conn(), tenant).await?.ok_or(DEVELOPER_NOT_FOUND)?;
    let listed: Vec<_> = desired.iter().filter_map(|step| step.id).collect();
    let known = db::step::live_and_listed_steps(tx, tenant, &listed).await?;
    let replacement = replace(tenant, &known, desired).map_err(|refusal| match refusal {
        PipelineRefusal::UnknownStep => DEAL_STEP_NOT_FOUND,
        PipelineRefusal::GroupFixed => PIPELINE_STEP_GROUP_FIXED,
    })?;
    if !replacement.is_empty() {
        if seen_version.is_some_and(|seen| seen != version) {
            return Err(PIPELINE_CONFLICT.into());
        }
        db::step::replace(tx, tenant, version, &replacement, by, now).await?;
    }
    let pipeline = db::step::find_pipeline(tx.conn(), tenant).await?;
    Ok(pipeline.ok_or(DEVELOPER_NOT_FOUND)?)
}
