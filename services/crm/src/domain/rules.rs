//! What each operation does from each status, and the order in which it is answered. Repetition and races are found
//! out by whoever writes.

#[cfg(test)]
mod tests;

use auth::{Reach, UserId};
use time::OffsetDateTime;
use values::{Code, Whole};

use super::{
    Amount, Author, Booking, BookingStatus, Change, CompanyStatus, Contract, ContractField, Deal, DealId,
    DealStatus, Entry, ObjectStatus, PropertyObject, RegistryRecordNumber, RequestId, Role, SelectionId,
    Step, StepGroup, StepId, Words, receiving_step,
};
use crate::error::{
    DEAL_ALREADY_TERMINAL, DEAL_BOOKING_ALREADY_ACTIVE, DEAL_BOOKING_REQUIRED, DEAL_CONTRACT_TYPE_REQUIRED,
    DEAL_MOVE_FORBIDDEN, DEAL_STEP_NOT_FOUND, DEVELOPER_NOT_ACTIVE, PROPERTY_OBJECT_ALREADY_BOOKED,
    PROPERTY_OBJECT_NOT_AVAILABLE,
};

/// What is to be done to a deal.
#[derive(Clone, Debug)]
pub enum Operation {
    /// On the board.
    MoveStep {
        to: StepId,
        reason: Option<Words>,
    },
    Contract(ContractChange),
    Agent(Option<UserId>),
    Book {
        expires_at: OffsetDateTime,
    },
    Prolong {
        expires_at: OffsetDateTime,
    },
    Cancel {
        reason: Words,
    },
    Complete {
        number: RegistryRecordNumber,
    },
    /// By the platform. Without a comment it is only looked at.
    Override {
        target: DealStatus,
        comment: Option<Words>,
    },
    /// By the job.
    Expire,
}

/// Contract data as they are to be.
#[derive(Clone, Debug)]
pub struct ContractChange {
    pub contract: Contract,
    /// `None`: it stays.
    pub amount: Option<Amount>,
}

/// A deal, and what its rules look at.
#[derive(Clone, Debug)]
pub struct Situation {
    pub deal: Deal,
    /// Its Active one.
    pub booking: Option<Booking>,
    /// The live ones of its developer, in their order.
    pub steps: Vec<Step>,
    /// Of its developer, if identity has told of them.
    pub developer: Option<CompanyStatus>,
    /// Of its object, where that is looked at: to book and to complete.
    pub object: Option<ObjectState>,
}

/// What stands in the way of a booking or a completion.
#[derive(Clone, Copy, Debug)]
pub struct ObjectState {
    pub status: ObjectStatus,
    /// By another deal.
    pub is_booked: bool,
    /// Another deal of it is Completed.
    pub is_sold: bool,
}

/// What an operation meets first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// It is what it would become.
    NoOp,
    Terminal,
}

/// The table of deals: what their status says to an operation before anything else is looked at (INV-DEAL-9).
const fn gate(from: DealStatus, by: &Operation) -> Gate {
    match (from, by) {
        (DealStatus::Application | DealStatus::Booking | DealStatus::Sale, _)
        | (DealStatus::Cancelled, Operation::Override { .. }) => Gate::Open,
        (DealStatus::Cancelled, Operation::Cancel { .. })
        | (DealStatus::Completed, Operation::Complete { .. }) => Gate::NoOp,
        (DealStatus::Cancelled | DealStatus::Completed, _) => Gate::Terminal,
    }
}

/// Its column for moves on the board (INV-DEAL-8).
const fn leads(from: StepGroup, to: StepGroup) -> bool {
    use StepGroup::{Application, Booking, Contract};
    matches!(
        (from, to),
        (Application, Application | Booking)
            | (Booking, Application | Booking | Contract)
            | (Contract, Booking | Contract)
    )
}

impl Situation {
    /// What becomes of the deal; `None` where it is so already.
    ///
    /// # Errors
    /// What the operation is refused with, but for lost races.
    pub fn decide(
        &self,
        operation: Operation,
        by: Author,
        now: OffsetDateTime,
    ) -> Result<Option<Change>, Code> {
        match gate(self.deal.status, &operation) {
            Gate::Terminal => return Err(DEAL_ALREADY_TERMINAL),
            Gate::NoOp => return Ok(None),
            Gate::Open => {}
        }
        let change = Change::of(self, by, now);
        let decided = match operation {
            Operation::MoveStep { to, reason } => self.move_step(change, to, reason),
            Operation::Contract(data) => self.change_contract(change, data),
            Operation::Agent(agent) => Ok(self.change_agent(change, agent)),
            Operation::Book { expires_at } => self.book(change, expires_at).map(Some),
            Operation::Prolong { expires_at } => self.prolong(change, expires_at),
            Operation::Cancel { reason } => self.cancel(change, reason).map(Some),
            Operation::Complete { number } => self.complete(change, number).map(Some),
            Operation::Override { target, comment } => self.overrule(change, target, comment),
            Operation::Expire => Ok(self.expire(change)),
        };
        Ok(decided?.map(Change::finished))
    }

