use std::time::Duration;

use auth::{CompanyId, UserId};
use proptest::prelude::*;
use proptest::sample::select;
use time::OffsetDateTime;
use uuid::Uuid;
use values::Text;

use super::{Action, MediaCommand};
use crate::domain::conference::{
    Conference, ConferenceStatus, DealChatIds, EndReason, Media, Timing, select_invitees,
};
use crate::domain::knock::{Knock, KnockState};
use crate::domain::limits::MAX_SEATS;
use crate::domain::participant::{ConnectedParticipant, ParticipantEntry, ParticipantState};
use crate::domain::{ChatId, DealId};
use crate::error::{
    ADMISSION_DENIED, ADMISSION_REQUIRED, CONFERENCE_ENDED, CONFERENCE_FULL, FORBIDDEN,
    PARTICIPANT_NOT_FOUND, PARTICIPANT_REMOVED,
};

const TIMING: Timing = Timing {
    ring_timeout: Duration::from_mins(1),
    empty_timeout: Duration::from_secs(30),
    max_duration: Duration::from_hours(4),
};

/// Number of users in generated steps, which exceeds the seats. User 0 is the host.
const USERS: u128 = 26;

fn user(number: u128) -> UserId {
    Uuid::from_u128(number).into()
}

fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(seconds)
}

/// A conference of user 0, who invited the users 1 to `invited`.
fn ringing(invited: u128) -> Conference {
    ringing_with(invited, false)
}

fn ringing_with(invited: u128, has_lobby: bool) -> Conference {
    let chat = DealChatIds {
        chat_id: ChatId::generate(),
        deal_id: DealId::generate(),
        tenant_id: CompanyId::generate(),
    };
    let invited: Vec<_> = (1..=invited).map(user).collect();
    Conference::start(chat, Media::Audio, user(0), &invited, has_lobby, at(0))
}

fn apply(conference: &Conference, action: Action<'_>, now: i64) -> Conference {
    conference.decide(action, at(now)).unwrap().conference
}

/// A conference of the users 0 and 1, Active since second 10.
fn active() -> Conference {
    apply(&ringing(1), Action::Join(user(1)), 10)
}

fn state(conference: &Conference, number: u128) -> ParticipantState {
    conference.entry(user(number)).unwrap().participant.state
}

/// An action without the values that depend on the time.
#[derive(Clone, Debug)]
enum Step {
    Invite(u128, Vec<u128>),
    Join(u128),
    Leave(u128),
    Decline(u128),
    Remove(u128),
    End(u128),
    Knock(u128),
    Admit(u128),
    Deny(u128),
    HandOver(u128),
    LeaveChat(u128),
    Connect(u128, u8),
    Disconnect(u128, u8),
    FinishRoom,
    Reconcile(Vec<u128>),
    Expire,
}

fn steps() -> impl Strategy<Value = Vec<(Step, i64)>> {
    let one = || 0..USERS;
    let many =
        || prop::collection::hash_set(one(), 1..=20).prop_map(|users| users.into_iter().collect::<Vec<_>>());
    let step = prop_oneof![
        4 => (one(), many()).prop_map(|(by, users)| Step::Invite(by, users)),
        8 => one().prop_map(Step::Join),
        3 => one().prop_map(Step::Leave),
        3 => one().prop_map(Step::Decline),
        2 => (1..USERS).prop_map(Step::Remove),
        1 => one().prop_map(Step::End),
        4 => one().prop_map(Step::Knock),
        3 => one().prop_map(Step::Admit),
        1 => one().prop_map(Step::Deny),
        1 => one().prop_map(Step::HandOver),
        1 => (1..USERS).prop_map(Step::LeaveChat),
        3 => (one(), 0..4_u8).prop_map(|(number, sid)| Step::Connect(number, sid)),
        3 => (one(), 0..4_u8).prop_map(|(number, sid)| Step::Disconnect(number, sid)),
        1 => Just(Step::FinishRoom),
        1 => many().prop_map(Step::Reconcile),
        2 => Just(Step::Expire),
    ];
    // Pauses in seconds. 61 s exceed the ringing time, and two of 20 s exceed the empty time.
    prop::collection::vec((step, select(vec![0, 1, 5, 20, 61])), 1..40)
}

