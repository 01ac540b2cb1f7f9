//! Changes of pipelines: as random numbers, as a request, and in the model.

use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::client::{Client, Response};
use uuid::Uuid;

use super::compare::assert_pipeline;
use super::world::{Developer, GROUPS, Person, Role, Step, World};
use crate::{OWN, PLATFORM, id_of, list, text};

/// A change of a pipeline as random numbers.
#[derive(Clone, Debug)]
pub struct Plan {
    person: usize,
    developer: usize,
    /// Two bits for each step: a live step is left out if both are 0, an archived one is restored
    /// if both are 1.
    keep: u64,
    /// The index of the group that gets a new step. An index beyond the last group selects none.
    added: usize,
    /// Selects a fault of the body (0 to 5), a renamed step (6), an identical body (7) or none of
    /// them.
    fault: usize,
    /// The index of the group that loses all steps. An index beyond the last group selects none.
    emptied: usize,
    has_defaults: bool,
    is_reversed: bool,
    version: usize,
}

pub fn plan() -> impl Strategy<Value = Plan> {
    let numbers = (0..64_usize, 0..2_usize, any::<u64>(), 0..10_usize, 0..24_usize, 0..20_usize);
    (numbers, any::<bool>(), any::<bool>(), 0..6_usize).prop_map(
        |((person, developer, keep, added, fault, emptied), has_defaults, is_reversed, version)| Plan {
            person,
            developer,
            keep,
            added,
            fault,
            emptied,
            has_defaults,
            is_reversed,
            version,
        },
    )
}

/// A change as it is sent. Steps without an id are new.
struct Change {
    items: Vec<(Option<Uuid>, Step)>,
    version: Option<i64>,
    /// True if the response must be 400.
    is_invalid: bool,
}

impl Plan {
    fn change(&self, own: &Developer, other: &Developer, number: usize) -> Change {
        let bits = |at: usize| (self.keep >> (2 * at % 64)) & 3;
        let live = own.live.iter().enumerate().filter(|(at, _)| bits(*at) > 0).map(|(_, step)| step);
        let archived = own.archived.iter().rev().enumerate();
        let restored = archived.filter(|(at, _)| bits(at + 16) == 3).map(|(_, step)| step);
        let mut items: Vec<_> = live.chain(restored).map(|step| (Some(step.id), step.clone())).collect();
        if let Some(group) = GROUPS.get(self.added) {
            let step = Step { id: Uuid::nil(), group, name: format!("шаг {number}"), is_default: false };
            items.push((None, step));
        }
        if self.is_reversed {
            items.reverse();
        }
        for group in GROUPS {
            let mut of_group = items.iter_mut().map(|(_, step)| step).filter(|step| step.group == group);
            let first = of_group.next();
            of_group.for_each(|step| step.is_default = false);
            if let Some(step) = first {
                step.is_default = self.has_defaults;
            }
        }
        if let Some(emptied) = GROUPS.get(self.emptied) {
            items.retain(|(_, step)| step.group != *emptied);
        }
        let mut is_invalid = false;
        match (self.fault, items.first().cloned()) {
            (0, _) => items.push((
                Some(other.live[0].id),
                Step { name: "чужой".to_owned(), is_default: false, ..other.live[0].clone() },
            )),
            (1, _) => {
                items.push((Some(crate::guid()), Step { name: "ничей".to_owned(), ..new_step("Contract") }));
            }
            (2, Some((Some(_), step))) => {
                let group = GROUPS.into_iter().find(|group| *group != step.group).unwrap();
                items[0].1 = Step { group, is_default: false, ..step };
            }
            (3, Some((_, step))) => {
                items.push((None, Step { name: format!(" {}\u{2003}", step.name), ..new_step(step.group) }));
                is_invalid = true;
            }
            (4, Some((Some(id), step))) => {
                items.push((Some(id), Step { name: "дважды".to_owned(), is_default: false, ..step }));
                is_invalid = true;
            }
            (5, Some((_, step))) => {
                for name in ["раз", "два"] {
                    items.push((
                        None,
                        Step { name: name.to_owned(), is_default: true, ..new_step(step.group) },
                    ));
                }
                is_invalid = true;
            }
            (6, Some((Some(_), step))) => items[0].1 = Step { name: format!("имя {number}"), ..step },
            (7, _) => {
                items = own.live.iter().map(|step| (Some(step.id), step.clone())).collect();
            }
            _ => {}
        }
        let version = match self.version {
            0 => Some(own.pipeline_version),
            1 => Some(own.pipeline_version - 1),
            _ => None,
        };
        let is_invalid = is_invalid || items.is_empty();
        Change { items, version, is_invalid }
    }

