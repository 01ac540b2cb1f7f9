//! The state of the model.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{STAGE_CHANGED, rub};

pub const GROUPS: [&str; 5] = ["Application", "Booking", "Contract", "Completed", "Cancelled"];

/// The permissions of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Platform,
    Care,
    Manager,
    Reader,
}

#[derive(Clone, Copy, Debug)]
pub struct Person {
    pub id: Uuid,
    pub role: Role,
    pub company: Option<Uuid>,
}

impl Person {
    pub fn is_of_platform(self) -> bool {
        matches!(self.role, Role::Platform | Role::Care)
    }

    /// Returns the role of the user in the timeline.
    pub fn timeline_role(self) -> &'static str {
        match self.role {
            Role::Platform => "PlatformManager",
            Role::Care => "CareService",
            Role::Manager | Role::Reader => "DeveloperManager",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Developer {
    pub id: Uuid,
    pub is_active: bool,
    pub pipeline_version: i64,
    /// Live steps in their order.
    pub live: Vec<Step>,
    /// Archived steps, newest first.
    pub archived: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub id: Uuid,
    pub group: &'static str,
    pub name: String,
    pub is_default: bool,
}

#[derive(Clone, Debug)]
pub struct Object {
    pub id: Uuid,
    pub tenant: Uuid,
    pub price: i64,
    pub status: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contract {
    pub kind: Option<&'static str>,
    pub payment: Option<&'static str>,
    pub escrow: Option<String>,
    pub fixation: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Booking {
    pub id: Uuid,
    pub expires_at: String,
}

/// A row of the timeline.
#[derive(Clone, Debug)]
pub struct Row {
    pub kind: &'static str,
    pub payload: Value,
    pub actor: Option<Uuid>,
    pub role: &'static str,
    pub at: String,
    pub row_version: i64,
}

#[derive(Clone, Debug)]
pub struct Stage {
    pub step: Uuid,
    pub group: &'static str,
    pub entered_at: String,
}

#[derive(Clone, Debug)]
pub struct Deal {
    pub id: Uuid,
    pub tenant: Uuid,
    pub object: Uuid,
    pub client: Uuid,
    pub agent: Option<Uuid>,
    pub amount: i64,
    pub step: Uuid,
    pub group: &'static str,
    pub contract: Contract,
    pub booking: Option<Booking>,
    /// Time and reason of the cancellation.
    pub cancelled: Option<(String, String)>,
    pub completed_at: Option<String>,
    pub created_at: String,
    pub created_by: Uuid,
    pub updated_at: String,
    pub updated_by: Option<Uuid>,
    pub step_entered_at: String,
    pub row_version: i64,
    /// Rows, oldest first. The three lists below have the same order.
    pub rows: Vec<Row>,
    pub stages: Vec<Stage>,
    pub events: Vec<(&'static str, Value)>,
    pub bookings: Vec<(Uuid, &'static str)>,
}

/// INV-DEAL-2: returns the status of deals in a group.
pub fn status_of(group: &'static str) -> &'static str {
    if group == "Contract" { "Sale" } else { group }
}

pub fn group_of(status: &str) -> &str {
    if status == "Sale" { "Contract" } else { status }
}

impl Deal {
    pub fn status(&self) -> &'static str {
        status_of(self.group)
    }

    /// Returns the six members of the card.
    pub fn card(&self) -> Value {
        json!({
            "DealId": self.id, "Status": self.status(), "StepId": self.step, "StepGroup": self.group,
            "UpdatedAt": self.updated_at, "RowVersion": self.row_version,
        })
    }

    /// Returns the members of the view without the names.
    pub fn view(&self) -> Value {
        let mut view = self.card();
        let more = json!({
            "TenantId": self.tenant, "PropertyObjectId": self.object, "ClientUserId": self.client,
            "AgentUserId": self.agent, "Amount": rub(self.amount), "StepEnteredAt": self.step_entered_at,
            "BookingExpiresAt": self.booking.as_ref().map(|booking| &booking.expires_at),
            "CreatedAt": self.created_at, "SelectionId": null, "ContractType": self.contract.kind,
            "PaymentMethod": self.contract.payment, "CancelledAt": self.cancelled.as_ref().map(|(at, _)| at),
            "CancelReason": self.cancelled.as_ref().map(|(_, reason)| reason), "CompletedAt": self.completed_at,
            "CreatedByUserId": self.created_by,
        });
        view.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
        view
    }

    pub fn contract_view(&self) -> Value {
        json!({
            "DealId": self.id, "ContractType": self.contract.kind, "PaymentMethod": self.contract.payment,
            "ContractNumber": null, "EscrowAccountNumber": self.contract.escrow, "FixationData": self.contract.fixation,
            "Amount": rub(self.amount), "RowVersion": self.row_version,
        })
    }

    /// Records an event of the last change.
    pub fn record_event(&mut self, topic: &'static str, more: &Value) {
        let mut payload = json!({
            "DealId": self.id, "TenantId": self.tenant, "PropertyObjectId": self.object, "RowVersion": self.row_version,
        });
        payload.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
        if topic == STAGE_CHANGED {
            let previous = self.events.iter().rev().find(|(earlier, _)| *earlier == topic);
            payload["PreviousRowVersion"] =
                previous.map_or(json!(0), |(_, earlier)| earlier["RowVersion"].clone());
        }
        self.events.push((topic, payload));
    }
}

impl Developer {
    /// Returns the receiving step of a group: its default, otherwise its first step.
    pub fn receiving_step(&self, group: &str) -> Option<&Step> {
        let mut of_group = self.live.iter().filter(|step| step.group == group);
        of_group.clone().find(|step| step.is_default).or_else(|| of_group.next())
    }

    /// Returns the steps of the pipeline's response, without times.
    pub fn steps(&self) -> Value {
        let live = self.live.iter().enumerate().map(|(at, step)| (step, Some(at)));
        let all = live.chain(self.archived.iter().map(|step| (step, None)));
        let shown = all.map(|(step, sort_order)| {
            json!({"Id": step.id, "Group": step.group, "Name": step.name, "SortOrder": sort_order, "IsDefault": step.is_default})
        });
        shown.collect()
    }
}

#[derive(Debug)]
pub struct World {
    pub developers: Vec<Developer>,
    pub objects: Vec<Object>,
    /// Active employees of an active agency.
    pub agents: [Uuid; 2],
    pub people: Vec<Person>,
    pub deals: Vec<Deal>,
}

impl World {
    pub fn developer(&self, id: Uuid) -> &Developer {
        self.developers.iter().find(|developer| developer.id == id).unwrap()
    }

    pub fn object(&self, id: Uuid) -> Option<&Object> {
        self.objects.iter().find(|object| object.id == id)
    }

    /// Returns the deals of an object except `of`.
    pub fn other_deals(&self, object: Uuid, of: Option<Uuid>) -> impl Iterator<Item = &Deal> {
        self.deals.iter().filter(move |deal| deal.object == object && Some(deal.id) != of)
    }
}