/// Returns the conference after the step, or `None` if the step was refused.
fn apply_step(conference: &Conference, step: &Step, now: OffsetDateTime) -> Option<Conference> {
    let members: Vec<_> = (0..USERS).map(user).collect();
    let sid = |number: u8| Some(Text::parse(format!("PA_{number}")).unwrap());
    let users: Vec<_>;
    let present: Vec<_>;
    let action = match step {
        Step::Invite(by, others) => {
            users = others.iter().filter(|other| *other != by).map(|other| user(*other)).collect();
            Action::Invite { by: user(*by), users: &users, members: &members }
        }
        Step::Join(number) => Action::Join(user(*number)),
        Step::Leave(number) => Action::Leave(user(*number)),
        Step::Decline(number) => Action::Decline(user(*number)),
        Step::Remove(number) => Action::Remove(user(*number)),
        Step::End(number) => Action::End(user(*number)),
        Step::Knock(number) => Action::Knock(user(*number)),
        Step::Admit(number) => Action::Admit { user: user(*number), by: user(0) },
        Step::Deny(number) => Action::Deny { user: user(*number), by: user(0) },
        Step::HandOver(number) => Action::HandOver { from: user(0), to: user(*number) },
        Step::LeaveChat(number) => Action::LeaveChat { user: user(*number), by: None },
        Step::Connect(number, connection) => {
            Action::Connect { user: user(*number), sid: sid(*connection), at: now }
        }
        Step::Disconnect(number, connection) => {
            Action::Disconnect { user: user(*number), sid: sid(*connection), at: now }
        }
        Step::FinishRoom => Action::FinishRoom { at: now },
        Step::Reconcile(numbers) => {
            let connected = |number: &u128| ConnectedParticipant { user_id: user(*number), sid: None };
            present = numbers.iter().map(connected).collect();
            Action::Reconcile { present: &present, at: now }
        }
        Step::Expire => Action::Expire(&TIMING),
    };
    let decision = conference.decide(action, now).ok()?;
    assert_eq!(
        decision.is_end(conference),
        decision.media_commands.contains(&MediaCommand::DeleteRoom) && conference.is_live(),
        "the room of an ended conference is deleted"
    );
    for user in &decision.invited {
        assert!(decision.conference.entry(*user).unwrap().is(ParticipantState::Invited));
    }
    Some(decision.conference)
}

/// Asserts INV-CNF-2 to INV-CNF-4, and the transitions of conferences and participants in the
/// specification.
fn assert_invariants(before: &Conference, after: &Conference) {
    let entries = &after.participants.0;
    assert_eq!(entries.iter().filter(|entry| entry.is_host()).count(), 1);
    assert!(entries.iter().filter(|entry| entry.is_seated()).count() <= MAX_SEATS as usize);
    let host = entries.first().unwrap();
    assert!(host.is_host());
    assert!(matches!(host.participant.state, ParticipantState::Joined | ParticipantState::Left));
    let keys =
        entries.iter().skip(1).map(|entry| entry.participant.invited_at.or(entry.participant.joined_at));
    assert!(keys.is_sorted(), "{entries:?}");
    for entry in entries {
        assert!(!entry.is(ParticipantState::Joined) || entry.participant.left_at.is_none());
        assert!(!entry.is(ParticipantState::Missed) || after.active_at.is_some() || !after.is_live());
    }
    for ParticipantEntry { participant: was, .. } in &before.participants.0 {
        let is = &after.entry(was.user_id).expect("every entry stays").participant;
        assert!(was.joined_at.is_none() || was.joined_at == is.joined_at, "the first join stays");
        assert!(is.invited_at >= was.invited_at);
        let has_returned = was.state == ParticipantState::Removed && is.state != was.state;
        assert!(!has_returned || is.state == ParticipantState::Invited, "{was:?} {is:?}");
    }
    assert_lobby(before, after);
    for (was, is) in [(before.active_at, after.active_at), (before.ended_at, after.ended_at)] {
        assert!(was.is_none() || was == is, "a time is set once");
    }
    if !after.is_live() {
        assert!(!entries.iter().any(ParticipantEntry::is_seated));
        assert!(after.end_reason.is_some() && after.ended_at.is_some());
    }
    if !before.is_live() {
        assert_eq!(
            (after.status, after.end_reason, after.version),
            (before.status, before.end_reason, before.version)
        );
    }
    if after.status == ConferenceStatus::Ringing {
        assert!(entries.iter().any(|entry| entry.is(ParticipantState::Invited)), "a user may answer");
    }
    let has_joined = entries.iter().any(|entry| entry.is(ParticipantState::Joined));
    assert_eq!(after.empty_since.is_some(), after.status == ConferenceStatus::Active && !has_joined);
    assert_eq!(after.deadline(&TIMING).is_some(), after.is_live());
    let is_same = serde_json::to_value(before).unwrap() == serde_json::to_value(after).unwrap();
    assert_eq!(after.version, before.version + i64::from(!is_same), "only a change raises the version");
}

