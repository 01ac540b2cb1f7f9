use std::time::Duration;

use auth::{CompanyId, UserId};
use proptest::prelude::*;
use proptest::sample::select;
use time::OffsetDateTime;
use uuid::Uuid;
use values::Text;

use super::{Act, Order};
use crate::domain::conference::{Conference, ConferenceStatus, EndReason, Media, Place, SEATS, Timing};
use crate::domain::participant::{Entry, ParticipantState, Present};
use crate::domain::{ChatId, DealId};

const TIMING: Timing =
    Timing { ring: Duration::from_mins(1), empty: Duration::from_secs(30), max: Duration::from_hours(4) };

/// More people than there are seats; the first is the host.
const PEOPLE: u128 = 26;

fn person(number: u128) -> UserId {
    Uuid::from_u128(number).into()
}

fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(seconds)
}

/// Of the first person, who rings so many others.
fn ringing(rung: u128) -> Conference {
    let place =
        Place { chat_id: ChatId::generate(), deal_id: DealId::generate(), tenant_id: CompanyId::generate() };
    let rung: Vec<_> = (1..=rung).map(person).collect();
    Conference::start(place, Media::Audio, person(0), &rung, at(0))
}

fn decided(conference: &Conference, act: Act<'_>, now: i64) -> Conference {
    conference.decide(act, at(now)).unwrap().conference
}

/// Of two, who talk since the tenth second.
fn active() -> Conference {
    decided(&ringing(1), Act::Join(person(1)), 10)
}

fn state(conference: &Conference, number: u128) -> ParticipantState {
    conference.entry(person(number)).unwrap().shown.state
}

/// What happens, without what it needs of the moment.
#[derive(Clone, Debug)]
enum Step {
    Invite(u128, Vec<u128>),
    Join(u128),
    Leave(u128),
    Decline(u128),
    Remove(u128),
    End(u128),
    Depart(u128),
    Connect(u128, u8),
    Disconnect(u128, u8),
    FinishRoom,
    Compare(Vec<u128>),
    Expire,
}

fn steps() -> impl Strategy<Value = Vec<(Step, i64)>> {
    let who = || 0..PEOPLE;
    let many =
        || prop::collection::hash_set(who(), 1..=20).prop_map(|who| who.into_iter().collect::<Vec<_>>());
    let step = prop_oneof![
        4 => (who(), many()).prop_map(|(by, users)| Step::Invite(by, users)),
        8 => who().prop_map(Step::Join),
        3 => who().prop_map(Step::Leave),
        3 => who().prop_map(Step::Decline),
        2 => (1..PEOPLE).prop_map(Step::Remove),
        1 => who().prop_map(Step::End),
        1 => (1..PEOPLE).prop_map(Step::Depart),
        3 => (who(), 0..4_u8).prop_map(|(who, sid)| Step::Connect(who, sid)),
        3 => (who(), 0..4_u8).prop_map(|(who, sid)| Step::Disconnect(who, sid)),
        1 => Just(Step::FinishRoom),
        1 => many().prop_map(Step::Compare),
        2 => Just(Step::Expire),
    ];
    prop::collection::vec((step, select(vec![0, 1, 5, 20, 61])), 1..40)
}

fn take(conference: &Conference, step: &Step, now: OffsetDateTime) -> Option<Conference> {
    let members: Vec<_> = (0..PEOPLE).map(person).collect();
    let sid = |number: u8| Some(Text::parse(format!("PA_{number}")).unwrap());
    let users: Vec<_>;
    let present: Vec<_>;
    let act = match step {
        Step::Invite(by, others) => {
            users = others.iter().filter(|user| *user != by).map(|user| person(*user)).collect();
            Act::Invite { by: person(*by), users: &users, members: &members }
        }
        Step::Join(who) => Act::Join(person(*who)),
        Step::Leave(who) => Act::Leave(person(*who)),
        Step::Decline(who) => Act::Decline(person(*who)),
        Step::Remove(who) => Act::Remove(person(*who)),
        Step::End(who) => Act::End(person(*who)),
        Step::Depart(who) => Act::Depart { user: person(*who), by: None },
        Step::Connect(who, connection) => Act::Connect { user: person(*who), sid: sid(*connection), at: now },
        Step::Disconnect(who, connection) => {
            Act::Disconnect { user: person(*who), sid: sid(*connection), at: now }
        }
        Step::FinishRoom => Act::FinishRoom { at: now },
        Step::Compare(who) => {
            present = who.iter().map(|who| Present { user_id: person(*who), sid: None }).collect();
            Act::Compare { present: &present, at: now }
        }
        Step::Expire => Act::Expire(&TIMING),
    };
    let decision = conference.decide(act, now).ok()?;
    assert_eq!(
        decision.ends(conference),
        decision.orders.contains(&Order::Close) && conference.is_live(),
        "its room is closed when it ends"
    );
    for user in &decision.invited {
        assert!(decision.conference.entry(*user).unwrap().is(ParticipantState::Invited));
    }
    Some(decision.conference)
}

