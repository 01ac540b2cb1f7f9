//! The rules of deals in the model: the change that a request makes, or its refusal.

use serde_json::{Value, json};
use uuid::Uuid;

use super::effects::{Change, apply, end_booking};
use super::request::{Operation, Request, Time};
use super::world::{Booking, Deal, Developer, Person, Role, Row, World, group_of, status_of};
use crate::{BOOKING_CREATED, CANCELLED, COMPLETED, parse_time};

/// The state outside a deal that its rules depend on.
#[derive(Clone, Copy, Debug)]
pub struct Context<'w> {
    pub developer: &'w Developer,
    /// The agents whom an agency employs.
    pub agents: [Uuid; 2],
    /// The price of the object.
    pub price: i64,
    /// The object is Sold or Unavailable in chessboard.
    pub is_unavailable: bool,
    pub booked_elsewhere: bool,
    pub completed_elsewhere: bool,
}

impl<'w> Context<'w> {
    pub fn of(world: &'w World, deal: &Deal) -> Self {
        let object = world.object(deal.object).unwrap();
        Self {
            developer: world.developer(deal.tenant),
            agents: world.agents,
            price: object.price,
            is_unavailable: matches!(object.status, "Sold" | "Unavailable"),
            booked_elsewhere: world
                .other_deals(deal.object, Some(deal.id))
                .any(|other| other.booking.is_some()),
            completed_elsewhere: world
                .other_deals(deal.object, Some(deal.id))
                .any(|other| other.group == "Completed"),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Refused(u16, &'static str),
    /// A no-op. The response is the unchanged card.
    Same,
    Changed(Box<Deal>),
    /// A note, which writes only a row.
    Noted(Box<Deal>),
}

impl Outcome {
    /// Returns the code of a refusal, otherwise the name of the outcome.
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

/// Decides a request. Only times and ids, which the service chooses, are taken from the response.
pub fn decide(deal: &Deal, context: Context<'_>, request: &Request, response: &Value) -> Outcome {
    if let Some((status, code)) = refused_before_rules(deal, request) {
        return Outcome::Refused(status, code);
    }
    let by = request.by;
    if let Operation::Note(note) = &request.operation {
        let mut noted = deal.clone();
        let kind = if by.is_of_platform() { "ManualNote" } else { "CompanyNote" };
        noted.rows.push(Row {
            kind,
            payload: json!({"Text": note.trim()}),
            actor: Some(by.id),
            role: by.timeline_role(),
            at: response["CreatedAt"].as_str().unwrap_or_default().to_owned(),
            row_version: deal.row_version,
        });
        return Outcome::Noted(Box::new(noted));
    }
    let change = match decide_change(deal, context, request, response) {
        Err((status, code)) => return Outcome::Refused(status, code),
        Ok(None) => return Outcome::Same,
        Ok(Some(change)) => change,
    };
    if request.version.is_some_and(|version| version != deal.row_version) {
        return Outcome::Refused(409, "CRM_DEAL_CONFLICT");
    }
    let card = if response["Deal"].is_null() { response } else { &response["Deal"] };
    let at = card["UpdatedAt"].as_str().unwrap_or_default();
    Outcome::Changed(Box::new(apply(deal, change, request, at)))
}

/// Returns the first of the refusals that precede the rules: 403, 400, 422 for the target
/// Completed, 404.
fn refused_before_rules(deal: &Deal, request: &Request) -> Option<Refusal> {
    let permitted = match request.by.role {
        Role::Platform | Role::Manager => true,
        Role::Care => matches!(request.operation, Operation::Note(_)),
        Role::Reader => false,
    };
    if !permitted {
        return Some((403, "FORBIDDEN"));
    }
    if !request.operation.is_valid() {
        return Some((400, "VALIDATION_FAILED"));
    }
    if matches!(
        request.operation,
        Operation::Override { target: "Completed", .. } | Operation::Preview("Completed")
    ) {
        return Some((422, "CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN"));
    }
    let is_hidden = !request.by.is_of_platform() && request.by.company != Some(deal.tenant);
    is_hidden.then_some((404, "CRM_DEAL_NOT_FOUND"))
}

fn decide_change(
    deal: &Deal,
    context: Context<'_>,
    request: &Request,
    response: &Value,
) -> Result<Option<Change>, Refusal> {
    let is_over = matches!(deal.group, "Completed" | "Cancelled");
    let unchanged =
        || Change { next: deal.clone(), rows: Vec::new(), is_published: false, second_topic: None };
    match &request.operation {
        Operation::Move { .. }
        | Operation::Contract { .. }
        | Operation::Agent(_)
        | Operation::Book(_)
        | Operation::Prolong(_)
            if is_over =>
        {
            Err(TERMINAL)
        }
        Operation::Move { step, reason } => move_step(deal, context, *step, reason.as_deref()),
        Operation::Contract { contract, amount } => {
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
            if change.next.amount != deal.amount {
                check_amount(request.by, change.next.amount, context.price)?;
            }
            change.rows.push(("ContractChanged", json!({"ChangedFields": fields})));
            Ok(Some(change))
        }
        Operation::Agent(agent) => {
            if *agent == deal.agent {
                return Ok(None);
            }
            check_agent(request.by, *agent, context.agents)?;
            let mut change = unchanged();
            change.next.agent = *agent;
            change
                .rows
                .push(("AgentChanged", json!({"FromAgentUserId": deal.agent, "ToAgentUserId": agent})));
            change.is_published = true;
            Ok(Some(change))
        }
        Operation::Book(_) => book(deal, context, response),
        Operation::Prolong(time) => prolong(deal, time),
        Operation::Cancel(reason) => match deal.group {
            "Completed" => Err(TERMINAL),
            "Cancelled" => Ok(None),
            _ => cancel(deal, context, reason.trim()).map(Some),
        },
        Operation::Complete(number) => complete(deal, context, request, number.trim()),
        Operation::Override { target, comment } => override_status(deal, context, target, comment.trim()),
        Operation::Preview(target) => override_status(deal, context, target, ""),
        Operation::Note(_) => Ok(None),
    }
}

/// Checks on company routes that an agency employs the agent.
fn check_agent(by: Person, agent: Option<Uuid>, agents: [Uuid; 2]) -> Result<(), Refusal> {
    let is_employed = agent.is_none_or(|agent| agents.contains(&agent));
    if by.is_of_platform() || is_employed { Ok(()) } else { Err((422, "CRM_AGENT_NOT_ACTIVE")) }
}

/// Checks on company routes that the amount is within 20 percent of the price.
fn check_amount(by: Person, amount: i64, price: i64) -> Result<(), Refusal> {
    let is_close = (amount - price).abs() * 5 <= price;
    if by.is_of_platform() || is_close { Ok(()) } else { Err((422, "CRM_AMOUNT_OUT_OF_TOLERANCE")) }
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

/// Moves the deal to another step, with a `StatusChanged` row if the status changes.
fn enter(change: &mut Change, step: Uuid, group: &'static str, reason: Option<&str>) {
    let from = change.next.status();
    change.next.step = step;
    change.next.group = group;
    change.is_published = true;
    if status_of(group) != from {
        let payload = json!({"FromStatus": from, "ToStatus": status_of(group), "Reason": reason});
        change.rows.push(("StatusChanged", payload));
    }
}

fn move_step(
    deal: &Deal,
    context: Context<'_>,
    step: Uuid,
    reason: Option<&str>,
) -> Result<Option<Change>, Refusal> {
    if step == deal.step {
        return Ok(None);
    }
    let to = context.developer.live.iter().find(|live| live.id == step).ok_or(NO_STEP)?;
    let board = ["Application", "Booking", "Contract"];
    let position = |group| board.iter().position(|of| *of == group);
    let is_near =
        position(deal.group).zip(position(to.group)).is_some_and(|(from, to)| from.abs_diff(to) <= 1);
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
    let mut change = Change { next: deal.clone(), rows: Vec::new(), is_published: true, second_topic: None };
    change.rows.push(("StepMoved", json!({"FromStepId": deal.step, "ToStepId": step, "Reason": reason})));
    enter(&mut change, step, to.group, reason);
    Ok(Some(change))
}

fn book(deal: &Deal, context: Context<'_>, response: &Value) -> Result<Option<Change>, Refusal> {
    if deal.booking.is_some() {
        return Err((409, "CRM_DEAL_BOOKING_ALREADY_ACTIVE"));
    }
    if context.is_unavailable || context.completed_elsewhere {
        return Err((409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE"));
    }
    if context.booked_elsewhere {
        return Err((409, "CRM_PROPERTY_OBJECT_ALREADY_BOOKED"));
    }
    let mut change = Change {
        next: deal.clone(),
        rows: Vec::new(),
        is_published: false,
        second_topic: Some(BOOKING_CREATED),
    };
    // A refusal has neither id nor expiry time. `is_expected` rejects it, since its HTTP status is
    // not 201.
    let id = response["Id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_default();
    let expires_at = response["ExpiresAt"].as_str().unwrap_or_default().to_owned();
    change.rows.push(("BookingCreated", json!({"BookingId": id, "ExpiresAt": expires_at})));
    if deal.group == "Application" {
        let to = context.developer.receiving_step("Booking").ok_or(NO_STEP)?;
        enter(&mut change, to.id, to.group, None);
    }
    change.next.bookings.push((id, "Active"));
    change.next.booking = Some(Booking { id, expires_at });
    Ok(Some(change))
}

fn prolong(deal: &Deal, time: &Time) -> Result<Option<Change>, Refusal> {
    let booking = deal.booking.as_ref().ok_or(NO_BOOKING)?;
    if parse_time(&booking.expires_at) == parse_time(&time.text) {
        return Ok(None);
    }
    let mut change = Change { next: deal.clone(), rows: Vec::new(), is_published: false, second_topic: None };
    let row = json!({"BookingId": booking.id, "ExpiresAt": time.text});
    change.rows.push(("BookingProlonged", row));
    change.next.booking = Some(Booking { id: booking.id, expires_at: time.text.clone() });
    Ok(Some(change))
}

/// Cancels the deal, without the `ManualNote` row of an override.
fn cancel(deal: &Deal, context: Context<'_>, reason: &str) -> Result<Change, Refusal> {
    let to = context.developer.receiving_step("Cancelled").ok_or(NO_STEP)?;
    let mut change =
        Change { next: deal.clone(), rows: Vec::new(), is_published: true, second_topic: Some(CANCELLED) };
    change.rows.push(("DealCancelled", json!({"Reason": reason})));
    (change.next.step, change.next.group) = (to.id, to.group);
    change.next.cancelled = Some((String::new(), reason.to_owned()));
    end_booking(&mut change.next, "Cancelled");
    Ok(change)
}

fn complete(
    deal: &Deal,
    context: Context<'_>,
    request: &Request,
    number: &str,
) -> Result<Option<Change>, Refusal> {
    match deal.group {
        "Cancelled" => return Err(TERMINAL),
        "Completed" => return Ok(None),
        "Contract" => {}
        _ => return Err(FORBIDDEN_MOVE),
    }
    if request.by.is_of_platform() && context.developer.is_active {
        return Err(FORBIDDEN_MOVE);
    }
    if context.booked_elsewhere {
        return Err((409, "CRM_PROPERTY_OBJECT_ALREADY_BOOKED"));
    }
    if context.completed_elsewhere {
        return Err((409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE"));
    }
    let to = context.developer.receiving_step("Completed").ok_or(NO_STEP)?;
    let mut change =
        Change { next: deal.clone(), rows: Vec::new(), is_published: true, second_topic: Some(COMPLETED) };
    change.rows.push(("DealCompleted", json!({"RegistryRecordNumber": number})));
    (change.next.step, change.next.group) = (to.id, to.group);
    change.next.completed_at = Some(String::new());
    end_booking(&mut change.next, "Completed");
    Ok(Some(change))
}

fn override_status(
    deal: &Deal,
    context: Context<'_>,
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
        cancel(deal, context, comment)?
    } else {
        let to = context.developer.receiving_step(group_of(target)).ok_or(NO_STEP)?;
        if target == "Sale" && !has_contract(deal) {
            return Err(NO_CONTRACT);
        }
        let mut change =
            Change { next: deal.clone(), rows: Vec::new(), is_published: true, second_topic: None };
        change.next.cancelled = None;
        enter(&mut change, to.id, to.group, Some(comment));
        change
    };
    change.rows.push(("ManualNote", json!({"Text": comment})));
    Ok(Some(change))
}

/// Decides a creation: a refusal, or the step and the amount of the deal.
pub fn decide_creation(
    world: &World,
    request: &Request,
    object: Uuid,
    agent: Option<Uuid>,
    amount: Option<i64>,
) -> Result<(Uuid, i64), Refusal> {
    if !matches!(request.by.role, Role::Platform | Role::Manager) {
        return Err((403, "FORBIDDEN"));
    }
    let is_visible = |tenant: Uuid| request.by.is_of_platform() || request.by.company == Some(tenant);
    let found = world.object(object).filter(|object| is_visible(object.tenant));
    let object = found.ok_or((422, "CRM_PROPERTY_OBJECT_NOT_FOUND"))?;
    let developer = world.developer(object.tenant);
    if !developer.is_active {
        return Err((409, "CRM_DEVELOPER_NOT_ACTIVE"));
    }
    let is_sold = world.other_deals(object.id, None).any(|deal| deal.group == "Completed");
    if is_sold || matches!(object.status, "Sold" | "Unavailable") {
        return Err((409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE"));
    }
    let step = developer.receiving_step("Application").ok_or(NO_STEP)?;
    check_agent(request.by, agent, world.agents)?;
    let amount = amount.unwrap_or(object.price);
    check_amount(request.by, amount, object.price)?;
    Ok((step.id, amount))
}