/// Asserts that only an invitation or an admission leads into a conference with a lobby.
fn assert_lobby(before: &Conference, after: &Conference) {
    let knocks = &after.knocks.0;
    assert!(after.has_lobby || knocks.is_empty());
    for (at, Knock { user_id, state, .. }) in knocks.iter().enumerate() {
        assert!(after.entry(*user_id).is_none(), "a participant does not knock");
        assert!(knocks[..at].iter().all(|other| other.user_id != *user_id), "each user knocks once");
        assert!(after.is_live() || *state == KnockState::Denied, "no user waits after the end");
        assert!(!before.is_denied(*user_id) || *state == KnockState::Denied);
    }
    let is_new = |entry: &&ParticipantEntry| before.entry(entry.participant.user_id).is_none();
    for entry in after.participants.0.iter().filter(is_new) {
        assert!(!after.has_lobby || entry.is(ParticipantState::Invited), "{entry:?}");
    }
}

proptest! {
    /// INV-CNF-2, INV-CNF-3, INV-CNF-4, INV-CNF-5: every sequence of actions keeps the invariants.
    #[test]
    fn conference_keeps_its_invariants_after_any_actions(
        invited in 1..=20_u128, has_lobby: bool, steps in steps()
    ) {
        let mut conference = ringing_with(invited, has_lobby);
        let mut now = at(0);
        for (step, pause) in &steps {
            now += time::Duration::seconds(*pause);
            if let Some(after) = apply_step(&conference, step, now) {
                assert_invariants(&conference, &after);
                conference = after;
            }
        }
    }

    /// RULE-MSG-043: a timer changes nothing before its deadline, and raises the version once after
    /// it.
    #[test]
    fn deadline_changes_the_conference_only_after_it_passed(invited in 1..=20_u128, steps in steps()) {
        let mut conference = ringing(invited);
        let mut now = at(0);
        for (step, pause) in &steps {
            now += time::Duration::seconds(*pause);
            conference = apply_step(&conference, step, now).unwrap_or(conference);
            while let Some(due) = conference.deadline(&TIMING) {
                let just_before = due - Duration::from_micros(1);
                if due > now {
                    break;
                }
                let early = conference.decide(Action::Expire(&TIMING), just_before).unwrap().conference;
                prop_assert_eq!(early.version, conference.version);
                let late = conference.decide(Action::Expire(&TIMING), now).unwrap().conference;
                prop_assert_eq!(late.version, conference.version + 1);
                conference = late;
            }
        }
    }
}

