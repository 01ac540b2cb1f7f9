//! The pipeline of a developer: the ordered steps of its deals.

use std::collections::{HashMap, HashSet};

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Prose;

use super::{Role, StepGroup, StepId};
use crate::schema::step;

/// The trimmed name of a step.
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
    /// The position of a live step, from 0. An archived step keeps its last position.
    pub sort_order: i16,
    pub is_default: bool,
    /// `null` for a live step.
    #[serde(with = "time::serde::rfc3339::option")]
    pub archived_at: Option<OffsetDateTime>,
}

impl Step {
    pub fn is_live(&self) -> bool {
        self.archived_at.is_none()
    }
}

/// Returns the step that receives deals of a group: the default step, otherwise the first one.
///
/// `live` has the live steps in their order.
pub fn receiving_step(live: &[Step], group: StepGroup) -> Option<&Step> {
    let mut of_group = live.iter().filter(|step| step.group == group);
    of_group.clone().find(|step| step.is_default).or_else(|| of_group.next())
}

/// The steps of a new pipeline: the group of each step and the id of the message with its name.
///
/// The first step of each group is its default.
pub const DEFAULT_PIPELINE: [(StepGroup, &str); 7] = [
    (StepGroup::Application, "step_new"),
    (StepGroup::Application, "step_negotiation"),
    (StepGroup::Booking, "step_booking"),
    (StepGroup::Contract, "step_contract"),
    (StepGroup::Contract, "step_registration"),
    (StepGroup::Completed, "step_completed"),
    (StepGroup::Cancelled, "step_cancelled"),
];

/// A step of a requested pipeline.
#[derive(Clone, Debug)]
pub struct DesiredStep {
    /// `None` for a new step.
    pub id: Option<StepId>,
    pub group: StepGroup,
    pub name: StepName,
    pub is_default: bool,
}

/// The reason why a pipeline cannot be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineRefusal {
    /// A listed step does not belong to the developer.
    UnknownStep,
    /// A listed step would change its group.
    GroupFixed,
}

/// The user who replaces a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct PipelineEditor {
    pub user_id: UserId,
    pub role: Role,
}

/// The changes that turn a pipeline into the requested one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Replacement {
    /// The steps that are new, changed or no longer archived, in their order.
    pub upserted: Vec<Step>,
    /// Live steps that become archived.
    pub archived: Vec<StepId>,
}

impl Replacement {
    /// Returns true if the pipeline is already as requested.
    pub fn is_empty(&self) -> bool {
        self.upserted.is_empty() && self.archived.is_empty()
    }
}

/// Computes the changes that make the desired steps live, sorted by group and then as listed.
///
/// `known` has the developer's live steps and all listed steps.
///
/// # Errors
/// An unknown step is reported before a changed group.
pub fn replace(
    tenant_id: CompanyId,
    known: &[Step],
    mut desired: Vec<DesiredStep>,
) -> Result<Replacement, PipelineRefusal> {
    let before: HashMap<StepId, &Step> = known.iter().map(|step| (step.id, step)).collect();
    let listed: Vec<_> = desired.iter().filter_map(|step| Some((step, step.id?))).collect();
    if listed.iter().any(|(_, id)| !before.contains_key(id)) {
        return Err(PipelineRefusal::UnknownStep);
    }
    if listed.iter().any(|(step, id)| before.get(id).is_some_and(|known| known.group != step.group)) {
        return Err(PipelineRefusal::GroupFixed);
    }
    let kept: HashSet<StepId> = listed.into_iter().map(|(_, id)| id).collect();
    desired.sort_by_key(|step| step.group);
    let after =
        desired.into_iter().zip(0..).map(|(DesiredStep { id, group, name, is_default }, sort_order)| {
            let id = id.unwrap_or_else(StepId::generate);
            Step { id, tenant_id, group, name, sort_order, is_default, archived_at: None }
        });
    let upserted = after.filter(|step| before.get(&step.id) != Some(&step)).collect();
    let archived = known.iter().filter(|step| step.is_live() && !kept.contains(&step.id));
    Ok(Replacement { upserted, archived: archived.map(|step| step.id).collect() })
}

#[cfg(test)]
mod tests {
    use auth::CompanyId;
    use proptest::prelude::*;

    use super::{DesiredStep, PipelineRefusal, Step, StepName, receiving_step, replace};
    use crate::domain::{StepGroup, StepId};

    const GROUPS: [StepGroup; 5] = [
        StepGroup::Application,
        StepGroup::Booking,
        StepGroup::Contract,
        StepGroup::Completed,
        StepGroup::Cancelled,
    ];

    fn name(number: usize) -> StepName {
        StepName::parse(&number.to_string()).unwrap()
    }

    fn new(group: StepGroup, number: usize) -> DesiredStep {
        DesiredStep { id: None, group, name: name(number), is_default: false }
    }