    fn move_step(&self, change: Change, to: StepId, reason: Option<Words>) -> Result<Option<Change>, Code> {
        let deal = &self.deal;
        if to == deal.step_id {
            return Ok(None);
        }
        let step = self.steps.iter().find(|step| step.id == to).ok_or(DEAL_STEP_NOT_FOUND)?;
        if !leads(deal.step_group, step.group) {
            return Err(DEAL_MOVE_FORBIDDEN);
        }
        check_contract(step.group, &deal.contract)?;
        let is_booked_group = matches!(step.group, StepGroup::Booking | StepGroup::Contract);
        if step.group != deal.step_group && is_booked_group && self.booking.is_none() {
            return Err(DEAL_BOOKING_REQUIRED);
        }
        let moved =
            Entry::StepMoved { from_step_id: deal.step_id, to_step_id: step.id, reason: reason.clone() };
        Ok(Some(change.into_step(step, None).telling(moved).telling_status(reason)))
    }

    fn change_contract(&self, mut change: Change, new: ContractChange) -> Result<Option<Change>, Code> {
        let deal = &self.deal;
        let (old, contract) = (&deal.contract, new.contract);
        let amount = new.amount.unwrap_or(deal.amount);
        let changed_fields: Vec<_> = [
            (old.contract_type != contract.contract_type, ContractField::ContractType),
            (old.payment_method != contract.payment_method, ContractField::PaymentMethod),
            (old.escrow_account_number != contract.escrow_account_number, ContractField::EscrowAccountNumber),
            (old.fixation_data != contract.fixation_data, ContractField::FixationData),
            (deal.amount != amount, ContractField::Amount),
        ]
        .into_iter()
        .filter_map(|(is_changed, field)| is_changed.then_some(field))
        .collect();
        if changed_fields.is_empty() {
            return Ok(None);
        }
        check_contract(deal.step_group, &contract)?;
        change.after.contract = contract;
        change.after.amount = amount;
        Ok(Some(change.telling(Entry::ContractChanged { changed_fields })))
    }

    fn change_agent(&self, mut change: Change, agent: Option<UserId>) -> Option<Change> {
        let from_agent_user_id = self.deal.agent_user_id;
        if agent == from_agent_user_id {
            return None;
        }
        change.after.agent_user_id = agent;
        Some(change.telling(Entry::AgentChanged { from_agent_user_id, to_agent_user_id: agent }))
    }

    fn book(&self, mut change: Change, expires_at: OffsetDateTime) -> Result<Change, Code> {
        if self.booking.is_some() {
            return Err(DEAL_BOOKING_ALREADY_ACTIVE);
        }
        if self.object.is_some_and(|object| !object.status.is_for_sale() || object.is_sold) {
            return Err(PROPERTY_OBJECT_NOT_AVAILABLE);
        }
        if self.object.is_some_and(|object| object.is_booked) {
            return Err(PROPERTY_OBJECT_ALREADY_BOOKED);
        }
        if self.deal.step_group == StepGroup::Application {
            change = change.into_step(self.receiving(StepGroup::Booking)?, None);
        }
        let booking = Booking::new(&change.after, expires_at);
        let made = Entry::BookingCreated { booking_id: booking.id, expires_at };
        change.booking = Some(booking);
        Ok(change.telling(made).telling_status(None))
    }

    fn prolong(&self, mut change: Change, expires_at: OffsetDateTime) -> Result<Option<Change>, Code> {
        let booking = self.booking.clone().ok_or(DEAL_BOOKING_REQUIRED)?;
        if booking.expires_at == expires_at {
            return Ok(None);
        }
        let prolonged = Entry::BookingProlonged { booking_id: booking.id, expires_at };
        change.booking = Some(Booking { expires_at, ..booking });
        Ok(Some(change.telling(prolonged)))
    }

    fn cancel(&self, change: Change, reason: Words) -> Result<Change, Code> {
        let step = self.receiving(StepGroup::Cancelled)?;
        Ok(change
            .into_step(step, Some(reason.clone()))
            .ending_booking(BookingStatus::Cancelled)
            .telling(Entry::DealCancelled { reason: Some(reason) }))
    }