/// RULE-MSG-039, RULE-MSG-040: each transition to Ended has its reason.
#[test]
fn each_transition_to_ended_has_its_reason() {
    use EndReason::{AllDeclined, AllLeft, EndedByHost, MaxDuration, NoAnswer};
    let expire = || Action::Expire(&TIMING);
    let empty = apply(&apply(&active(), Action::Leave(user(0)), 20), Action::Leave(user(1)), 20);
    let broken = apply(&ringing(2), Action::Disconnect { user: user(0), sid: None, at: at(3) }, 3);
    assert_eq!(apply(&broken, Action::Join(user(1)), 5).status, ConferenceStatus::Active);
    assert_eq!(empty.deadline(&TIMING), Some(at(50)));
    // User 9 is a moderator, and user 8 is a supervisor.
    for (from, action, now, reason, by) in [
        (ringing(2), expire(), 60, NoAnswer, None),
        (ringing(1), Action::Decline(user(1)), 5, AllDeclined, None),
        (ringing(1), Action::Remove(user(1)), 5, AllDeclined, None),
        (ringing(1), Action::LeaveChat { user: user(1), by: None }, 5, AllDeclined, None),
        (ringing(2), Action::End(user(9)), 5, EndedByHost, Some(user(9))),
        (ringing(2), Action::Leave(user(0)), 5, EndedByHost, Some(user(0))),
        (broken, Action::Leave(user(0)), 5, EndedByHost, Some(user(0))),
        (ringing(2), Action::LeaveChat { user: user(0), by: Some(user(8)) }, 5, EndedByHost, Some(user(8))),
        (active(), Action::End(user(0)), 15, EndedByHost, Some(user(0))),
        (active(), expire(), 10 + 4 * 3600, MaxDuration, None),
        (empty, expire(), 50, AllLeft, None),
    ] {
        let ended = apply(&from, action, now);
        assert_eq!((ended.end_reason, ended.ended_by_user_id), (Some(reason), by), "{reason}");
        assert_eq!(ended.ended_at, Some(at(now)));
    }
    for (from, action, now) in [
        (ringing(2), expire(), 59),
        (ringing(2), Action::Decline(user(1)), 5),
        (active(), expire(), 9 + 4 * 3600),
        (active(), Action::Leave(user(0)), 20),
    ] {
        assert!(apply(&from, action, now).is_live());
    }
}

/// RULE-MSG-041: in an Active conference an invitation is missed after its own 60 s.
#[test]
fn invitation_is_missed_after_its_own_minute() {
    let members = [user(0), user(1), user(2)];
    let users = [user(2)];
    let invited = apply(&active(), Action::Invite { by: user(1), users: &users, members: &members }, 100);
    assert_eq!(invited.deadline(&TIMING), Some(at(160)));
    assert_eq!(state(&apply(&invited, Action::Expire(&TIMING), 159), 2), ParticipantState::Invited);
    let missed = apply(&invited, Action::Expire(&TIMING), 160);
    assert_eq!((state(&missed, 2), missed.is_live()), (ParticipantState::Missed, true));
}

/// RULE-MSG-031: a participant who left can be invited again. `JoinedAt` is still the first join,
/// and `LeftAt` is the last leave until the next join.
#[test]
fn participant_who_left_can_be_invited_again() {
    let members = [user(0), user(1)];
    let users = [user(1)];
    let left = apply(&active(), Action::Leave(user(1)), 20);
    let invited = apply(&left, Action::Invite { by: user(0), users: &users, members: &members }, 30);
    let participant = &invited.entry(user(1)).unwrap().participant;
    assert_eq!((participant.state, participant.invited_at), (ParticipantState::Invited, Some(at(30))));
    assert_eq!((participant.joined_at, participant.left_at), (Some(at(10)), Some(at(20))));
    let joined = apply(&invited, Action::Join(user(1)), 40);
    let participant = &joined.entry(user(1)).unwrap().participant;
    assert_eq!((participant.joined_at, participant.left_at), (Some(at(10)), None));
}

/// RULE-MSG-053, RULE-MSG-067: the comparison removes a former member who connected with an old
/// media token.
#[test]
fn comparison_removes_a_former_member() {
    let left = apply(&active(), Action::LeaveChat { user: user(1), by: None }, 20);
    let present = [0, 1].map(|number| ConnectedParticipant { user_id: user(number), sid: None });
    let decision = left.decide(Action::Reconcile { present: &present, at: at(40) }, at(40)).unwrap();
    assert_eq!(decision.media_commands, [MediaCommand::RemoveParticipant(user(1))]);
    assert_eq!(decision.conference.version, left.version);
}

