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

#[cfg(test)]
mod tests {
    use auth::CompanyId;
    use proptest::prelude::*;

    use super::{PipelineRefusal, Step, StepName, Wanted, receiving_step, replace};
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

    fn new(group: StepGroup, number: usize) -> Wanted {
        Wanted { id: None, group, name: name(number), is_default: false }
    }

    /// The steps that are live when a replacement of those that are has been written, in order.
    fn replaced(before: &[Step], wanted: Vec<Wanted>) -> Vec<Step> {
        let replacement = replace(CompanyId::from(uuid::Uuid::nil()), before, wanted).unwrap();
        let is_put = |step: &&Step| replacement.put.iter().all(|put| put.id != step.id);
        let stays = |step: &&Step| step.is_live() && !replacement.archived.contains(&step.id) && is_put(step);
        let mut live: Vec<Step> = before.iter().filter(stays).chain(&replacement.put).cloned().collect();
        live.sort_by_key(|step| step.sort_order);
        live
    }

    /// As a body lists a step that is to stay as it is.
    fn listed(step: &Step) -> Wanted {
        Wanted { id: Some(step.id), group: step.group, name: step.name.clone(), is_default: step.is_default }
    }

    proptest! {
        /// Steps: by group, then as sent; `SortOrder` is 0..N-1; who is listed keeps its id, and the same again is nothing.
        #[test]
        fn a_pipeline_is_what_was_sent(
            first in prop::collection::vec(0_usize..5, 1..50),
            kept in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
            added in prop::collection::vec(0_usize..5, 1..10),
        ) {
            let of = |groups: &[usize], from: usize| -> Vec<Wanted> {
                groups.iter().zip(from..).map(|(group, number)| new(GROUPS[*group], number)).collect()
            };
            let before = replaced(&[], of(&first, 0));
            let mut kept: Vec<StepId> = kept.iter().map(|index| index.get(&before).id).collect();
            kept.sort_unstable();
            kept.dedup();
            let stay = before.iter().filter(|step| kept.contains(&step.id)).map(listed);
            let mut wanted: Vec<Wanted> = of(&added, 100).into_iter().chain(stay).collect();
            let after = replaced(&before, wanted.clone());
            wanted.sort_by_key(|step| step.group);
            prop_assert_eq!(after.len(), wanted.len());
            for ((step, wanted), place) in after.iter().zip(&wanted).zip(0..) {
                prop_assert_eq!((step.group, &step.name, step.sort_order), (wanted.group, &wanted.name, place));
                prop_assert!(wanted.id.is_none_or(|id| id == step.id));
            }
            let again = replace(CompanyId::from(uuid::Uuid::nil()), &after, after.iter().map(listed).collect());
            prop_assert!(again.unwrap().is_empty());
        }
    }

    #[test]
    fn a_step_is_known_and_keeps_its_group() {
        let tenant = CompanyId::from(uuid::Uuid::nil());
        let before = replaced(&[], vec![new(StepGroup::Booking, 1)]);
        let unknown = Wanted { id: Some(StepId::generate()), ..new(StepGroup::Booking, 2) };
        let moved = Wanted { group: StepGroup::Contract, ..listed(&before[0]) };
        assert_eq!(replace(tenant, &before, vec![moved.clone()]), Err(PipelineRefusal::GroupFixed));
        assert_eq!(replace(tenant, &before, vec![moved, unknown]), Err(PipelineRefusal::UnknownStep));
    }

    #[test]
    fn a_deal_comes_into_the_default_step_or_else_the_first() {
        let wanted =
            vec![new(StepGroup::Booking, 1), new(StepGroup::Booking, 2), new(StepGroup::Contract, 3)];
        let mut live = replaced(&[], wanted);
        let of = |live: &[Step], group| receiving_step(live, group).map(|step| step.name.as_str().to_owned());
        assert_eq!(of(&live, StepGroup::Booking).as_deref(), Some("1"));
        live[1].is_default = true;
        assert_eq!(of(&live, StepGroup::Booking).as_deref(), Some("2"));
        assert_eq!(of(&live, StepGroup::Contract).as_deref(), Some("3"));
        assert_eq!(of(&live, StepGroup::Completed), None);
    }
}