    /// Returns the live steps after a replacement, in their order.
    fn replaced(before: &[Step], desired: Vec<DesiredStep>) -> Vec<Step> {
        let replacement = replace(CompanyId::from(uuid::Uuid::nil()), before, desired).unwrap();
        let is_unchanged = |step: &&Step| replacement.upserted.iter().all(|upserted| upserted.id != step.id);
        let stays =
            |step: &&Step| step.is_live() && !replacement.archived.contains(&step.id) && is_unchanged(step);
        let mut live: Vec<Step> = before.iter().filter(stays).chain(&replacement.upserted).cloned().collect();
        live.sort_by_key(|step| step.sort_order);
        live
    }

    /// Returns the request item for a step that stays as it is.
    fn listed(step: &Step) -> DesiredStep {
        DesiredStep {
            id: Some(step.id),
            group: step.group,
            name: step.name.clone(),
            is_default: step.is_default,
        }
    }

    proptest! {
        /// RULE-CRM-053: steps are sorted by group, then as sent, with `SortOrder` 0..N-1. A listed
        /// step keeps its id. A repeat changes nothing.
        #[test]
        fn pipeline_after_replacement_has_the_sent_steps(
            first in prop::collection::vec(0_usize..5, 1..50),
            kept in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
            added in prop::collection::vec(0_usize..5, 1..10),
        ) {
            let of = |groups: &[usize], from: usize| -> Vec<DesiredStep> {
                groups.iter().zip(from..).map(|(group, number)| new(GROUPS[*group], number)).collect()
            };
            let before = replaced(&[], of(&first, 0));
            let mut kept: Vec<StepId> = kept.iter().map(|index| index.get(&before).id).collect();
            kept.sort_unstable();
            kept.dedup();
            let stay = before.iter().filter(|step| kept.contains(&step.id)).map(listed);
            let mut desired: Vec<DesiredStep> = of(&added, 100).into_iter().chain(stay).collect();
            let after = replaced(&before, desired.clone());
            desired.sort_by_key(|step| step.group);
            prop_assert_eq!(after.len(), desired.len());
            for ((step, desired), place) in after.iter().zip(&desired).zip(0..) {
                prop_assert_eq!((step.group, &step.name, step.sort_order), (desired.group, &desired.name, place));
                prop_assert!(desired.id.is_none_or(|id| id == step.id));
            }
            let again = replace(CompanyId::from(uuid::Uuid::nil()), &after, after.iter().map(listed).collect());
            prop_assert!(again.unwrap().is_empty());
        }
    }

    /// RULE-CRM-053: an unknown step is refused before a step whose group would change.
    #[test]
    fn replacement_with_an_unknown_or_moved_step_is_refused() {
        let tenant = CompanyId::from(uuid::Uuid::nil());
        let before = replaced(&[], vec![new(StepGroup::Booking, 1)]);
        let unknown = DesiredStep { id: Some(StepId::generate()), ..new(StepGroup::Booking, 2) };
        let moved = DesiredStep { group: StepGroup::Contract, ..listed(&before[0]) };
        assert_eq!(replace(tenant, &before, vec![moved.clone()]), Err(PipelineRefusal::GroupFixed));
        assert_eq!(replace(tenant, &before, vec![moved, unknown]), Err(PipelineRefusal::UnknownStep));
    }

    /// RULE-CRM-055: without a default step the first live step of the group receives deals.
    #[test]
    fn receiving_step_is_the_default_or_the_first_of_its_group() {
        let desired =
            vec![new(StepGroup::Booking, 1), new(StepGroup::Booking, 2), new(StepGroup::Contract, 3)];
        let mut live = replaced(&[], desired);
        let of = |live: &[Step], group| receiving_step(live, group).map(|step| step.name.as_str().to_owned());
        assert_eq!(of(&live, StepGroup::Booking).as_deref(), Some("1"));
        live[1].is_default = true;
        assert_eq!(of(&live, StepGroup::Booking).as_deref(), Some("2"));
        assert_eq!(of(&live, StepGroup::Contract).as_deref(), Some("3"));
        assert_eq!(of(&live, StepGroup::Completed), None);
    }

    /// An archived step is not archived again. A replacement that only adds or only archives steps
    /// is not empty.
    #[test]
    fn archived_step_is_not_archived_again() {
        let tenant = CompanyId::from(uuid::Uuid::nil());
        let live = replaced(&[], vec![new(StepGroup::Booking, 1), new(StepGroup::Contract, 2)]);
        let archived = Step { archived_at: Some(time::OffsetDateTime::UNIX_EPOCH), ..live[1].clone() };
        let known = [live[0].clone(), archived];
        assert!(replace(tenant, &known, vec![listed(&live[0])]).unwrap().is_empty());
        let added = replace(tenant, &live[..1], vec![listed(&live[0]), new(StepGroup::Contract, 3)]).unwrap();
        assert_eq!((added.upserted.len(), added.archived.len(), added.is_empty()), (1, 0, false));
        let removed = replace(tenant, &live, vec![listed(&live[0])]).unwrap();
        assert_eq!((removed.upserted.len(), removed.archived.len(), removed.is_empty()), (0, 1, false));
    }
}
