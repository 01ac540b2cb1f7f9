//! The rules of deals: the effect of each operation in each status, and the order of its refusals.
//!
//! The statements that read and write deals detect repeats of a creation and lost races.

#[cfg(test)]
mod tests;

use auth::{Reach, UserId};
use time::OffsetDateTime;
use values::{Code, Whole};

use super::terms::{check_agent, check_amount, check_parties};
use super::{
    Amount, Author, Booking, BookingStatus, Change, CompanyStatus, Contract, ContractField, Deal, DealId,
    DealState, DealStatus, FreeText, ObjectAvailability, ObjectState, PropertyObject, RegistryRecordNumber,
    RequestId, Role, SelectionId, StatusOverride, Step, StepGroup, StepId, TimelineEntry, receiving_step,
};
use crate::error::{
    DEAL_ALREADY_TERMINAL, DEAL_BOOKING_ALREADY_ACTIVE, DEAL_BOOKING_REQUIRED, DEAL_CONTRACT_TYPE_REQUIRED,
    DEAL_MOVE_FORBIDDEN, DEAL_STEP_NOT_FOUND, DEVELOPER_NOT_ACTIVE, PROPERTY_OBJECT_ALREADY_BOOKED,
    PROPERTY_OBJECT_NOT_AVAILABLE,
};

/// An operation on a deal.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Moves the deal on the board.
    MoveStep {
        to: StepId,
        reason: Option<FreeText>,
    },
    ReplaceContract(ContractChange),
    /// `None` removes the agent.
    ChangeAgent(Option<UserId>),
    Book {
        expires_at: OffsetDateTime,
    },
    Prolong {
        expires_at: OffsetDateTime,
    },
    Cancel {
        reason: FreeText,
    },
    Complete {
        number: RegistryRecordNumber,
    },
    /// A platform manager overrides the status.
    Override(StatusOverride),
    /// The job `booking-expiry` ends an overdue booking.
    Expire,
}

impl Operation {
    /// Returns true if the rules depend on the state of the object.
    pub const fn needs_object(&self) -> bool {
        match self {
            Self::Book { .. } | Self::Complete { .. } => true,
            Self::Override(requested) => requested.booked_until.is_some(),
            _ => false,
        }
    }
}

/// Requested contract data.
#[derive(Clone, Debug)]
pub struct ContractChange {
    pub contract: Contract,
    /// `None` keeps the amount.
    pub amount: Option<Amount>,
    /// The largest difference from the object's price on company routes, in percent of the price.
    pub tolerance_percent: u8,
}

/// The result of checking an operation by the status of the deal alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusCheck {
    Passed,
    /// The deal is already in the target state.
    NoOp,
    Terminal,
}

/// Checks an operation by the status alone, before any other rule (INV-DEAL-9).
const fn check_status(from: DealStatus, operation: &Operation) -> StatusCheck {
    match (from, operation) {
        (DealStatus::Application | DealStatus::Booking | DealStatus::Sale, _)
        | (DealStatus::Cancelled, Operation::Override(_)) => StatusCheck::Passed,
        (DealStatus::Cancelled, Operation::Cancel { .. })
        | (DealStatus::Completed, Operation::Complete { .. }) => StatusCheck::NoOp,
        (DealStatus::Cancelled | DealStatus::Completed, _) => StatusCheck::Terminal,
    }
}

/// Returns true if a move on the board may lead from one group to another (INV-DEAL-8).
const fn is_move_allowed(from: StepGroup, to: StepGroup) -> bool {
    use StepGroup::{Application, Booking, Contract};
    matches!(
        (from, to),
        (Application, Application | Booking)
            | (Booking, Application | Booking | Contract)
            | (Contract, Booking | Contract)
    )
}

impl DealState {
    /// Returns the change that the operation makes, or `None` for a no-op.
    ///
    /// # Errors
    /// The first refusal of the operation. Lost races are detected when the change is written.
    pub fn decide(
        &self,
        operation: Operation,
        author: Author,
        now: OffsetDateTime,
    ) -> Result<Option<Change>, Code> {
        match check_status(self.deal.status, &operation) {
            StatusCheck::Terminal => return Err(DEAL_ALREADY_TERMINAL),
            StatusCheck::NoOp => return Ok(None),
            StatusCheck::Passed => {}
        }
        let change = Change::of(self, author, now);
        let decided = match operation {
            Operation::MoveStep { to, reason } => self.move_step(change, to, reason),
            Operation::ReplaceContract(data) => self.replace_contract(change, data),
            Operation::ChangeAgent(agent) => self.change_agent(change, agent),
            Operation::Book { expires_at } => self.book(change, expires_at).map(Some),
            Operation::Prolong { expires_at } => self.prolong(change, expires_at),
            Operation::Cancel { reason } => self.cancel(change, reason).map(Some),
            Operation::Complete { number } => self.complete(change, number).map(Some),
            Operation::Override(requested) => self.override_status(change, requested),
            Operation::Expire => Ok(self.expire(change)),
        };
        Ok(decided?.map(Change::finish))
    }