    /// Sends the change, compares the response with the rules, and returns the outcome.
    pub async fn perform(&self, world: &mut World, clients: &[Client], number: usize) -> &'static str {
        let at = self.person % world.people.len();
        let (by, client) = (world.people[at], &clients[at]);
        let own = if by.is_of_platform() {
            &world.developers[self.developer]
        } else {
            world.developer(by.company.unwrap())
        };
        let other = world.developers.iter().find(|other| other.id != own.id).unwrap();
        let change = self.change(own, other, number);
        let response = change.send(client, by, own.id).await;
        let own = own.id;
        let own = world.developers.iter_mut().find(|developer| developer.id == own).unwrap();
        if let Some((status, code)) = change.refusal(by, own) {
            response.expect_problem(status, code);
            return code;
        }
        let (found, name) = (response.expect(200), if change.is_change(own) { "changed" } else { "same" });
        change.apply(own, &found);
        assert_pipeline(&found, own);
        name
    }
}

fn new_step(group: &'static str) -> Step {
    Step { id: Uuid::nil(), group, name: String::new(), is_default: false }
}

impl Change {
    async fn send(&self, client: &Client, by: Person, tenant: Uuid) -> Response {
        let items = self.items.iter().map(|(id, step)| {
            json!({"Id": id, "Group": step.group, "Name": step.name, "IsDefault": step.is_default})
        });
        let body = json!({"Steps": items.collect::<Vec<_>>(), "Version": self.version});
        let path = if by.is_of_platform() {
            format!("{PLATFORM}/pipeline-steps?TenantId={tenant}")
        } else {
            format!("{OWN}/pipeline-steps")
        };
        client.put(&path, body).await
    }

    fn refusal(&self, by: Person, own: &Developer) -> Option<(u16, &'static str)> {
        if !matches!(by.role, Role::Platform | Role::Manager) {
            return Some((403, "FORBIDDEN"));
        }
        if self.is_invalid {
            return Some((400, "VALIDATION_FAILED"));
        }
        let known = |id: Uuid| own.live.iter().chain(&own.archived).find(move |step| step.id == id);
        let named = || self.items.iter().filter_map(|(id, step)| Some(((*id)?, step)));
        if named().any(|(id, _)| known(id).is_none()) {
            return Some((422, "CRM_DEAL_STEP_NOT_FOUND"));
        }
        if named().any(|(id, step)| known(id).unwrap().group != step.group) {
            return Some((422, "CRM_PIPELINE_STEP_GROUP_FIXED"));
        }
        let is_stale = self.version.is_some_and(|version| version != own.pipeline_version);
        (is_stale && self.is_change(own)).then_some((409, "CRM_PIPELINE_CONFLICT"))
    }

    /// Returns the steps in their new order: by group, then as sent.
    fn ordered(&self) -> Vec<(Option<Uuid>, Step)> {
        let mut items = self.items.clone();
        items.sort_by_key(|(_, step)| GROUPS.iter().position(|group| *group == step.group));
        items
    }

    fn is_change(&self, own: &Developer) -> bool {
        let live: Vec<_> = own.live.iter().map(|step| (Some(step.id), step.clone())).collect();
        self.ordered() != live
    }

    /// Changes the pipeline of the model. New steps get their ids from the response.
    fn apply(&self, own: &mut Developer, found: &Value) {
        if !self.is_change(own) {
            return;
        }
        let id_by_name = |name: &str| {
            let shown = list(&found["Steps"])
                .iter()
                .find(|step| step["ArchivedAt"].is_null() && text(&step["Name"]) == name);
            id_of(&shown.unwrap_or_else(|| panic!("no step {name}: {found}"))["Id"])
        };
        let live: Vec<_> = self
            .ordered()
            .into_iter()
            .map(|(id, step)| Step { id: id.unwrap_or_else(|| id_by_name(&step.name)), ..step })
            .collect();
        let is_live = |step: &Step| live.iter().any(|of| of.id == step.id);
        let mut gone: Vec<_> = own.live.iter().filter(|step| !is_live(step)).cloned().collect();
        gone.extend(own.archived.iter().filter(|step| !is_live(step)).cloned());
        own.live = live;
        own.archived = gone;
        own.pipeline_version += 1;
    }
}
