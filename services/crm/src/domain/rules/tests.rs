use auth::UserId;
use proptest::prelude::*;
use time::{Duration, OffsetDateTime};
use values::{Private, Prose, Whole};

use super::{Amount, Contract, ContractChange, Operation, Situation, gate, leads};
use crate::domain::{
    Author, Booking, BookingStatus, Change, CompanyStatus, ContractType, Deal, DealId, DealStatus,
    ObjectState, ObjectStatus, PaymentMethod, PropertyObjectId, Role, Step, StepGroup, StepId, StepName,
    Told, Words,
};

const GROUPS: [StepGroup; 5] = [
    StepGroup::Application,
    StepGroup::Booking,
    StepGroup::Contract,
    StepGroup::Completed,
    StepGroup::Cancelled,
];

fn words(text: &str) -> Words {
    Private::new(Prose::parse(text).unwrap())
}

fn hours(hours: i64) -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + Duration::hours(hours)
}

fn contract(is_settled: bool) -> Contract {
    Contract {
        contract_type: is_settled.then_some(ContractType::Ddu),
        payment_method: is_settled.then_some(PaymentMethod::Cash),
        ..Contract::default()
    }
}

fn deal(step: &Step, is_settled: bool) -> Deal {
    let status = step.group.status();
    Deal {
        id: DealId::generate(),
        tenant_id: step.tenant_id,
        property_object_id: PropertyObjectId::generate(),
        client_user_id: UserId::generate(),
        agent_user_id: None,
        selection_id: None,
        amount: Amount { amount_minor: Whole::known::<5>(), currency: values::Currency::RUB },
        status,
        step_id: step.id,
        step_group: step.group,
        step_entered_at: hours(1),
        contract: contract(is_settled || status == DealStatus::Sale),
        cancelled_at: (status == DealStatus::Cancelled).then_some(hours(1)),
        cancel_reason: (status == DealStatus::Cancelled).then(|| words("x")),
        completed_at: (status == DealStatus::Completed).then_some(hours(1)),
        created_at: hours(0),
        created_by_user_id: UserId::generate(),
        updated_at: hours(1),
        updated_by_user_id: None,
        row_version: 7,
    }
}

/// Two steps of each group, some of which are archived; a deal in any of them.
fn situations() -> impl Strategy<Value = Situation> {
    let object = (any::<bool>(), any::<bool>(), any::<bool>());
    let around = (any::<bool>(), any::<bool>(), any::<Option<bool>>(), object);
    (0_usize..10, any::<[bool; 10]>(), around).prop_map(
        |(at, are_live, (is_settled, is_booked, developer, object))| {
            let tenant_id = auth::CompanyId::generate();
            let step = |place: usize| Step {
                id: StepId::generate(),
                tenant_id,
                group: GROUPS[place / 2],
                name: StepName::parse("x").unwrap(),
                sort_order: i16::try_from(place).unwrap(),
                is_default: place % 4 == 1,
                archived_at: None,
            };
            let all: Vec<_> = (0..10).map(step).collect();
            let deal = deal(&all[at], is_settled);
            let is_open = !matches!(deal.status, DealStatus::Cancelled | DealStatus::Completed);
            let booking = (is_open && is_booked).then(|| Booking::new(&deal, hours(2)));
            let (is_for_sale, is_booked, is_sold) = object;
            let status = if is_for_sale { ObjectStatus::Available } else { ObjectStatus::Sold };
            let steps = all.into_iter().zip(are_live).filter_map(|(step, is_live)| is_live.then_some(step));
            let developer = developer
                .map(|is_active| if is_active { CompanyStatus::Active } else { CompanyStatus::Suspended });
            let object = Some(ObjectState { status, is_booked, is_sold });
            Situation { deal, booking, steps: steps.collect(), developer, object }
        },
    )
}

/// Any operation; steps are those of the situation, in which it is done.
fn operation(of: &Situation, kind: usize, choice: usize) -> Operation {
    let targets = [DealStatus::Application, DealStatus::Booking, DealStatus::Sale, DealStatus::Cancelled];
    let to = of.steps.get(choice).map_or(of.deal.step_id, |step| step.id);
    match kind {
        0 => Operation::MoveStep { to, reason: None },
        1 => {
            Operation::Contract(ContractChange { contract: contract(choice.is_multiple_of(2)), amount: None })
        }
        2 => Operation::Agent((choice.is_multiple_of(2)).then(UserId::generate)),
        3 => Operation::Book { expires_at: hours(5) },
        4 => Operation::Prolong { expires_at: hours(2 + i64::from(choice.is_multiple_of(2))) },
        5 => Operation::Cancel { reason: words("x") },
        6 => Operation::Complete { number: Private::new(Prose::parse("7").unwrap()) },
        7 => Operation::Override { target: targets[choice % 4], comment: Some(words("x")) },
        _ => Operation::Expire,
    }
}

