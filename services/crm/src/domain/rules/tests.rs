mod operations;

use auth::UserId;
use proptest::prelude::*;
use time::{Duration, OffsetDateTime};
use values::{Private, Prose, Whole};

use super::{Amount, Contract, ContractChange, DealState, Operation, check_status, is_move_allowed};
use crate::domain::{
    Author, Booking, BookingStatus, Change, CompanyStatus, ContractType, Deal, DealEventType, DealId,
    DealStatus, FreeText, NoteAudience, ObjectState, ObjectStatus, PaymentMethod, PropertyObjectId, Role,
    StatusOverride, Step, StepGroup, StepId, StepName,
};

const GROUPS: [StepGroup; 5] = [
    StepGroup::Application,
    StepGroup::Booking,
    StepGroup::Contract,
    StepGroup::Completed,
    StepGroup::Cancelled,
];

/// The kinds of [`operation`] to which the invariants refer.
const MOVE: usize = 0;
const BOOK: usize = 3;
const COMPLETE: usize = 6;
const OVERRIDE: usize = 7;
const EXPIRE: usize = 8;

fn free_text(text: &str) -> FreeText {
    Private::new(Prose::parse(text).unwrap())
}

fn at_hour(hour: i64) -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + Duration::hours(hour)
}

fn contract(is_ready_for_sale: bool) -> Contract {
    Contract {
        contract_type: is_ready_for_sale.then_some(ContractType::Ddu),
        payment_method: is_ready_for_sale.then_some(PaymentMethod::Cash),
        ..Contract::default()
    }
}

fn deal(step: &Step, is_ready_for_sale: bool) -> Deal {
    let status = step.group.status();
    Deal {
        id: DealId::generate(),
        tenant_id: step.tenant_id,
        property_object_id: PropertyObjectId::generate(),
        client_user_id: UserId::generate(),
        agent_user_id: None,
        selection_id: None,
        amount: Amount { amount_minor: Whole::literal::<5>(), currency: values::Currency::RUB },
        status,
        step_id: step.id,
        step_group: step.group,
        step_entered_at: at_hour(1),
        contract: contract(is_ready_for_sale || status == DealStatus::Sale),
        cancelled_at: (status == DealStatus::Cancelled).then_some(at_hour(1)),
        cancel_reason: (status == DealStatus::Cancelled).then(|| free_text("x")),
        completed_at: (status == DealStatus::Completed).then_some(at_hour(1)),
        created_at: at_hour(0),
        created_by_user_id: UserId::generate(),
        updated_at: at_hour(1),
        updated_by_user_id: None,
        row_version: 7,
        stage_change_version: 5,
    }
}

/// Generates a deal in any of ten steps, two of each group. Some of the steps are archived.
fn states() -> impl Strategy<Value = DealState> {
    let object = (any::<bool>(), any::<bool>(), any::<bool>());
    let context = (any::<bool>(), any::<bool>(), any::<Option<bool>>(), object);
    (0_usize..10, any::<[bool; 10]>(), context).prop_map(
        |(at, are_live, (is_ready_for_sale, is_booked, developer, object))| {
            let tenant_id = auth::CompanyId::generate();
            let step = |position: usize| Step {
                id: StepId::generate(),
                tenant_id,
                group: GROUPS[position / 2],
                name: StepName::parse("x").unwrap(),
                sort_order: i16::try_from(position).unwrap(),
                // The default of Application, Contract and Cancelled is their second step. The
                // other groups have no default.
                is_default: position % 4 == 1,
                archived_at: None,
            };
            let all: Vec<_> = (0..10).map(step).collect();
            let deal = deal(&all[at], is_ready_for_sale);
            let is_open = !matches!(deal.status, DealStatus::Cancelled | DealStatus::Completed);
            let booking = (is_open && is_booked).then(|| Booking::new(&deal, at_hour(2)));
            let (is_for_sale, is_booked, is_sold) = object;
            let status = if is_for_sale { ObjectStatus::Available } else { ObjectStatus::Sold };
            let steps = all.into_iter().zip(are_live).filter_map(|(step, is_live)| is_live.then_some(step));
            let developer = developer
                .map(|is_active| if is_active { CompanyStatus::Active } else { CompanyStatus::Suspended });
            let object = Some(ObjectState { status, is_booked, is_sold });
            DealState {
                deal,
                booking,
                steps: steps.collect(),
                developer,
                price: Some(values::Money { amount_minor: 5, currency: values::Currency::RUB }),
                is_agent_active: true,
                object,
            }
        },
    )
}

