//! The changes that the operations of a deal make.

use auth::UserId;
use values::{Private, Prose, Text, Whole};

use super::{GROUPS, at_hour, deal, free_text, status_override};
use crate::domain::{
    Amount, Author, Booking, BookingStatus, CompanyStatus, Contract, ContractChange, ContractField,
    DealEventType, DealState, DealStatus, NewDeal, NoteAudience, ObjectState, ObjectStatus, OfferedObject,
    Operation, PropertyObject, PropertyObjectId, PublishedName, Role, StatusOverride, Step, StepGroup,
    StepId, StepName, TimelineEntry, TimelineKind,
};
use crate::error::{
    AMOUNT_OUT_OF_TOLERANCE, DEAL_BOOKING_ALREADY_ACTIVE, DEAL_BOOKING_REQUIRED, DEAL_MOVE_FORBIDDEN,
    DEVELOPER_NOT_ACTIVE, PROPERTY_OBJECT_ALREADY_BOOKED, PROPERTY_OBJECT_NOT_AVAILABLE,
};

/// Returns a deal in the step of a group. The pipeline has one step of each group.
fn state_in(group: StepGroup) -> DealState {
    let tenant_id = auth::CompanyId::generate();
    let step = |group, sort_order| Step {
        id: StepId::generate(),
        tenant_id,
        group,
        name: StepName::parse("x").unwrap(),
        sort_order,
        is_default: true,
        archived_at: None,
    };
    let steps: Vec<_> = GROUPS.into_iter().zip(0..).map(|(group, order)| step(group, order)).collect();
    let own = steps.iter().find(|step| step.group == group).unwrap();
    DealState {
        deal: deal(own, true),
        booking: None,
        developer: Some(CompanyStatus::Active),
        price: Some(values::Money { amount_minor: 5, currency: values::Currency::RUB }),
        is_agent_active: true,
        object: Some(ObjectState { status: ObjectStatus::Available, is_booked: false, is_sold: false }),
        steps,
    }
}

fn author(role: Role) -> Author {
    Author { user_id: Some(UserId::generate()), role }
}

/// A move to Booking needs a booking, and a move back to Application does not.
#[test]
fn move_to_booking_needs_a_booking() {
    let move_to = |state: &DealState, group| {
        let to = state.steps.iter().find(|step| step.group == group).unwrap().id;
        state.decide(Operation::MoveStep { to, reason: None }, author(Role::PlatformManager), at_hour(3))
    };
    let mut state = state_in(StepGroup::Application);
    assert_eq!(move_to(&state, StepGroup::Booking).unwrap_err(), DEAL_BOOKING_REQUIRED);
    state.booking = Some(Booking::new(&state.deal, at_hour(5)));
    let change = move_to(&state, StepGroup::Booking).unwrap().unwrap();
    assert_eq!((change.after.step_group, change.after.step_entered_at), (StepGroup::Booking, at_hour(3)));
    let kinds: Vec<_> = change.entries.iter().map(TimelineEntry::kind).collect();
    assert_eq!(kinds, [TimelineKind::StepMoved, TimelineKind::StatusChanged]);
    let back = move_to(&state_in(StepGroup::Booking), StepGroup::Application).unwrap().unwrap();
    assert_eq!(back.after.status, DealStatus::Application);
}