/// What holds after every change, whatever it was.
fn check(of: &Situation, change: &Change, kind: usize) -> Result<(), TestCaseError> {
    let (before, after) = (&change.before, &change.after);
    prop_assert_eq!(after.row_version, before.row_version + 1, "INV-DEAL-3");
    prop_assert_eq!(after.status, after.step_group.status(), "INV-DEAL-2");
    prop_assert_eq!(after.cancelled_at.is_some(), after.status == DealStatus::Cancelled, "INV-DEAL-4");
    prop_assert_eq!(after.cancel_reason.is_some(), after.status == DealStatus::Cancelled, "INV-DEAL-4");
    prop_assert_eq!(after.completed_at.is_some(), after.status == DealStatus::Completed, "INV-DEAL-4");
    prop_assert!(after.status != DealStatus::Sale || after.contract.is_settled(), "INV-DEAL-6");
    prop_assert!(before.status != DealStatus::Completed, "INV-DEAL-9");
    prop_assert!(before.status != DealStatus::Cancelled || kind == 7, "INV-DEAL-9");
    if after.status == DealStatus::Completed {
        prop_assert!(before.status == DealStatus::Sale && kind == 6, "INV-DEAL-7");
    }
    if change.enters_step() {
        prop_assert!(of.steps.iter().any(|step| step.id == after.step_id), "none enters an archived step");
        prop_assert_eq!(after.step_entered_at, after.updated_at);
    } else {
        prop_assert_eq!(after.step_entered_at, before.step_entered_at);
    }
    let active = change.booking.as_ref().filter(|booking| booking.status == BookingStatus::Active);
    let is_open = !matches!(after.status, DealStatus::Cancelled | DealStatus::Completed);
    prop_assert!(active.is_none() || is_open, "INV-BKG-1");
    prop_assert!(
        active.is_none_or(|booking| booking.is_kept == (after.status == DealStatus::Sale)),
        "INV-BKG-4"
    );
    if change.ends_booking() {
        prop_assert!(!is_open || kind == 8, "INV-BKG-3");
    }
    prop_assert!(change.entries.is_sorted_by_key(super::Entry::kind), "in the order of the table");
    prop_assert!(!change.entries.is_empty());
    let told = change.told();
    let is_staged = change.enters_step() || before.agent_user_id != after.agent_user_id;
    prop_assert_eq!(told.first() == Some(&Told::DealStageChanged), is_staged, "stage-changed first");
    Ok(())
}

proptest! {
    /// INV-DEAL-2, 3, 4, 6, 7, 9, INV-BKG-1, 3, 4: whatever is done to whatever deal keeps them; a repeat with what has come of
    /// it changes nothing.
    #[test]
    fn every_change_keeps_the_invariants(
        of in situations(), kind in 0_usize..9, choice in 0_usize..10, by_developer: bool,
    ) {
        let role = if by_developer { Role::DeveloperManager } else { Role::PlatformManager };
        let by = Author { user_id: Some(UserId::generate()), role };
        let asked = operation(&of, kind, choice);
        let Ok(Some(change)) = of.decide(asked.clone(), by, hours(3)) else { return Ok(()) };
        check(&of, &change, kind)?;
        if matches!(kind, 3 | 8) { return Ok(()) }
        let booking = change.booking.filter(|booking| booking.status == BookingStatus::Active);
        let again = Situation { deal: change.after, booking, ..of };
        prop_assert!(matches!(again.decide(asked, by, hours(4)), Ok(None)));
    }

    /// INV-BKG-2, INV-DEAL-8: a move goes where it leads, and needs the booking to come into Booking or Contract.
    #[test]
    fn a_move_keeps_to_the_board(of in situations(), choice in 0_usize..10) {
        let asked = operation(&of, 0, choice);
        let by = Author { user_id: Some(UserId::generate()), role: Role::PlatformManager };
        if let Ok(Some(change)) = of.decide(asked, by, hours(3)) {
            let (from, to) = (change.before.step_group, change.after.step_group);
            prop_assert!(leads(from, to));
            let needs = from != to && matches!(to, StepGroup::Booking | StepGroup::Contract);
            prop_assert!(!needs || of.booking.is_some());
        }
    }
}

/// Deals: the board is as wide as its three groups, and leads to a neighbour or nowhere.
#[test]
fn a_move_leads_to_a_neighbour() {
    let board = [StepGroup::Application, StepGroup::Booking, StepGroup::Contract];
    for from in GROUPS {
        for to in GROUPS {
            let place = |group| board.iter().position(|own| *own == group);
            let is_near = place(from).zip(place(to)).is_some_and(|(from, to)| from.abs_diff(to) <= 1);
            assert_eq!(leads(from, to), is_near, "{from} to {to}");
        }
    }
}

/// Deals, rows of Cancelled and Completed.
#[test]
fn what_has_ended_meets_the_table() {
    use super::Gate::{NoOp, Open, Terminal};
    let number = || Private::new(Prose::parse("7").unwrap());
    let operations = [
        (Operation::Agent(None), Terminal, Terminal),
        (Operation::Book { expires_at: hours(1) }, Terminal, Terminal),
        (Operation::Cancel { reason: words("x") }, NoOp, Terminal),
        (Operation::Complete { number: number() }, Terminal, NoOp),
        (Operation::Override { target: DealStatus::Cancelled, comment: None }, Open, Terminal),
    ];
    for (operation, cancelled, completed) in operations {
        assert_eq!(gate(DealStatus::Cancelled, &operation), cancelled, "{operation:?}");
        assert_eq!(gate(DealStatus::Completed, &operation), completed, "{operation:?}");
        assert_eq!(gate(DealStatus::Sale, &operation), Open);
    }
}