/// RULE-MSG-056: webhooks about a replaced or an ended connection have no effect.
#[test]
fn connections_are_distinguished_by_their_ids() {
    let sid = |name: &str| Some(Text::parse(name).unwrap());
    let connect = |name, now| Action::Connect { user: user(1), sid: sid(name), at: at(now) };
    let disconnect = |name, now| Action::Disconnect { user: user(1), sid: sid(name), at: at(now) };
    let first = apply(&ringing(1), connect("PA_1", 10), 10);
    assert_eq!(first.status, ConferenceStatus::Active);
    let second = apply(&first, connect("PA_2", 20), 20);
    assert_eq!(second.version, first.version);
    let replaced = apply(&second, disconnect("PA_1", 21), 21);
    assert_eq!(state(&replaced, 1), ParticipantState::Joined);
    let left = apply(&replaced, disconnect("PA_2", 30), 31);
    assert_eq!(left.entry(user(1)).unwrap().participant.left_at, Some(at(30)));
    assert_eq!(state(&apply(&left, connect("PA_2", 29), 32), 1), ParticipantState::Left);
    // LiveKit counts in seconds, so the start may have the time of the end.
    assert_eq!(state(&apply(&left, connect("PA_2", 30), 32), 1), ParticipantState::Left);
    assert_eq!(state(&apply(&left, connect("PA_3", 33), 33), 1), ParticipantState::Joined);
    let returned = apply(&left, Action::Join(user(1)), 35);
    let late = apply(&returned, disconnect("PA_1", 36), 36);
    assert_eq!(state(&late, 1), ParticipantState::Joined, "the end of a replaced connection");
    // The webhook of the older connection arrives last.
    let late = apply(&apply(&ringing(1), connect("PA_2", 20), 21), connect("PA_1", 10), 22);
    let replaced = apply(&late, disconnect("PA_1", 20), 23);
    assert_eq!(state(&replaced, 1), ParticipantState::Joined);
    assert_eq!(state(&apply(&replaced, disconnect("PA_2", 30), 31), 1), ParticipantState::Left);
}

/// RULE-MSG-086, RULE-MSG-089: only members with an entry invite others, and only the host
/// invites a denied user.
#[test]
fn uninvited_or_denied_user_cannot_join_or_invite() {
    let members: Vec<_> = (0..5).map(user).collect();
    let conference = apply(&ringing_with(1, true), Action::Join(user(1)), 10);
    let invite = |conference: &Conference, by, whom: u128| {
        let users = [user(whom)];
        let action = Action::Invite { by: user(by), users: &users, members: &members };
        conference.decide(action, at(20)).map(|decision| decision.conference)
    };
    assert_eq!(conference.decide(Action::Join(user(2)), at(20)).unwrap_err(), ADMISSION_REQUIRED);
    assert_eq!(invite(&conference, 2, 3).unwrap_err(), ADMISSION_REQUIRED);
    let waiting = apply(&conference, Action::Knock(user(2)), 20);
    assert_eq!(invite(&waiting, 2, 3).unwrap_err(), ADMISSION_REQUIRED, "a knock is no admission");
    let invited = invite(&waiting, 1, 2).unwrap();
    assert_eq!((state(&invited, 2), &invited.knocks.0[..]), (ParticipantState::Invited, &[][..]));

    let denied = apply(&waiting, Action::Deny { user: user(2), by: user(0) }, 30);
    for action in [Action::Knock(user(2)), Action::Join(user(2))] {
        assert_eq!(denied.decide(action, at(40)).unwrap_err(), ADMISSION_DENIED);
    }
    assert_eq!(invite(&denied, 2, 3).unwrap_err(), ADMISSION_DENIED);
    assert_eq!(invite(&denied, 1, 2).unwrap_err(), ADMISSION_DENIED);
    let admit = Action::Admit { user: user(2), by: user(0) };
    assert_eq!(denied.decide(admit, at(40)).unwrap_err(), PARTICIPANT_NOT_FOUND);
    let forgiven = invite(&denied, 0, 2).unwrap();
    assert_eq!(state(&apply(&forgiven, Action::Join(user(2)), 50), 2), ParticipantState::Joined);
}

