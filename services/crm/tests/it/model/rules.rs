//! The rules of a deal as the page has them: what a request does to it, or why it is refused.

use serde_json::{Value, json};
use uuid::Uuid;

use super::asked::{Request, Time, What};
use super::books::{Change, end_booking, written};
use super::world::{Booking, Deal, Developer, Role, Row, World, group_of, status_of};
use crate::{BOOKING_CREATED, CANCELLED, COMPLETED, moment};

/// What is not the deal's own and decides about it.
#[derive(Clone, Copy, Debug)]
pub struct Around<'w> {
    pub developer: &'w Developer,
    /// Chessboard says Sold or Unavailable.
    pub is_off: bool,
    pub booked_elsewhere: bool,
    pub completed_elsewhere: bool,
}

impl<'w> Around<'w> {
    pub fn of(world: &'w World, deal: &Deal) -> Self {
        let object = world.object(deal.object).unwrap();
        Self {
            developer: world.developer(deal.tenant),
            is_off: matches!(object.status, "Sold" | "Unavailable"),
            booked_elsewhere: world.rivals(deal.object, Some(deal.id)).any(|rival| rival.booking.is_some()),
            completed_elsewhere: world
                .rivals(deal.object, Some(deal.id))
                .any(|rival| rival.group == "Completed"),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Refused(u16, &'static str),
    /// Nothing changed; the card is answered.
    Same,
    Changed(Box<Deal>),
    /// Only a row was written.
    Noted(Box<Deal>),
}

impl Outcome {
    /// The code of a refusal, or else a word of its own.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Refused(_, code) => code,
            Self::Same => "same",
            Self::Changed(_) | Self::Noted(_) => "changed",
        }
    }
}

type Refusal = (u16, &'static str);

const TERMINAL: Refusal = (409, "CRM_DEAL_ALREADY_TERMINAL");
const NO_STEP: Refusal = (422, "CRM_DEAL_STEP_NOT_FOUND");
const FORBIDDEN_MOVE: Refusal = (409, "CRM_DEAL_MOVE_FORBIDDEN");
const NO_CONTRACT: Refusal = (409, "CRM_DEAL_CONTRACT_TYPE_REQUIRED");
const NO_BOOKING: Refusal = (409, "CRM_DEAL_BOOKING_REQUIRED");

/// What comes of a request, whose answer only says what a service chooses: moments, ids and times of bookings.
pub fn decide(deal: &Deal, around: Around<'_>, request: &Request, answer: &Value) -> Outcome {
    if let Some((status, code)) = refused_at_once(deal, request) {
        return Outcome::Refused(status, code);
    }
    let by = request.by;
    if let What::Note(note) = &request.what {
        let mut noted = deal.clone();
        let kind = if by.is_of_platform() { "ManualNote" } else { "CompanyNote" };
        noted.rows.push(Row {
            kind,
            payload: json!({"Text": note.trim()}),
            actor: Some(by.id),
            role: by.written(),
            at: answer["CreatedAt"].as_str().unwrap_or_default().to_owned(),
            row_version: deal.row_version,
        });
        return Outcome::Noted(Box::new(noted));
    }
    let change = match rule(deal, around, request, answer) {
        Err((status, code)) => return Outcome::Refused(status, code),
        Ok(None) => return Outcome::Same,
        Ok(Some(change)) => change,
    };
    if request.version.is_some_and(|version| version != deal.row_version) {
        return Outcome::Refused(409, "CRM_DEAL_CONFLICT");
    }
    let card = if answer["Deal"].is_null() { answer } else { &answer["Deal"] };
    let at = card["UpdatedAt"].as_str().unwrap_or_default();
    Outcome::Changed(Box::new(written(deal, change, request, at)))
}

/// 403, 400, 422 of Completed, 404
fn refused_at_once(deal: &Deal, request: &Request) -> Option<Refusal> {
    let permitted = match request.by.role {
        Role::Platform | Role::Manager => true,
        Role::Care => matches!(request.what, What::Note(_)),
        Role::Reader => false,
    };
    if !permitted {
        return Some((403, "FORBIDDEN"));
    }
    if !request.what.is_valid() {
        return Some((400, "VALIDATION_FAILED"));
    }
    if matches!(request.what, What::Override { target: "Completed", .. } | What::Preview("Completed")) {
        return Some((422, "CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN"));
    }
    let is_hidden = !request.by.is_of_platform() && request.by.company != Some(deal.tenant);
    is_hidden.then_some((404, "CRM_DEAL_NOT_FOUND"))
}

fn rule(
    deal: &Deal,
    around: Around<'_>,
    request: &Request,
    answer: &Value,
) -> Result<Option<Change>, Refusal> {
    let is_over = matches!(deal.group, "Completed" | "Cancelled");
    let unchanged = || Change { next: deal.clone(), rows: Vec::new(), is_told: false, also: None };
    match &request.what {
        What::Move { .. } | What::Contract { .. } | What::Agent(_) | What::Book(_) | What::Prolong(_)
            if is_over =>
        {
            Err(TERMINAL)
        }
        What::Move { step, reason } => move_step(deal, around, *step, reason.as_deref()),
        What::Contract { contract, amount } => {
            let mut change = unchanged();
            change.next.contract = contract.clone();
            change.next.amount = amount.unwrap_or(deal.amount);
            let fields = changed_fields(deal, &change.next);
            if fields.is_empty() {
                return Ok(None);
            }
            if deal.group == "Contract" && !has_contract(&change.next) {
                return Err(NO_CONTRACT);
            }
            change.rows.push(("ContractChanged", json!({"ChangedFields": fields})));
            Ok(Some(change))
        }
        What::Agent(agent) => {
            if *agent == deal.agent {
                return Ok(None);
            }
            let mut change = unchanged();
            change.next.agent = *agent;
            change
                .rows
                .push(("AgentChanged", json!({"FromAgentUserId": deal.agent, "ToAgentUserId": agent})));
            change.is_told = true;
            Ok(Some(change))
        }
        What::Book(_) => book(deal, around, answer),
        What::Prolong(time) => prolong(deal, time),
        What::Cancel(reason) => match deal.group {
            "Completed" => Err(TERMINAL),
            "Cancelled" => Ok(None),
            _ => cancel(deal, around, reason.trim()).map(Some),
        },
        What::Complete(number) => complete(deal, around, request, number.trim()),
        What::Override { target, comment } => overridden(deal, around, target, comment.trim()),
        What::Preview(target) => overridden(deal, around, target, ""),
        What::Note(_) => Ok(None),
    }
}

fn has_contract(deal: &Deal) -> bool {
    deal.contract.kind.is_some() && deal.contract.payment.is_some()
}

fn changed_fields(before: &Deal, after: &Deal) -> Vec<&'static str> {
    let (old, new) = (&before.contract, &after.contract);
    let fields = [
        ("ContractType", old.kind != new.kind),
        ("PaymentMethod", old.payment != new.payment),
        ("EscrowAccountNumber", old.escrow != new.escrow),
        ("FixationData", old.fixation != new.fixation),
        ("Amount", before.amount != after.amount),
    ];
    fields.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

/// The deal in another step, and the row of its status where that changes.
fn enter(change: &mut Change, step: Uuid, group: &'static str, reason: Option<&str>) {
    let from = change.next.status();
    change.next.step = step;
    change.next.group = group;
    change.is_told = true;
    if status_of(group) != from {
        let payload = json!({"FromStatus": from, "ToStatus": status_of(group), "Reason": reason});
        change.rows.push(("StatusChanged", payload));
    }
}

fn move_step(
    deal: &Deal,
    around: Around<'_>,
    step: Uuid,
    reason: Option<&str>,
) -> Result<Option<Change>, Refusal> {
    if step == deal.step {
        return Ok(None);
    }
    let to = around.developer.live.iter().find(|live| live.id == step).ok_or(NO_STEP)?;
    let order = ["Application", "Booking", "Contract"];
    let place = |group| order.iter().position(|of| *of == group);
    let is_near = place(deal.group).zip(place(to.group)).is_some_and(|(from, to)| from.abs_diff(to) <= 1);
    if !is_near {
        return Err(FORBIDDEN_MOVE);
    }
    if to.group == "Contract" && !has_contract(deal) {
        return Err(NO_CONTRACT);
    }
    if to.group != deal.group && to.group != "Application" && deal.booking.is_none() {
        return Err(NO_BOOKING);
    }
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    let mut change = Change { next: deal.clone(), rows: Vec::new(), is_told: true, also: None };
    change.rows.push(("StepMoved", json!({"FromStepId": deal.step, "ToStepId": step, "Reason": reason})));
    enter(&mut change, step, to.group, reason);
    Ok(Some(change))
}

fn book(deal: &Deal, around: Around<'_>, answer: &Value) -> Result<Option<Change>, Refusal> {
    if deal.booking.is_some() {
        return Err((409, "CRM_DEAL_BOOKING_ALREADY_ACTIVE"));
    }
    if around.is_off || around.completed_elsewhere {
        return Err((409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE"));
    }
    if around.booked_elsewhere {
        return Err((409, "CRM_PROPERTY_OBJECT_ALREADY_BOOKED"));
    }
    let mut change =
        Change { next: deal.clone(), rows: Vec::new(), is_told: false, also: Some(BOOKING_CREATED) };
    // Where the model refuses and the service does not, these are missing, which the statuses tell.
    let id = answer["Id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_default();
    let expires_at = answer["ExpiresAt"].as_str().unwrap_or_default().to_owned();
    change.rows.push(("BookingCreated", json!({"BookingId": id, "ExpiresAt": expires_at})));
    if deal.group == "Application" {
        let to = around.developer.receiving("Booking").ok_or(NO_STEP)?;
        enter(&mut change, to.id, to.group, None);
    }
    change.next.bookings.push((id, "Active"));
    change.next.booking = Some(Booking { id, expires_at });
    Ok(Some(change))
}

fn prolong(deal: &Deal, time: &Time) -> Result<Option<Change>, Refusal> {
    let booking = deal.booking.as_ref().ok_or(NO_BOOKING)?;
    if moment(&booking.expires_at) == moment(&time.text) {
        return Ok(None);
    }
    let mut change = Change { next: deal.clone(), rows: Vec::new(), is_told: false, also: None };
    let row = json!({"BookingId": booking.id, "ExpiresAt": time.text});
    change.rows.push(("BookingProlonged", row));
    change.next.booking = Some(Booking { id: booking.id, expires_at: time.text.clone() });
    Ok(Some(change))
}

/// Without the row that a comment leaves.
fn cancel(deal: &Deal, around: Around<'_>, reason: &str) -> Result<Change, Refusal> {
    let to = around.developer.receiving("Cancelled").ok_or(NO_STEP)?;
    let mut change = Change { next: deal.clone(), rows: Vec::new(), is_told: true, also: Some(CANCELLED) };
    change.rows.push(("DealCancelled", json!({"Reason": reason})));
    (change.next.step, change.next.group) = (to.id, to.group);
    change.next.cancelled = Some((String::new(), reason.to_owned()));
    end_booking(&mut change.next, "Cancelled");
    Ok(change)
}

fn complete(
    deal: &Deal,
    around: Around<'_>,
    request: &Request,
    number: &str,
) -> Result<Option<Change>, Refusal> {
    match deal.group {
        "Cancelled" => return Err(TERMINAL),
        "Completed" => return Ok(None),
        "Contract" => {}
        _ => return Err(FORBIDDEN_MOVE),
    }
    if request.by.is_of_platform() && around.developer.is_active {
        return Err(FORBIDDEN_MOVE);
    }
    if around.booked_elsewhere {
        return Err((409, "CRM_PROPERTY_OBJECT_ALREADY_BOOKED"));
    }
    if around.completed_elsewhere {
        return Err((409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE"));
    }
    let to = around.developer.receiving("Completed").ok_or(NO_STEP)?;
    let mut change = Change { next: deal.clone(), rows: Vec::new(), is_told: true, also: Some(COMPLETED) };
    change.rows.push(("DealCompleted", json!({"RegistryRecordNumber": number})));
    (change.next.step, change.next.group) = (to.id, to.group);
    change.next.completed_at = Some(String::new());
    end_booking(&mut change.next, "Completed");
    Ok(Some(change))
}

fn overridden(
    deal: &Deal,
    around: Around<'_>,
    target: &str,
    comment: &str,
) -> Result<Option<Change>, Refusal> {
    if deal.group == "Completed" {
        return Err(TERMINAL);
    }
    if deal.status() == target {
        return Ok(None);
    }
    let mut change = if target == "Cancelled" {
        cancel(deal, around, comment)?
    } else {
        let to = around.developer.receiving(group_of(target)).ok_or(NO_STEP)?;
        if target == "Sale" && !has_contract(deal) {
            return Err(NO_CONTRACT);
        }
        let mut change = Change { next: deal.clone(), rows: Vec::new(), is_told: true, also: None };
        change.next.cancelled = None;
        enter(&mut change, to.id, to.group, Some(comment));
        change
    };
    change.rows.push(("ManualNote", json!({"Text": comment})));
    Ok(Some(change))
}

/// What the creation of a deal comes to: a refusal, or the developer and the price.
pub fn creation(world: &World, request: &Request, object: Uuid) -> Result<(Uuid, i64), Refusal> {
    if !matches!(request.by.role, Role::Platform | Role::Manager) {
        return Err((403, "FORBIDDEN"));
    }
    let seen = |tenant: Uuid| request.by.is_of_platform() || request.by.company == Some(tenant);
    let found = world.object(object).filter(|object| seen(object.tenant));
    let object = found.ok_or((422, "CRM_PROPERTY_OBJECT_NOT_FOUND"))?;
    let developer = world.developer(object.tenant);
    if !developer.is_active {
        return Err((409, "CRM_DEVELOPER_NOT_ACTIVE"));
    }
    let is_sold = world.rivals(object.id, None).any(|deal| deal.group == "Completed");
    if is_sold || matches!(object.status, "Sold" | "Unavailable") {
        return Err((409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE"));
    }
    let step = developer.receiving("Application").ok_or(NO_STEP)?;
    Ok((step.id, object.price))
}