/// INV-CNF-2 to INV-CNF-4, and what both tables of section 4 say of every state.
fn check(before: &Conference, after: &Conference) {
    let entries = &after.participants.0;
    assert_eq!(entries.iter().filter(|entry| entry.is_host()).count(), 1);
    assert!(entries.iter().filter(|entry| entry.is_seated()).count() <= SEATS);
    let host = entries.first().unwrap();
    assert!(host.is_host() && host.shown.user_id == after.started_by_user_id);
    assert!(matches!(host.shown.state, ParticipantState::Joined | ParticipantState::Left));
    let keys = entries.iter().skip(1).map(|entry| entry.shown.invited_at.or(entry.shown.joined_at));
    assert!(keys.is_sorted(), "{entries:?}");
    for entry in entries {
        assert!(!entry.is(ParticipantState::Joined) || entry.shown.left_at.is_none());
        assert!(!entry.is(ParticipantState::Missed) || after.active_at.is_some() || !after.is_live());
    }
    for Entry { shown: was, .. } in &before.participants.0 {
        let is = &after.entry(was.user_id).expect("nobody is forgotten").shown;
        assert!(was.joined_at.is_none() || was.joined_at == is.joined_at, "the first time");
        assert!(is.invited_at >= was.invited_at);
        let returns = was.state == ParticipantState::Removed && is.state != was.state;
        assert!(!returns || is.state == ParticipantState::Invited, "{was:?} {is:?}");
    }
    for (was, is) in [(before.active_at, after.active_at), (before.ended_at, after.ended_at)] {
        assert!(was.is_none() || was == is, "set once");
    }
    if !after.is_live() {
        assert!(!entries.iter().any(Entry::is_seated));
        assert!(after.end_reason.is_some() && after.ended_at.is_some());
    }
    if !before.is_live() {
        assert_eq!(
            (after.status, after.end_reason, after.version),
            (before.status, before.end_reason, before.version)
        );
    }
    if after.status == ConferenceStatus::Ringing {
        assert!(entries.iter().any(|entry| entry.is(ParticipantState::Invited)), "somebody may answer");
    }
    let somebody = entries.iter().any(|entry| entry.is(ParticipantState::Joined));
    assert_eq!(after.empty_since.is_some(), after.status == ConferenceStatus::Active && !somebody);
    assert_eq!(after.deadline(&TIMING).is_some(), after.is_live());
    let is_same = serde_json::to_value(before).unwrap() == serde_json::to_value(after).unwrap();
    assert_eq!(after.version, before.version + i64::from(!is_same), "only a change raises it");
}

proptest! {
    #[test]
    fn whatever_happens_a_conference_is_one_of_those_that_can_be(rung in 1..=20_u128, steps in steps()) {
        let mut conference = ringing(rung);
        let mut now = at(0);
        for (step, pause) in &steps {
            now += time::Duration::seconds(*pause);
            if let Some(after) = take(&conference, step, now) {
                check(&conference, &after);
                conference = after;
            }
        }
    }

    /// Timers fire at their time, and then do something.
    #[test]
    fn a_deadline_that_has_passed_is_followed_by_another_or_none(rung in 1..=20_u128, steps in steps()) {
        let mut conference = ringing(rung);
        let mut now = at(0);
        for (step, pause) in &steps {
            now += time::Duration::seconds(*pause);
            conference = take(&conference, step, now).unwrap_or(conference);
            while let Some(due) = conference.deadline(&TIMING) {
                let just_before = due - Duration::from_micros(1);
                if due > now {
                    break;
                }
                let early = conference.decide(Act::Expire(&TIMING), just_before).unwrap().conference;
                prop_assert_eq!(early.version, conference.version);
                let late = conference.decide(Act::Expire(&TIMING), now).unwrap().conference;
                prop_assert_eq!(late.version, conference.version + 1);
                conference = late;
            }
        }
    }
}