/// RULE-MSG-092: the new host has the rights of the host, and the former one is a member.
#[test]
fn hand_over_moves_the_rights_of_the_host() {
    let hand_over = |to| Action::HandOver { from: user(0), to: user(to) };
    assert_eq!(active().decide(hand_over(2), at(20)).unwrap_err(), PARTICIPANT_NOT_FOUND);
    assert_eq!(ringing(1).decide(hand_over(1), at(5)).unwrap_err(), PARTICIPANT_NOT_FOUND);
    let handed = apply(&active(), hand_over(1), 20);
    assert_eq!(handed.version, active().version + 1);
    assert!(handed.is_host(user(1)) && !handed.is_host(user(0)));
    assert_eq!(handed.started_by_user_id, user(0));
    assert_eq!(handed.attendees(), [user(1), user(0)], "the host is first");
    assert_eq!(handed.decide(Action::Remove(user(1)), at(30)).unwrap_err(), FORBIDDEN);
    let removed = apply(&handed, Action::Remove(user(0)), 30);
    assert_eq!(state(&removed, 0), ParticipantState::Removed);
    let left = apply(&handed, Action::LeaveChat { user: user(0), by: None }, 30);
    assert!(left.is_live(), "a former host who leaves the chat ends nothing");
    let ended = apply(&handed, Action::LeaveChat { user: user(1), by: None }, 30);
    assert_eq!(ended.end_reason, Some(EndReason::EndedByHost));
    assert_eq!(ended.decide(hand_over(1), at(40)).unwrap_err(), CONFERENCE_ENDED);
}

/// RULE-MSG-090: a conference that is empty, or that all invited users have declined, ends although
/// another user waits.
#[test]
fn waiting_user_does_not_keep_a_conference_live() {
    let ringing = apply(&ringing_with(1, true), Action::Knock(user(2)), 5);
    assert_eq!(ringing.deadline(&TIMING), Some(at(60)));
    let declined = apply(&ringing, Action::Decline(user(1)), 10);
    assert_eq!((declined.end_reason, &declined.knocks.0[..]), (Some(EndReason::AllDeclined), &[][..]));
    let active = apply(&ringing, Action::Join(user(1)), 10);
    let empty = apply(&apply(&active, Action::Leave(user(0)), 20), Action::Leave(user(1)), 20);
    assert_eq!(empty.knock_state(user(2)), Some(KnockState::Waiting));
    let ended = apply(&empty, Action::Expire(&TIMING), 50);
    assert_eq!((ended.end_reason, &ended.knocks.0[..]), (Some(EndReason::AllLeft), &[][..]));
}

/// INV-CNF-2: a conference has 21 seats. An invitation, a join or an admission needs a free one.
#[test]
fn full_conference_refuses_every_way_to_a_seat() {
    let members: Vec<_> = (0..USERS).map(user).collect();
    let full = apply(&ringing_with(20, true), Action::Join(user(1)), 5);
    let waiting = apply(&full, Action::Knock(user(21)), 6);
    let refused = |conference: &Conference, action: Action<'_>| {
        assert_eq!(conference.decide(action, at(10)).unwrap_err(), CONFERENCE_FULL);
    };
    let users = [user(22)];
    refused(&full, Action::Invite { by: user(0), users: &users, members: &members });
    refused(&waiting, Action::Admit { user: user(21), by: user(0) });
    let open = apply(&ringing(20), Action::Join(user(1)), 5);
    refused(&open, Action::Join(user(21)));
    let declined = apply(&waiting, Action::Decline(user(2)), 7);
    refused(&apply(&declined, Action::Join(user(2)), 8), Action::Admit { user: user(21), by: user(0) });
    let admitted = apply(&declined, Action::Admit { user: user(21), by: user(0) }, 8);
    assert_eq!(state(&admitted, 21), ParticipantState::Invited);
    assert_eq!(admitted.taken_seats(), 21);
    let invited = apply(&declined, Action::Invite { by: user(0), users: &users, members: &members }, 8);
    assert_eq!((state(&invited, 22), invited.taken_seats()), (ParticipantState::Invited, 21));
}