    fn move_step(
        &self,
        change: Change,
        to: StepId,
        reason: Option<FreeText>,
    ) -> Result<Option<Change>, Code> {
        let deal = &self.deal;
        if to == deal.step_id {
            return Ok(None);
        }
        let step = self.steps.iter().find(|step| step.id == to).ok_or(DEAL_STEP_NOT_FOUND)?;
        if !is_move_allowed(deal.step_group, step.group) {
            return Err(DEAL_MOVE_FORBIDDEN);
        }
        check_contract(step.group, &deal.contract)?;
        let is_booking_required =
            step.group != deal.step_group && matches!(step.group, StepGroup::Booking | StepGroup::Contract);
        if is_booking_required && self.booking.is_none() {
            return Err(DEAL_BOOKING_REQUIRED);
        }
        let moved = TimelineEntry::StepMoved {
            from_step_id: deal.step_id,
            to_step_id: step.id,
            reason: reason.clone(),
        };
        Ok(Some(change.with_step(step, None).with_entry(moved).with_status_entry(reason)))
    }

    fn replace_contract(&self, mut change: Change, new: ContractChange) -> Result<Option<Change>, Code> {
        let deal = &self.deal;
        let (old, contract) = (&deal.contract, new.contract);
        let amount = new.amount.unwrap_or(deal.amount);
        let changed_fields: Vec<_> = [
            (old.contract_type != contract.contract_type, ContractField::ContractType),
            (old.payment_method != contract.payment_method, ContractField::PaymentMethod),
            (old.contract_number != contract.contract_number, ContractField::ContractNumber),
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
        if deal.amount != amount {
            check_parties(change.author.user_id, deal.client_user_id, deal.agent_user_id)?;
            check_amount(change.author.role, amount, self.price, new.tolerance_percent)?;
        }
        change.after.contract = contract;
        change.after.amount = amount;
        Ok(Some(change.with_entry(TimelineEntry::ContractChanged { changed_fields })))
    }

    fn change_agent(&self, mut change: Change, agent: Option<UserId>) -> Result<Option<Change>, Code> {
        let from_agent_user_id = self.deal.agent_user_id;
        if agent == from_agent_user_id {
            return Ok(None);
        }
        check_parties(change.author.user_id, self.deal.client_user_id, agent)?;
        check_agent(change.author.role, agent, self.is_agent_active)?;
        change.after.agent_user_id = agent;
        let changed = TimelineEntry::AgentChanged { from_agent_user_id, to_agent_user_id: agent };
        Ok(Some(change.with_entry(changed)))
    }

    fn book(&self, mut change: Change, expires_at: OffsetDateTime) -> Result<Change, Code> {
        self.check_bookable()?;
        if self.deal.step_group == StepGroup::Application {
            change = change.with_step(self.receiving_step(StepGroup::Booking)?, None);
        }
        Ok(change.with_booking(expires_at).with_status_entry(None))
    }

    /// Checks that neither this deal nor another one has booked the object, and that the object is
    /// for sale.
    pub(super) fn check_bookable(&self) -> Result<(), Code> {
        if self.booking.is_some() {
            return Err(DEAL_BOOKING_ALREADY_ACTIVE);
        }
        match self.object.map_or(ObjectAvailability::Free, ObjectState::availability) {
            ObjectAvailability::Free => Ok(()),
            ObjectAvailability::Booked => Err(PROPERTY_OBJECT_ALREADY_BOOKED),
            ObjectAvailability::Sold | ObjectAvailability::Unavailable => Err(PROPERTY_OBJECT_NOT_AVAILABLE),
        }
    }

    fn prolong(&self, mut change: Change, expires_at: OffsetDateTime) -> Result<Option<Change>, Code> {
        let booking = self.booking.clone().ok_or(DEAL_BOOKING_REQUIRED)?;
        if booking.expires_at == expires_at {
            return Ok(None);
        }
        let prolonged = TimelineEntry::BookingProlonged { booking_id: booking.id, expires_at };
        change.booking = Some(Booking { expires_at, ..booking });
        Ok(Some(change.with_entry(prolonged)))
    }

    fn cancel(&self, change: Change, reason: FreeText) -> Result<Change, Code> {
        let step = self.receiving_step(StepGroup::Cancelled)?;
        Ok(change
            .with_step(step, Some(reason.clone()))
            .with_ended_booking(BookingStatus::Cancelled)
            .with_entry(TimelineEntry::DealCancelled { reason: Some(reason) }))
    }

    /// Completes a deal in Sale (INV-DEAL-10). The platform completes only for a developer that is
    /// not Active (INV-DEAL-7).
    fn complete(&self, change: Change, number: RegistryRecordNumber) -> Result<Change, Code> {
        let is_active = self.developer.is_none_or(|status| status == CompanyStatus::Active);
        let is_permitted = change.author.role.is_of_developer() || !is_active;
        if self.deal.status != DealStatus::Sale || !is_permitted {
            return Err(DEAL_MOVE_FORBIDDEN);
        }
        check_parties(change.author.user_id, self.deal.client_user_id, self.deal.agent_user_id)?;
        if self.object.is_some_and(|object| object.is_booked) {
            return Err(PROPERTY_OBJECT_ALREADY_BOOKED);
        }
        if self.object.is_some_and(|object| object.is_sold) {
            return Err(PROPERTY_OBJECT_NOT_AVAILABLE);
        }
        let step = self.receiving_step(StepGroup::Completed)?;
        Ok(change
            .with_step(step, None)
            .with_ended_booking(BookingStatus::Completed)
            .with_entry(TimelineEntry::DealCompleted { registry_record_number: number }))
    }

    /// Ends an overdue booking. The deal stays in its step (INV-BKG-3, INV-BKG-4).
    fn expire(&self, change: Change) -> Option<Change> {
        let booking_id = self.booking.as_ref().filter(|booking| booking.is_overdue(change.at()))?.id;
        Some(
            change
                .with_ended_booking(BookingStatus::Expired)
                .with_entry(TimelineEntry::BookingExpired { booking_id }),
        )
    }

    pub(super) fn receiving_step(&self, group: StepGroup) -> Result<&Step, Code> {
        receiving_step(&self.steps, group).ok_or(DEAL_STEP_NOT_FOUND)
    }
}

/// Checks that a deal in Sale has contract type and payment method (INV-DEAL-6).
pub(super) fn check_contract(group: StepGroup, contract: &Contract) -> Result<(), Code> {
    if group == StepGroup::Contract && !contract.is_ready_for_sale() {
        return Err(DEAL_CONTRACT_TYPE_REQUIRED);
    }
    Ok(())
}

/// An object for a new deal, with everything that the rules of a creation depend on.
#[derive(Clone, Debug)]
pub struct OfferedObject {
    pub object: PropertyObject,
    /// The status of the developer in identity. `None` before the developer's first event. The
    /// rules then treat the developer as Active.
    pub developer: Option<CompanyStatus>,
    /// A deal of the object is Completed.
    pub is_sold: bool,
    /// The live steps of the developer, in their order.
    pub steps: Vec<Step>,
    /// The requested agent is an active employee of an active agency.
    pub is_agent_active: bool,
}

/// The fields of a new deal that the caller chooses.
#[derive(Clone, Copy, Debug)]
pub struct NewDeal {
    pub client_user_id: UserId,
    pub agent_user_id: Option<UserId>,
    pub selection_id: Option<SelectionId>,
    /// `None` takes the object's price.
    pub amount: Option<Amount>,
    /// The largest difference from the object's price on company routes, in percent of the price.
    pub tolerance_percent: u8,
}

values::text_enum! {
    /// The route family of a creation.
    pub enum RouteFamily {
        Platform,
        Developer,
    }
}

/// The key of a repeatable creation.
///
/// An id belongs to one user in one route family. On company routes it also belongs to one company.
#[derive(Clone, Copy, Debug)]
pub struct CreationRequest {
    pub id: RequestId,
    pub reach: Reach,
}

impl CreationRequest {
    pub const fn family(self) -> RouteFamily {
        match self.reach {
            Reach::Platform => RouteFamily::Platform,
            Reach::Company(_) => RouteFamily::Developer,
        }
    }
}

impl OfferedObject {
    /// Creates a deal of the object.
    ///
    /// Returns `None` if the request has no amount and the object's price is not a valid amount.
    ///
    /// # Errors
    /// The first refusal of the creation.
    pub fn create_deal(
        self,
        new: NewDeal,
        creator: UserId,
        role: Role,
        now: OffsetDateTime,
    ) -> Result<Option<Deal>, Code> {
        if self.developer.is_some_and(|status| status != CompanyStatus::Active) {
            return Err(DEVELOPER_NOT_ACTIVE);
        }
        if !self.object.status.is_for_sale() || self.is_sold {
            return Err(PROPERTY_OBJECT_NOT_AVAILABLE);
        }
        let step = receiving_step(&self.steps, StepGroup::Application).ok_or(DEAL_STEP_NOT_FOUND)?;
        let NewDeal { client_user_id, agent_user_id, selection_id, amount, tolerance_percent } = new;
        let price = || {
            let amount_minor = Whole::parse(self.object.price).ok()?;
            Some(Amount { amount_minor, currency: self.object.currency })
        };
        let Some(amount) = amount.or_else(price) else { return Ok(None) };
        check_parties(Some(creator), client_user_id, agent_user_id)?;
        check_agent(role, agent_user_id, self.is_agent_active)?;
        check_amount(role, amount, Some(self.object.price()), tolerance_percent)?;
        Ok(Some(Deal {
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
            created_by_user_id: creator,
            updated_at: now,
            updated_by_user_id: None,
            row_version: 1,
            stage_change_version: 0,
        }))
    }
}
