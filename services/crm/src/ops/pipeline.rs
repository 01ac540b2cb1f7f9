//! A developer's pipeline: made at the first word of them, and replaced by those who manage it.

use ::db::Tx;
use ::web::Messages;
use auth::CompanyId;
use service::Service as _;
use time::OffsetDateTime;

use crate::app::Service;
use crate::db;
use crate::db::step::Pipeline;
use crate::domain::{DEFAULT_PIPELINE, PipelineRefusal, StepGroup, StepName, ToldName, Wanted, replace};
use crate::error::{
    DEAL_STEP_NOT_FOUND, DEVELOPER_NOT_FOUND, Error, PIPELINE_CONFLICT, PIPELINE_STEP_GROUP_FIXED,
};

/// Keeps what is told of a developer; the first time the default pipeline is made, and never again.
///
/// # Errors
/// Those of the database.
pub async fn hear(tx: &mut Tx, tenant: CompanyId, name: &ToldName, version: i64) -> Result<(), ::db::Error> {
    if !db::developer::upsert(tx, tenant, name, version).await? {
        return Ok(());
    }
    let steps =
        replace(tenant, &[], default_pipeline(tx.language())).map_or_else(|_| Vec::new(), |new| new.put);
    db::step::insert(tx, &steps).await
}

/// Named in the service's default language.
fn default_pipeline(language: &str) -> Vec<Wanted> {
    let messages = Messages::new(Service::MESSAGES, language).ok();
    let say = |id: &str| messages.as_ref().and_then(|messages| messages.say_by_default(id));
    let named = DEFAULT_PIPELINE.iter().filter_map(|(group, id)| {
        // A message that were missing would leave its step with its own name, and not the developer without it.
        let name = StepName::parse(&say(id).unwrap_or_else(|| (*id).to_owned())).ok()?;
        Some((*group, name))
    });
    let mut before: Option<StepGroup> = None;
    let wanted = named.map(|(group, name)| {
        let is_default = before.replace(group) != Some(group);
        Wanted { id: None, group, name, is_default }
    });
    wanted.collect()
}

/// Has the live steps be those that are wanted, in this order.
///
/// # Errors
/// [`DEVELOPER_NOT_FOUND`], [`DEAL_STEP_NOT_FOUND`] (one that is not the developer's), [`PIPELINE_STEP_GROUP_FIXED`], [`PIPELINE_CONFLICT`]
pub async fn replace_steps(
    tx: &mut Tx,
    tenant: CompanyId,
    wanted: Vec<Wanted>,
    seen: Option<i64>,
    now: OffsetDateTime,
) -> Result<Pipeline, Error> {
    // The version first: whoever changes the steps after it is noticed.
    let version = db::step::version(tx.conn(), tenant).await?.ok_or(DEVELOPER_NOT_FOUND)?;
    let listed: Vec<_> = wanted.iter().filter_map(|step| step.id).collect();
    let known = db::step::known(tx, tenant, &listed).await?;
    let replacement = replace(tenant, &known, wanted).map_err(|refusal| match refusal {
        PipelineRefusal::UnknownStep => DEAL_STEP_NOT_FOUND,
        PipelineRefusal::GroupFixed => PIPELINE_STEP_GROUP_FIXED,
    })?;
    if !replacement.is_empty() {
        if seen.is_some_and(|seen| seen != version) {
            return Err(PIPELINE_CONFLICT.into());
        }
        db::step::write(tx, tenant, version, &replacement, now).await?;
    }
    let pipeline = db::step::pipeline(tx.conn(), tenant).await?;
    Ok(pipeline.ok_or(DEVELOPER_NOT_FOUND)?)
}