/// RULE-MSG-085: a participant whose connection broke needs a free seat for the room.
#[test]
fn media_access_needs_a_live_conference_and_a_seat() {
    let active = active();
    assert_eq!(active.require_media_access(user(1)), Ok(()));
    assert_eq!(active.require_media_access(user(5)), Err(PARTICIPANT_NOT_FOUND));
    let left = apply(&active, Action::Leave(user(1)), 20);
    assert_eq!(left.require_media_access(user(1)), Err(PARTICIPANT_NOT_FOUND));
    let removed = apply(&active, Action::Remove(user(1)), 20);
    assert_eq!(removed.require_media_access(user(1)), Err(PARTICIPANT_REMOVED));
    let ended = apply(&active, Action::End(user(0)), 20);
    assert_eq!(ended.require_media_access(user(1)), Err(CONFERENCE_ENDED));
    let broken = apply(&active, Action::Disconnect { user: user(1), sid: None, at: at(20) }, 20);
    assert_eq!(broken.require_media_access(user(1)), Ok(()));
    let members: Vec<_> = (0..USERS).map(user).collect();
    let users: Vec<_> = (2..=20).map(user).collect();
    let nearly_full = apply(&broken, Action::Invite { by: user(0), users: &users, members: &members }, 21);
    assert_eq!((nearly_full.taken_seats(), nearly_full.require_media_access(user(1))), (20, Ok(())));
    let full = apply(&nearly_full, Action::Join(user(21)), 22);
    assert_eq!(full.require_media_access(user(1)), Err(CONFERENCE_FULL));
    let connect = Action::Connect { user: user(1), sid: None, at: at(23) };
    let commands = full.decide(connect.clone(), at(23)).unwrap().media_commands;
    assert_eq!(commands, [MediaCommand::RemoveParticipant(user(1))]);
    assert_eq!(state(&apply(&nearly_full, connect, 23), 1), ParticipantState::Joined);
}

/// RULE-MSG-029: the invited users are members, and by default the first members beside the host.
#[test]
fn invitees_are_requested_members_or_the_first_ones() {
    let members: Vec<_> = (0..=30).map(user).collect();
    let first: Vec<_> = (1..=20).map(user).collect();
    assert_eq!(select_invitees(user(0), None, &members), Ok(first));
    assert_eq!(select_invitees(user(0), Some(&[user(7)]), &members), Ok(vec![user(7)]));
    for (requested, members) in
        [(Some(&[user(1), user(40)][..]), &members[..]), (Some(&[][..]), &members), (None, &members[..1])]
    {
        assert_eq!(select_invitees(user(0), requested, members), Err(PARTICIPANT_NOT_FOUND));
    }
}

#[test]
fn duration_counts_the_active_seconds() {
    let ended = apply(&active(), Action::End(user(0)), 25);
    assert_eq!((ended.duration_seconds(), active().duration_seconds()), (15, 0));
    let unanswered = apply(&ringing(1), Action::End(user(0)), 25);
    assert_eq!(unanswered.duration_seconds(), 0);
    let (live, repeated) = (active(), apply(&ended, Action::End(user(0)), 30));
    assert!(!ended.decide(Action::End(user(0)), at(30)).unwrap().is_end(&ended));
    assert!(live.decide(Action::End(user(0)), at(30)).unwrap().is_end(&live));
    assert_eq!(repeated, ended);
}

/// RULE-MSG-053: the comparison skips participants who joined or left in the last 10 s.
#[test]
fn comparison_skips_recent_joins_and_leaves() {
    let reconcile = |conference: &Conference, numbers: &[u128], now| {
        let connected = |number: &u128| ConnectedParticipant { user_id: user(*number), sid: None };
        let present: Vec<_> = numbers.iter().map(connected).collect();
        conference.decide(Action::Reconcile { present: &present, at: at(now) }, at(now)).unwrap()
    };
    // User 1 joined in second 10.
    assert_eq!(state(&reconcile(&active(), &[0], 20).conference, 1), ParticipantState::Joined);
    let absent = reconcile(&active(), &[0], 21).conference;
    assert_eq!((state(&absent, 1), state(&absent, 0)), (ParticipantState::Left, ParticipantState::Joined));
    let left = apply(&active(), Action::Leave(user(1)), 30);
    assert_eq!(state(&reconcile(&left, &[0, 1], 40).conference, 1), ParticipantState::Left);
    assert_eq!(state(&reconcile(&left, &[0, 1], 41).conference, 1), ParticipantState::Joined);
    let unknown = reconcile(&active(), &[0, 1, 9], 40).media_commands;
    assert_eq!(unknown, [MediaCommand::RemoveParticipant(user(9))]);
    let ended = apply(&active(), Action::End(user(0)), 20);
    assert!(reconcile(&ended, &[0, 1], 40).media_commands.is_empty());
}

