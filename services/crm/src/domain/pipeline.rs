//! The steps that a developer's deals go through.

use std::collections::{HashMap, HashSet};

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Prose;

use super::{StepGroup, StepId};
use crate::db::schema::step;

/// What a step is called, trimmed.
pub type StepName = Prose<1, 100>;

/// A step of a developer's pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable, Insertable, Serialize, ToSchema)]
#[diesel(table_name = step, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Step {
    pub id: StepId,
    pub tenant_id: CompanyId,
    pub group: StepGroup,
    pub name: StepName,
    /// The place of a live step, from 0; that which an archived one had.
    pub sort_order: i16,
    pub is_default: bool,
    /// Live where it is null.
    #[serde(with = "time::serde::rfc3339::option")]
    pub archived_at: Option<OffsetDateTime>,
}

impl Step {
    pub fn is_live(&self) -> bool {
        self.archived_at.is_none()
    }
}

/// The step that a deal comes into which comes into its group: the default one, else the first. `live` is in order.
pub fn receiving_step(live: &[Step], group: StepGroup) -> Option<&Step> {
    let mut of_group = live.iter().filter(|step| step.group == group);
    of_group.clone().find(|step| step.is_default).or_else(|| of_group.next())
}

/// What a developer's pipeline is at first: groups in order, each with the message that names its step. The first of a group is
/// its default.
pub const DEFAULT_PIPELINE: [(StepGroup, &str); 7] = [
    (StepGroup::Application, "step_new"),
    (StepGroup::Application, "step_negotiation"),
    (StepGroup::Booking, "step_booking"),
    (StepGroup::Contract, "step_contract"),
    (StepGroup::Contract, "step_registration"),
    (StepGroup::Completed, "step_completed"),
    (StepGroup::Cancelled, "step_cancelled"),
];

/// A step as it is to be.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// `None`: a new one.
    pub id: Option<StepId>,
    pub group: StepGroup,
    pub name: StepName,
    pub is_default: bool,
}

/// Why a pipeline is not as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineRefusal {
    /// Not one of the developer's.
    UnknownStep,
    /// A step's group never changes.
    GroupFixed,
}

/// What becomes of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Live from now on, in order: those that are new or not as they were.
    pub put: Vec<Step>,
    /// Live no more.
    pub archived: Vec<StepId>,
}

impl Replacement {
    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.archived.is_empty()
    }
}

/// Has the live steps be those that are wanted: by group, then as they are listed. `known` are the developer's live steps, and
/// those that are listed.
///
/// # Errors
/// [`PipelineRefusal`]
pub fn replace(
    tenant_id: CompanyId,
    known: &[Step],
    mut wanted: Vec<Wanted>,
) -> Result<Replacement, PipelineRefusal> {
    let before: HashMap<StepId, &Step> = known.iter().map(|step| (step.id, step)).collect();
    let listed: Vec<_> = wanted.iter().filter_map(|step| Some((step, step.id?))).collect();
    if listed.iter().any(|(_, id)| !before.contains_key(id)) {
        return Err(PipelineRefusal::UnknownStep);
    }
    if listed.iter().any(|(step, id)| before.get(id).is_some_and(|known| known.group != step.group)) {
        return Err(PipelineRefusal::GroupFixed);
    }
    let kept: HashSet<StepId> = listed.into_iter().map(|(_, id)| id).collect();
    wanted.sort_by_key(|step| step.group);
    let after = wanted.into_iter().zip(0..).map(|(Wanted { id, group, name, is_default }, sort_order)| {
        let id = id.unwrap_or_else(StepId::generate);
        Step { id, tenant_id, group, name, sort_order, is_default, archived_at: None }
    });
    let put = after.filter(|step| before.get(&step.id) != Some(&step)).collect();
    let archived = known.iter().filter(|step| step.is_live() && !kept.contains(&step.id));
    Ok(Replacement { put, archived: archived.map(|step| step.id).collect() })
}