/// Section 4, the table of statuses: each row that leads to Ended, with its reason.
#[test]
fn each_way_to_the_end_has_its_reason() {
    use EndReason::{AllDeclined, AllLeft, EndedByHost, MaxDuration, NoAnswer};
    let expire = || Act::Expire(&TIMING);
    let empty = decided(&decided(&active(), Act::Leave(person(0)), 20), Act::Leave(person(1)), 20);
    let broken = decided(&ringing(2), Act::Disconnect { user: person(0), sid: None, at: at(3) }, 3);
    assert_eq!(decided(&broken, Act::Join(person(1)), 5).status, ConferenceStatus::Active);
    for (from, act, now, reason, by) in [
        (ringing(2), expire(), 60, NoAnswer, None),
        (ringing(1), Act::Decline(person(1)), 5, AllDeclined, None),
        (ringing(1), Act::Remove(person(1)), 5, AllDeclined, None),
        (ringing(1), Act::Depart { user: person(1), by: None }, 5, AllDeclined, None),
        (ringing(2), Act::End(person(9)), 5, EndedByHost, Some(person(9))),
        (ringing(2), Act::Leave(person(0)), 5, EndedByHost, Some(person(0))),
        (broken, Act::Leave(person(0)), 5, EndedByHost, Some(person(0))),
        (ringing(2), Act::Depart { user: person(0), by: Some(person(8)) }, 5, EndedByHost, Some(person(8))),
        (active(), Act::End(person(0)), 15, EndedByHost, Some(person(0))),
        (active(), expire(), 10 + 4 * 3600, MaxDuration, None),
        (empty, expire(), 50, AllLeft, None),
    ] {
        let ended = decided(&from, act, now);
        assert_eq!((ended.end_reason, ended.ended_by_user_id), (Some(reason), by), "{reason}");
        assert_eq!(ended.ended_at, Some(at(now)));
    }
    for (from, act, now) in [
        (ringing(2), expire(), 59),
        (ringing(2), Act::Decline(person(1)), 5),
        (active(), expire(), 9 + 4 * 3600),
        (active(), Act::Leave(person(0)), 20),
    ] {
        assert!(decided(&from, act, now).is_live());
    }
}

/// Section 4: one who is asked in rings for a minute, and a call for a minute as a whole.
#[test]
fn an_invitation_is_missed_when_its_own_minute_is_over() {
    let members = [person(0), person(1), person(2)];
    let rung = [person(2)];
    let invited = decided(&active(), Act::Invite { by: person(1), users: &rung, members: &members }, 100);
    assert_eq!(invited.deadline(&TIMING), Some(at(160)));
    assert_eq!(state(&decided(&invited, Act::Expire(&TIMING), 159), 2), ParticipantState::Invited);
    let missed = decided(&invited, Act::Expire(&TIMING), 160);
    assert_eq!((state(&missed, 2), missed.is_live()), (ParticipantState::Missed, true));
}

/// Section 4: who has left is asked back, and `JoinedAt` stays the first time, `LeftAt` the last until they are there again.
#[test]
fn who_has_left_may_be_asked_back() {
    let members = [person(0), person(1)];
    let rung = [person(1)];
    let left = decided(&active(), Act::Leave(person(1)), 20);
    let asked = decided(&left, Act::Invite { by: person(0), users: &rung, members: &members }, 30);
    let shown = &asked.entry(person(1)).unwrap().shown;
    assert_eq!((shown.state, shown.invited_at), (ParticipantState::Invited, Some(at(30))));
    assert_eq!((shown.joined_at, shown.left_at), (Some(at(10)), Some(at(20))));
    let back = decided(&asked, Act::Join(person(1)), 40);
    let shown = &back.entry(person(1)).unwrap().shown;
    assert_eq!((shown.joined_at, shown.left_at), (Some(at(10)), None));
}

/// Section 5: what is told of a connection that has been replaced, or that has ended, is no news.
#[test]
fn connections_are_told_apart_by_their_ids() {
    let sid = |name: &str| Some(Text::parse(name).unwrap());
    let connect = |name, now| Act::Connect { user: person(1), sid: sid(name), at: at(now) };
    let disconnect = |name, now| Act::Disconnect { user: person(1), sid: sid(name), at: at(now) };
    let first = decided(&ringing(1), connect("PA_1", 10), 10);
    assert_eq!(first.status, ConferenceStatus::Active);
    let second = decided(&first, connect("PA_2", 20), 20);
    assert_eq!(second.version, first.version);
    let replaced = decided(&second, disconnect("PA_1", 21), 21);
    assert_eq!(state(&replaced, 1), ParticipantState::Joined);
    let left = decided(&replaced, disconnect("PA_2", 30), 31);
    assert_eq!(left.entry(person(1)).unwrap().shown.left_at, Some(at(30)));
    assert_eq!(state(&decided(&left, connect("PA_2", 29), 32), 1), ParticipantState::Left);
    assert_eq!(state(&decided(&left, connect("PA_3", 33), 33), 1), ParticipantState::Joined);
    // Told of in another order than that in which they began.
    let late = decided(&decided(&ringing(1), connect("PA_2", 20), 21), connect("PA_1", 10), 22);
    let replaced = decided(&late, disconnect("PA_1", 20), 23);
    assert_eq!(state(&replaced, 1), ParticipantState::Joined);
    assert_eq!(state(&decided(&replaced, disconnect("PA_2", 30), 31), 1), ParticipantState::Left);
}