fn status_override(target: DealStatus, comment: Option<FreeText>) -> StatusOverride {
    StatusOverride { target, comment, audience: NoteAudience::Everyone, booked_until: None }
}

/// Returns an operation of a kind. A move leads to a live step of the state, or to the step of the
/// deal if `choice` is too large.
fn operation(state: &DealState, kind: usize, choice: usize) -> Operation {
    let targets = [DealStatus::Application, DealStatus::Booking, DealStatus::Sale, DealStatus::Cancelled];
    let to = state.steps.get(choice).map_or(state.deal.step_id, |step| step.id);
    match kind {
        MOVE => Operation::MoveStep { to, reason: None },
        1 => Operation::ReplaceContract(ContractChange {
            contract: contract(choice.is_multiple_of(2)),
            amount: None,
            tolerance_percent: 20,
        }),
        2 => Operation::ChangeAgent((choice.is_multiple_of(2)).then(UserId::generate)),
        BOOK => Operation::Book { expires_at: at_hour(5) },
        4 => Operation::Prolong { expires_at: at_hour(2 + i64::from(choice.is_multiple_of(2))) },
        5 => Operation::Cancel { reason: free_text("x") },
        COMPLETE => Operation::Complete { number: Private::new(Prose::parse("7").unwrap()) },
        OVERRIDE => Operation::Override(status_override(targets[choice % 4], Some(free_text("x")))),
        _ => Operation::Expire,
    }
}

/// Checks the invariants that every change keeps.
fn check_invariants(state: &DealState, change: &Change, kind: usize) -> Result<(), TestCaseError> {
    let (before, after) = (&change.before, &change.after);
    prop_assert_eq!(after.row_version, before.row_version + 1, "INV-DEAL-3");
    prop_assert_eq!(after.status, after.step_group.status(), "INV-DEAL-2");
    prop_assert_eq!(after.cancelled_at.is_some(), after.status == DealStatus::Cancelled, "INV-DEAL-4");
    prop_assert_eq!(after.cancel_reason.is_some(), after.status == DealStatus::Cancelled, "INV-DEAL-4");
    prop_assert_eq!(after.completed_at.is_some(), after.status == DealStatus::Completed, "INV-DEAL-4");
    prop_assert!(after.status != DealStatus::Sale || after.contract.is_ready_for_sale(), "INV-DEAL-6");
    prop_assert!(before.status != DealStatus::Completed, "INV-DEAL-9");
    prop_assert!(before.status != DealStatus::Cancelled || kind == OVERRIDE, "INV-DEAL-9");
    if after.status == DealStatus::Completed {
        prop_assert!(before.status == DealStatus::Sale && kind == COMPLETE, "INV-DEAL-7");
    }
    if change.has_changed_step() {
        prop_assert!(
            state.steps.iter().any(|step| step.id == after.step_id),
            "no deal enters an archived step"
        );
        prop_assert_eq!(after.step_entered_at, after.updated_at);
    } else {
        prop_assert_eq!(after.step_entered_at, before.step_entered_at);
    }
    let active = change.booking.as_ref().filter(|booking| booking.status == BookingStatus::Active);
    let is_open = !matches!(after.status, DealStatus::Cancelled | DealStatus::Completed);
    prop_assert!(active.is_none() || is_open, "INV-BKG-1");
    prop_assert!(
        active.is_none_or(|booking| booking.is_expiry_suspended == (after.status == DealStatus::Sale)),
        "INV-BKG-4"
    );
    if change.has_ended_booking() {
        prop_assert!(!is_open || kind == EXPIRE, "INV-BKG-3");
    }
    prop_assert!(
        change.entries.is_sorted_by_key(super::TimelineEntry::kind),
        "rows in the order of their kinds"
    );
    prop_assert!(!change.entries.is_empty());
    let event_types = change.event_types();
    let is_stage_change = change.has_changed_step() || before.agent_user_id != after.agent_user_id;
    let is_stage_first = event_types.first() == Some(&DealEventType::DealStageChanged);
    prop_assert_eq!(is_stage_first, is_stage_change, "stage-changed first");
    Ok(())
}