/// RULE-MSG-056, RULE-MSG-057: an event that is older than the newest known one changes no state.
#[test]
fn overtaken_event_changes_no_state() {
    let connect = |now| Action::Connect { user: user(1), sid: None, at: at(now) };
    let disconnect = |now| Action::Disconnect { user: user(1), sid: None, at: at(now) };
    let finished = apply(&active(), Action::FinishRoom { at: at(30) }, 30);
    assert_eq!(state(&finished, 1), ParticipantState::Left);
    assert_eq!(state(&apply(&finished, connect(29), 31), 1), ParticipantState::Left);
    assert_eq!(state(&apply(&finished, connect(30), 31), 1), ParticipantState::Joined);
    // LiveKit gets the command again that removes a Removed participant, or that deletes the room
    // of an Ended conference.
    let left = apply(&active(), disconnect(30), 30);
    let removed = apply(&left, Action::Remove(user(1)), 31);
    let commands = removed.decide(connect(29), at(32)).unwrap().media_commands;
    assert_eq!(commands, [MediaCommand::RemoveParticipant(user(1))]);
    let ended = apply(&left, Action::End(user(0)), 31);
    assert_eq!(ended.decide(connect(29), at(32)).unwrap().media_commands, [MediaCommand::DeleteRoom]);
    // The room ended in the second of the join, and not later.
    let early = apply(&active(), Action::FinishRoom { at: at(10) }, 30);
    assert_eq!(state(&early, 1), ParticipantState::Joined);
    let connected = apply(&active(), connect(40), 40);
    assert_eq!(state(&apply(&connected, disconnect(39), 41), 1), ParticipantState::Joined);
    assert_eq!(state(&apply(&connected, disconnect(40), 41), 1), ParticipantState::Left);
}

/// RULE-MSG-088: only a waiting user is admitted or denied. The host's decision about a knock
/// changes no other knock.
#[test]
fn decision_changes_only_the_knock_of_its_user() {
    let lobby = apply(&ringing_with(1, true), Action::Join(user(1)), 5);
    let both = apply(&apply(&lobby, Action::Knock(user(2)), 10), Action::Knock(user(3)), 11);
    let deny = |number| Action::Deny { user: user(number), by: user(0) };
    let admit = |number| Action::Admit { user: user(number), by: user(0) };
    for number in [4, 5] {
        assert_eq!(both.decide(deny(number), at(20)).unwrap_err(), PARTICIPANT_NOT_FOUND);
        assert_eq!(both.decide(admit(number), at(20)).unwrap_err(), PARTICIPANT_NOT_FOUND);
    }
    let denied = apply(&both, deny(3), 20);
    let states = |conference: &Conference| [2, 3].map(|number| conference.knock_state(user(number)));
    assert_eq!(states(&denied), [Some(KnockState::Waiting), Some(KnockState::Denied)]);
    assert_eq!(apply(&denied, deny(3), 21), denied, "a repeat changes nothing");
    assert_eq!(apply(&denied, deny(1), 21), denied, "a participant is not denied");
    assert_eq!(apply(&denied, admit(1), 21), denied, "a participant is admitted already");
    assert_eq!(states(&apply(&both, admit(2), 20)), [None, Some(KnockState::Waiting)]);
    assert_eq!(states(&apply(&both, Action::Leave(user(3)), 20)), [Some(KnockState::Waiting), None]);
    assert_eq!(apply(&both, Action::Knock(user(2)), 20), both, "a repeat changes nothing");
    assert_eq!(apply(&both, Action::Knock(user(1)), 20), both, "a participant does not knock");
    let ended = apply(&denied, Action::End(user(0)), 30);
    assert_eq!(states(&ended), [None, Some(KnockState::Denied)]);
    for action in [deny(2), admit(2), Action::Knock(user(4)), Action::Join(user(1))] {
        assert_eq!(ended.decide(action, at(40)).unwrap_err(), CONFERENCE_ENDED);
    }
}

#[test]
fn repeated_join_is_no_visible_change() {
    let active = active();
    assert_eq!(active.users_in(ParticipantState::Joined), [user(0), user(1)]);
    assert!(!active.decide(Action::Join(user(1)), at(20)).unwrap().is_visible_change(&active));
    assert!(active.decide(Action::Leave(user(1)), at(20)).unwrap().is_visible_change(&active));
}