/// The timeline row of a changed contract names each field that differs, and no other one.
#[test]
fn changed_contract_names_each_field_that_differs() {
    use ContractField::{
        Amount as AmountField, ContractNumber, ContractType as TypeField, EscrowAccountNumber, FixationData,
        PaymentMethod as MethodField,
    };
    let state = state_in(StepGroup::Application);
    let old = state.deal.contract.clone();
    let number = Private::new(Prose::parse("7").unwrap());
    let fixation = Private::new(Text::parse("x").unwrap());
    let account = || Private::new(values::Checked::parse("40817810099910004312").unwrap());
    let other_amount = Amount { amount_minor: Whole::literal::<6>(), ..state.deal.amount };
    for (contract, amount, field) in [
        (Contract { contract_type: None, ..old.clone() }, None, TypeField),
        (Contract { payment_method: None, ..old.clone() }, None, MethodField),
        (Contract { contract_number: Some(number), ..old.clone() }, None, ContractNumber),
        (Contract { escrow_account_number: Some(account()), ..old.clone() }, None, EscrowAccountNumber),
        (Contract { fixation_data: Some(fixation), ..old.clone() }, None, FixationData),
        (old.clone(), Some(other_amount), AmountField),
    ] {
        let data = ContractChange { contract, amount, tolerance_percent: 20 };
        let change =
            state.decide(Operation::ReplaceContract(data), author(Role::PlatformManager), at_hour(3));
        let entries = change.unwrap().unwrap().entries;
        assert_eq!(entries, [TimelineEntry::ContractChanged { changed_fields: vec![field] }]);
    }
    let same = ContractChange { contract: old, amount: Some(state.deal.amount), tolerance_percent: 20 };
    let change = state.decide(Operation::ReplaceContract(same), author(Role::PlatformManager), at_hour(3));
    assert!(change.unwrap().is_none());
}

/// An amount that a developer's employee changes is close to the price. The present amount of the
/// deal is not checked.
#[test]
fn changed_amount_is_checked_against_the_price() {
    let mut state = state_in(StepGroup::Application);
    state.price = Some(values::Money { amount_minor: 1_000, currency: values::Currency::RUB });
    let request = |amount_minor| {
        let amount = Amount { amount_minor: Whole::parse(amount_minor).unwrap(), ..state.deal.amount };
        let contract = Contract { contract_number: None, contract_type: None, ..state.deal.contract.clone() };
        let data = ContractChange { contract, amount: Some(amount), tolerance_percent: 20 };
        state.decide(Operation::ReplaceContract(data), author(Role::DeveloperManager), at_hour(3))
    };
    assert!(request(5).unwrap().is_some());
    assert!(request(1_000).unwrap().is_some());
    assert_eq!(request(6).unwrap_err(), AMOUNT_OUT_OF_TOLERANCE);
}

/// A developer's employee completes a deal in Sale. The platform does so only for a developer that
/// is not Active.
#[test]
fn completion_needs_sale_and_the_developer() {
    let complete = |state: &DealState, role| {
        let number = Private::new(Prose::parse("7").unwrap());
        state.decide(Operation::Complete { number }, author(role), at_hour(3)).map(|change| change.is_some())
    };
    let (employee, platform) = (Role::DeveloperManager, Role::PlatformManager);
    let sale = state_in(StepGroup::Contract);
    assert_eq!(complete(&sale, employee), Ok(true));
    assert_eq!(complete(&sale, platform), Err(DEAL_MOVE_FORBIDDEN));
    let suspended = DealState { developer: Some(CompanyStatus::Suspended), ..sale.clone() };
    assert_eq!(complete(&suspended, platform), Ok(true));
    assert_eq!(complete(&suspended, employee), Ok(true));
    let unknown = DealState { developer: None, ..sale.clone() };
    assert_eq!(complete(&unknown, platform), Err(DEAL_MOVE_FORBIDDEN));
    assert_eq!(complete(&state_in(StepGroup::Booking), employee), Err(DEAL_MOVE_FORBIDDEN));
    let object =
        |is_booked, is_sold| Some(ObjectState { status: ObjectStatus::Available, is_booked, is_sold });
    let booked = DealState { object: object(true, false), ..sale.clone() };
    assert_eq!(complete(&booked, employee), Err(PROPERTY_OBJECT_ALREADY_BOOKED));
    let sold = DealState { object: object(false, true), ..sale };
    assert_eq!(complete(&sold, employee), Err(PROPERTY_OBJECT_NOT_AVAILABLE));
}