    /// INV-DEAL-7, INV-DEAL-10
    fn complete(&self, change: Change, number: RegistryRecordNumber) -> Result<Change, Code> {
        let is_active = self.developer.is_none_or(|status| status == CompanyStatus::Active);
        let is_theirs = change.by.role == Role::DeveloperManager || !is_active;
        if self.deal.status != DealStatus::Sale || !is_theirs {
            return Err(DEAL_MOVE_FORBIDDEN);
        }
        if self.object.is_some_and(|object| object.is_booked) {
            return Err(PROPERTY_OBJECT_ALREADY_BOOKED);
        }
        if self.object.is_some_and(|object| object.is_sold) {
            return Err(PROPERTY_OBJECT_NOT_AVAILABLE);
        }
        let step = self.receiving(StepGroup::Completed)?;
        Ok(change
            .into_step(step, None)
            .ending_booking(BookingStatus::Completed)
            .telling(Entry::DealCompleted { registry_record_number: number }))
    }

    fn overrule(
        &self,
        change: Change,
        target: DealStatus,
        comment: Option<Words>,
    ) -> Result<Option<Change>, Code> {
        if target == self.deal.status {
            return Ok(None);
        }
        let step = self.receiving(target.group())?;
        check_contract(step.group, &self.deal.contract)?;
        let change = if target == DealStatus::Cancelled {
            change
                .into_step(step, comment.clone())
                .ending_booking(BookingStatus::Cancelled)
                .telling(Entry::DealCancelled { reason: comment.clone() })
        } else {
            change.into_step(step, None).telling_status(comment.clone())
        };
        Ok(Some(match comment {
            Some(text) => change.telling(Entry::ManualNote { text }),
            None => change,
        }))
    }

    /// INV-BKG-3, INV-BKG-4: the deal stays where it is.
    fn expire(&self, change: Change) -> Option<Change> {
        let booking_id = self.booking.as_ref().filter(|booking| booking.is_overdue(change.at()))?.id;
        Some(change.ending_booking(BookingStatus::Expired).telling(Entry::BookingExpired { booking_id }))
    }

    fn receiving(&self, group: StepGroup) -> Result<&Step, Code> {
        receiving_step(&self.steps, group).ok_or(DEAL_STEP_NOT_FOUND)
    }
}

/// INV-DEAL-6
fn check_contract(group: StepGroup, contract: &Contract) -> Result<(), Code> {
    if group == StepGroup::Contract && !contract.is_settled() {
        return Err(DEAL_CONTRACT_TYPE_REQUIRED);
    }
    Ok(())
}

/// An object of which a deal is to be made, and what its rules look at.
#[derive(Clone, Debug)]
pub struct Prospect {
    pub object: PropertyObject,
    /// Of its developer, if identity has told of them.
    pub developer: Option<CompanyStatus>,
    /// A deal of it is Completed.
    pub is_sold: bool,
    /// The live ones of its developer, in their order.
    pub steps: Vec<Step>,
}

/// What a new deal is given once, and who brought it.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    pub client_user_id: UserId,
    pub agent_user_id: Option<UserId>,
    pub selection_id: Option<SelectionId>,
    /// `None`: the object's price.
    pub amount: Option<Amount>,
}

values::text_enum! {
    /// By which routes a deal was made.
    pub enum Family {
        Platform,
        Developer,
    }
}

/// What a caller calls a creation, so that it can be repeated: each person for themselves in either family of routes, and
/// among a developer's own in each company.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub id: RequestId,
    pub reach: Reach,
}

impl Request {
    pub const fn family(self) -> Family {
        match self.reach {
            Reach::Platform => Family::Platform,
            Reach::Company(_) => Family::Developer,
        }
    }
}

impl Prospect {
    /// The deal.
    ///
    /// # Errors
    /// What its creation is refused with; `None` where nobody has said what it comes to.
    pub fn apply(
        self,
        application: Application,
        by: UserId,
        now: OffsetDateTime,
    ) -> Result<Option<Deal>, Code> {
        if self.developer.is_some_and(|status| status != CompanyStatus::Active) {
            return Err(DEVELOPER_NOT_ACTIVE);
        }
        if !self.object.status.is_for_sale() || self.is_sold {
            return Err(PROPERTY_OBJECT_NOT_AVAILABLE);
        }
        let step = receiving_step(&self.steps, StepGroup::Application).ok_or(DEAL_STEP_NOT_FOUND)?;
        let Application { client_user_id, agent_user_id, selection_id, amount } = application;
        let price = || {
            let amount_minor = Whole::parse(self.object.price).ok()?;
            Some(Amount { amount_minor, currency: self.object.currency })
        };
        Ok(amount.or_else(price).map(|amount| Deal {
            id: DealId::generate(),
            tenant_id: self.object.tenant_id,
            property_object_id: self.object.id,
            client_user_id,
            agent_user_id,
            selection_id,
            amount,
            status: step.group.status(),
            step_id: step.id,
            step_group: step.group,
            step_entered_at: now,
            contract: Contract::default(),
            cancelled_at: None,
            cancel_reason: None,
            completed_at: None,
            created_at: now,
            created_by_user_id: by,
            updated_at: now,
            updated_by_user_id: None,
            row_version: 1,
        }))
    }
}