proptest! {
    /// INV-DEAL-2, INV-DEAL-3, INV-DEAL-4, INV-DEAL-6, INV-DEAL-7, INV-DEAL-9, INV-BKG-1,
    /// INV-BKG-3, INV-BKG-4: each change keeps them. A repeat of the operation on the changed deal
    /// is a no-op.
    #[test]
    fn every_change_keeps_the_invariants(
        state in states(), kind in 0..=EXPIRE, choice in 0_usize..10, by_developer: bool,
    ) {
        let role = if by_developer { Role::DeveloperManager } else { Role::PlatformManager };
        let author = Author { user_id: Some(UserId::generate()), role };
        let requested = operation(&state, kind, choice);
        let Ok(Some(change)) = state.decide(requested.clone(), author, at_hour(3)) else { return Ok(()) };
        check_invariants(&state, &change, kind)?;
        // A repeated booking is refused, since the deal already has one.
        if kind == BOOK { return Ok(()) }
        let booking = change.booking.filter(|booking| booking.status == BookingStatus::Active);
        let again = DealState { deal: change.after, booking, ..state };
        prop_assert!(matches!(again.decide(requested, author, at_hour(4)), Ok(None)));
    }

    /// INV-DEAL-8, INV-BKG-2, RULE-CRM-003: a move leads to an allowed group. It needs a booking to
    /// enter Booking or Contract from another group.
    #[test]
    fn move_follows_the_board_and_needs_a_booking(state in states(), choice in 0_usize..10) {
        let requested = operation(&state, MOVE, choice);
        let author = Author { user_id: Some(UserId::generate()), role: Role::PlatformManager };
        if let Ok(Some(change)) = state.decide(requested, author, at_hour(3)) {
            let (from, to) = (change.before.step_group, change.after.step_group);
            prop_assert!(is_move_allowed(from, to));
            let needs = from != to && matches!(to, StepGroup::Booking | StepGroup::Contract);
            prop_assert!(!needs || state.booking.is_some());
        }
    }
}

/// INV-DEAL-8, RULE-CRM-003: a move stays in its group or enters a neighbour.
#[test]
fn move_leads_to_its_group_or_a_neighbour_only() {
    let board = [StepGroup::Application, StepGroup::Booking, StepGroup::Contract];
    for from in GROUPS {
        for to in GROUPS {
            let position = |group| board.iter().position(|own| *own == group);
            let is_near = position(from).zip(position(to)).is_some_and(|(from, to)| from.abs_diff(to) <= 1);
            assert_eq!(is_move_allowed(from, to), is_near, "{from} to {to}");
        }
    }
}

/// INV-DEAL-9: Completed is final, and only the override leaves Cancelled.
#[test]
fn ended_deal_refuses_operations_as_in_the_table() {
    use super::StatusCheck::{NoOp, Passed, Terminal};
    let number = || Private::new(Prose::parse("7").unwrap());
    let operations = [
        (Operation::ChangeAgent(None), Terminal, Terminal),
        (Operation::Book { expires_at: at_hour(1) }, Terminal, Terminal),
        (Operation::Cancel { reason: free_text("x") }, NoOp, Terminal),
        (Operation::Complete { number: number() }, Terminal, NoOp),
        (Operation::Override(status_override(DealStatus::Cancelled, None)), Passed, Terminal),
    ];
    for (operation, cancelled, completed) in operations {
        assert_eq!(check_status(DealStatus::Cancelled, &operation), cancelled, "{operation:?}");
        assert_eq!(check_status(DealStatus::Completed, &operation), completed, "{operation:?}");
        assert_eq!(check_status(DealStatus::Sale, &operation), Passed);
    }
}