/// A booking moves a deal from Application to Booking, and leaves a deal in Contract in its step.
/// An object that is booked, sold or unavailable is refused.
#[test]
fn booking_needs_a_free_object() {
    let book = |state: &DealState| {
        state.decide(Operation::Book { expires_at: at_hour(5) }, author(Role::PlatformManager), at_hour(3))
    };
    for (group, after) in
        [(StepGroup::Application, StepGroup::Booking), (StepGroup::Contract, StepGroup::Contract)]
    {
        let change = book(&state_in(group)).unwrap().unwrap();
        assert_eq!(change.after.step_group, after);
        assert_eq!(change.booking.as_ref().map(|booking| booking.expires_at), Some(at_hour(5)));
        assert!(change.changed_booking().is_some() && !change.has_ended_booking());
        assert_eq!(change.event_types().last(), Some(&DealEventType::BookingCreated));
    }
    let state = state_in(StepGroup::Application);
    let object = |status, is_booked, is_sold| DealState {
        object: Some(ObjectState { status, is_booked, is_sold }),
        ..state.clone()
    };
    for (state, refusal) in [
        (object(ObjectStatus::Available, true, false), PROPERTY_OBJECT_ALREADY_BOOKED),
        (object(ObjectStatus::Available, false, true), PROPERTY_OBJECT_NOT_AVAILABLE),
        (object(ObjectStatus::Unavailable, false, false), PROPERTY_OBJECT_NOT_AVAILABLE),
    ] {
        assert_eq!(book(&state).unwrap_err(), refusal);
    }
    let booked = DealState { booking: Some(Booking::new(&state.deal, at_hour(4))), ..state };
    assert_eq!(book(&booked).unwrap_err(), DEAL_BOOKING_ALREADY_ACTIVE);
}

/// A prolonged booking has the new expiry and no event. The job ends an overdue booking.
#[test]
fn booking_is_prolonged_and_expires() {
    let mut state = state_in(StepGroup::Booking);
    let prolong = |state: &DealState, expires_at| {
        state.decide(Operation::Prolong { expires_at }, author(Role::PlatformManager), at_hour(3))
    };
    assert_eq!(prolong(&state, at_hour(5)).unwrap_err(), DEAL_BOOKING_REQUIRED);
    state.booking = Some(Booking::new(&state.deal, at_hour(2)));
    assert!(prolong(&state, at_hour(2)).unwrap().is_none());
    let change = prolong(&state, at_hour(5)).unwrap().unwrap();
    assert_eq!(change.changed_booking().map(|booking| booking.expires_at), Some(at_hour(5)));
    assert_eq!(change.event_types(), []);
    let expire = |at| state.decide(Operation::Expire, Author::SYSTEM, at).unwrap();
    let expired = expire(at_hour(2)).unwrap();
    assert!(expired.has_ended_booking());
    assert_eq!(expired.event_types(), [DealEventType::BookingExpired]);
    assert_eq!(expired.after.updated_by_user_id, None);
    assert!(expire(at_hour(1)).is_none());
}

/// A cancellation ends the booking, and publishes `deal-stage-changed` and `deal-cancelled`.
#[test]
fn cancelled_deal_publishes_its_stage_and_its_end() {
    let mut state = state_in(StepGroup::Booking);
    state.booking = Some(Booking::new(&state.deal, at_hour(5)));
    let author = author(Role::PlatformManager);
    let change =
        state.decide(Operation::Cancel { reason: free_text("x") }, author, at_hour(3)).unwrap().unwrap();
    assert_eq!(change.event_types(), [DealEventType::DealStageChanged, DealEventType::DealCancelled]);
    assert_eq!(change.booking.as_ref().map(|booking| booking.status), Some(BookingStatus::Cancelled));
    assert_eq!(change.after.cancel_reason, Some(free_text("x")));
    assert_eq!((change.at(), change.after.updated_by_user_id), (at_hour(3), author.user_id));
    assert_eq!(change.after.stage_change_version, change.after.row_version);
}

/// A change by a replica whose clock is behind has the time of the previous change.
#[test]
fn time_of_a_change_does_not_go_back() {
    let state = state_in(StepGroup::Application);
    let agent = Some(UserId::generate());
    let change = state.decide(Operation::ChangeAgent(agent), author(Role::PlatformManager), at_hour(0));
    let change = change.unwrap().unwrap();
    assert_eq!(change.at(), state.deal.updated_at);
    let entry = TimelineEntry::AgentChanged { from_agent_user_id: None, to_agent_user_id: agent };
    assert_eq!(change.entries, [entry]);
    assert_eq!(change.event_types(), [DealEventType::DealStageChanged]);
}

/// An override has its comment and its readers, and books the object on request.
#[test]
fn override_has_its_comment_and_its_readers() {
    let state = state_in(StepGroup::Application);
    let requested = StatusOverride {
        audience: NoteAudience::Platform,
        booked_until: Some(at_hour(5)),
        ..status_override(DealStatus::Booking, Some(free_text("x")))
    };
    let decide =
        |requested| state.decide(Operation::Override(requested), author(Role::PlatformManager), at_hour(3));
    let change = decide(requested).unwrap().unwrap();
    assert_eq!((change.audience, &change.override_comment), (NoteAudience::Platform, &Some(free_text("x"))));
    let kinds: Vec<_> = change.entries.iter().map(TimelineEntry::kind).collect();
    assert_eq!(kinds, [TimelineKind::BookingCreated, TimelineKind::StatusChanged, TimelineKind::ManualNote]);
    assert!(decide(status_override(DealStatus::Application, None)).unwrap().is_none());
    let cancelled = decide(status_override(DealStatus::Cancelled, Some(free_text("x")))).unwrap().unwrap();
    let kinds: Vec<_> = cancelled.entries.iter().map(TimelineEntry::kind).collect();
    assert_eq!(kinds, [TimelineKind::DealCancelled, TimelineKind::ManualNote]);
}

/// A booking, a completion and an override that books depend on the object.
#[test]
fn operation_that_books_or_completes_needs_the_object() {
    let number = Private::new(Prose::parse("7").unwrap());
    let requested = status_override(DealStatus::Booking, None);
    let books = StatusOverride { booked_until: Some(at_hour(5)), ..requested.clone() };
    for (operation, needs) in [
        (Operation::Book { expires_at: at_hour(5) }, true),
        (Operation::Complete { number }, true),
        (Operation::Override(books), true),
        (Operation::Override(requested), false),
        (Operation::Expire, false),
    ] {
        assert_eq!(operation.needs_object(), needs, "{operation:?}");
    }
}

/// A new deal needs a developer that is active or unknown, and an object for sale. Without an
/// amount in the request the deal takes the price.
#[test]
fn new_deal_needs_an_active_developer_and_an_object_for_sale() {
    let steps = state_in(StepGroup::Application).steps;
    let object = PropertyObject {
        id: PropertyObjectId::generate(),
        tenant_id: steps[0].tenant_id,
        project_name: PublishedName::parse("x").unwrap(),
        building_name: PublishedName::parse("x").unwrap(),
        number: PublishedName::parse("x").unwrap(),
        price: 1_000,
        currency: values::Currency::RUB,
        status: ObjectStatus::Available,
        version: 1,
    };
    let offered = OfferedObject { object, developer: None, is_sold: false, steps, is_agent_active: false };
    let new = NewDeal {
        client_user_id: UserId::generate(),
        agent_user_id: None,
        selection_id: None,
        amount: None,
        tolerance_percent: 20,
    };
    let creator = UserId::generate();
    let create =
        |offered: OfferedObject| offered.create_deal(new, creator, Role::DeveloperManager, at_hour(3));
    let deal = create(offered.clone()).unwrap().unwrap();
    assert_eq!((deal.amount.amount_minor.get(), deal.status), (1_000, DealStatus::Application));
    assert!(create(OfferedObject { developer: Some(CompanyStatus::Active), ..offered.clone() }).is_ok());
    let suspended = OfferedObject { developer: Some(CompanyStatus::Suspended), ..offered.clone() };
    assert_eq!(create(suspended).unwrap_err(), DEVELOPER_NOT_ACTIVE);
    let sold = OfferedObject { is_sold: true, ..offered.clone() };
    assert_eq!(create(sold).unwrap_err(), PROPERTY_OBJECT_NOT_AVAILABLE);
    let unavailable = PropertyObject { status: ObjectStatus::Unavailable, ..offered.object.clone() };
    let unavailable = OfferedObject { object: unavailable, ..offered.clone() };
    assert_eq!(create(unavailable).unwrap_err(), PROPERTY_OBJECT_NOT_AVAILABLE);
    let free = PropertyObject { price: 0, ..offered.object.clone() };
    assert!(create(OfferedObject { object: free, ..offered }).unwrap().is_none());
}
