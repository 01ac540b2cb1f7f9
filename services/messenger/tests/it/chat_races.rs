//! Concurrent changes of chats.

use std::collections::BTreeSet;

use futures_util::future::{join, join_all};
use serde_json::json;
use testkit::held::HeldLocks;
use testkit::{eventually, guid, text};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::fixture::{ConferenceFixture, participant};
use crate::{
    CHATS, Deal, STAGE_CHANGED, add, as_user, cards, count, each, list, messages, open_chat, path, put,
    remove, role, roles, send_text, service, supervisor, view, view_when,
};

/// INV-MSG-1: one of 20 concurrent openings of a Direct chat returns 201, and the others return
/// 200.
#[tokio::test]
async fn concurrent_openings_make_one_direct_chat() {
    let (Deal { client, manager, .. }, _) = open_chat().await;
    let openings = (0..20).map(|at| {
        let (by, with) = if at % 2 == 0 { (client, manager) } else { (manager, client) };
        let by = as_user(by);
        async move { by.post(CHATS, json!({"UserId": with})).await }
    });
    let responses = join_all(openings).await;
    assert_eq!((count(&responses, 201), count(&responses, 200)), (1, 19), "{responses:?}");
    assert!(responses.iter().all(|response| response.body["Id"] == responses[0].body["Id"]));
}

/// INV-MSG-4: one of 20 sends with the same `ClientMessageId` returns 201, and the others return
/// 200.
#[tokio::test]
async fn concurrent_sends_with_one_client_message_id_send_one_message() {
    let (deal, id) = open_chat().await;
    let client_message_id = guid();
    let me = as_user(deal.client);
    let sends = (0..20).map(|at| {
        let body = json!({"Text": at.to_string(), "ClientMessageId": client_message_id});
        let (me, target) = (&me, path(id, "/messages"));
        async move { me.post(&target, body).await }
    });
    let responses = join_all(sends).await;
    assert_eq!((count(&responses, 201), count(&responses, 200)), (1, 19), "{responses:?}");
    assert!(responses.iter().all(|response| response.body == responses[0].body));
    assert_eq!(messages(id, deal.client).await.len(), 1);
}

/// INV-MSG-2, INV-MSG-5: concurrent sends and reads keep sequences without a gap, rising times and
/// valid markers.
#[tokio::test]
async fn concurrent_sends_leave_no_gap() {
    let (deal, id) = open_chat().await;
    let users = [deal.client, deal.agent(), deal.manager];
    let sends = (0..45).map(|at| async move { send_text(id, users[at % 3], &at.to_string()).await });
    let reads = (0..30).map(|at| async move {
        let reader = as_user(users[at % 3]);
        let marker = reader.put(&path(id, "/read"), json!({"Sequence": at})).await.expect(200);
        assert!(marker["UnreadCount"].as_i64().unwrap() >= 0, "{marker}");
        let chat = view(id, users[at % 3]).await;
        let number = |field: &str| chat[field].as_i64().unwrap();
        assert!(number("ReadSequence") <= number("LastSequence"), "{chat}");
        assert_eq!(number("UnreadCount"), number("LastSequence") - number("ReadSequence"));
        assert_eq!(
            chat["LastMessage"]["Sequence"],
            if number("LastSequence") == 0 { json!(null) } else { chat["LastSequence"].clone() }
        );
    });
    join(join_all(sends), join_all(reads)).await;
    let all = messages(id, deal.client).await;
    assert_eq!(json!(each(&all, "Sequence")), json!((1..=45).collect::<Vec<_>>()));
    let times: Vec<_> =
        each(&all, "CreatedAt").into_iter().map(|at| at.as_str().unwrap().to_owned()).collect();
    let sort_keys: Vec<_> = times.iter().map(|at| sort_key(at)).collect();
    assert!(sort_keys.is_sorted(), "{times:?}");
}

/// Returns a sortable form of a time, because JSON omits trailing zeros of fractions of a second.
fn sort_key(at: &str) -> (String, String) {
    let at = at.trim_end_matches('Z');
    let (seconds, fraction) = at.split_once('.').unwrap_or((at, ""));
    (seconds.to_owned(), format!("{fraction:0<9}"))
}

/// RULE-MSG-014: a removal and a read marker of the same member do not deadlock.
#[tokio::test]
async fn read_marker_and_removal_do_not_deadlock() {
    let (deal, id) = open_chat().await;
    let user = guid();
    add(&deal, id, user).await.expect(204);
    send_text(id, deal.client, "а").await;
    // The removal and the read marker both notify the member with the highest id, whose stream they
    // lock last. While the test holds that lock, the removal holds all its other locks.
    let lock = format!(
        "select from stream where user_id in (select user_id from member where chat_id = '{id}') \
            order by user_id desc limit 1 for update"
    );
    let held = HeldLocks::lock(service(), &lock).await;
    let (reader, target) = (as_user(user), path(id, "/read"));
    let read = reader.put(&target, json!({"Sequence": 2}));
    let (removed, read) = held.queue(HeldLocks::ANY, remove(&deal, id, user), read).await;
    removed.expect(204);
    read.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
}

/// INV-MSG-2: a change that waited for the chat's lock has the time after the wait.
#[tokio::test]
async fn waiting_change_is_dated_after_its_wait() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, _] = fixture.users();
    let id = fixture.ring(None).await;
    let sql = service().sql().await;
    let now = async || {
        let now = sql.query_one("select extract(epoch from clock_timestamp())::float8", &[]).await.unwrap();
        now.get::<_, f64>(0)
    };
    let lock = format!("select from chat where id = '{}' for update", fixture.chat);
    let held = HeldLocks::lock(service(), &lock).await;
    let user = guid();
    let release = async {
        held.wait_for(3, HeldLocks::ANY).await;
        let queued = now().await;
        // The wait has to be longer than the tolerance of the assertion below.
        let waited = async || Some(now().await).filter(|now| *now > queued + 0.1);
        let released = eventually("a wait of 0.1 s", waited).await;
        held.release().await;
        released
    };
    let (joined, (added, (sent, released))) = join(
        fixture.act(agent, id, "join"),
        join(add(&fixture.deal, fixture.chat, user), join(send_text(fixture.chat, client, "а"), release)),
    )
    .await;
    joined.expect(200);
    added.expect(204);
    let conference = fixture.conference(id).await;
    let chat = view(fixture.chat, user).await;
    let member = list(&chat["Members"]).iter().find(|member| member["UserId"] == json!(user)).unwrap();
    for at in [
        &participant(&conference, agent)["JoinedAt"],
        &conference["ActiveAt"],
        &member["JoinedAt"],
        &sent["CreatedAt"],
    ] {
        let at = OffsetDateTime::parse(text(at), &Rfc3339).unwrap();
        assert!((at - OffsetDateTime::UNIX_EPOCH).as_seconds_f64() + 0.001 > released, "{at}");
    }
}

/// INV-MSG-6: one of ten concurrent additions gets the last seat.
#[tokio::test]
async fn last_member_seat_is_given_once() {
    let (deal, id) = open_chat().await;
    for _ in 0..46 {
        add(&deal, id, guid()).await.expect(204);
    }
    let responses = join_all((0..10).map(|_| add(&deal, id, guid()))).await;
    assert_eq!((count(&responses, 204), count(&responses, 409)), (1, 9), "{responses:?}");
    assert_eq!(roles(&view(id, deal.client).await).len(), 50);
}

/// INV-MSG-6: concurrent additions of one user make one entry and one card. Concurrent removals
/// succeed once.
#[tokio::test]
async fn concurrent_additions_and_removals_of_one_user_take_effect_once() {
    let (deal, id) = open_chat().await;
    let user = guid();
    let responses = join_all((0..10).map(|_| add(&deal, id, user))).await;
    assert_eq!(count(&responses, 204), 10);
    assert_eq!(cards(id, user).await.len(), 1);
    let responses = join_all((0..10).map(|_| remove(&deal, id, user))).await;
    assert_eq!((count(&responses, 204), count(&responses, 404)), (1, 9), "{responses:?}");
    assert_eq!(cards(id, deal.client).await.len(), 2);
}

/// RULE-MSG-013: each concurrent message of a removed member precedes the removal or is refused.
#[tokio::test]
async fn removed_member_sends_nothing_after_the_removal() {
    for _ in 0..5 {
        let (deal, id) = open_chat().await;
        let writes = (0..10).map(|at| {
            let writer = as_user(deal.manager);
            async move { writer.post(&path(id, "/messages"), json!({"Text": at.to_string()})).await }
        });
        let (responses, removed) = join(join_all(writes), remove(&deal, id, deal.manager)).await;
        removed.expect(204);
        let all = messages(id, deal.client).await;
        assert_eq!(all.len(), count(&responses, 201) + 1);
        assert_eq!(all.last().unwrap()["Card"]["Type"], "MemberRemoved", "{all:?}");
        assert_eq!(count(&responses, 201) + count(&responses, 404), 10);
    }
}

/// RULE-MSG-014: concurrent changes of two chats with the same members do not deadlock.
#[tokio::test]
async fn chats_with_shared_members_do_not_deadlock() {
    let (first, one) = open_chat().await;
    let second = Deal { id: guid(), agent: Some(first.client), client: first.agent(), ..first };
    second.publish_created().await;
    let two = second.chat().await;
    let last_agent = guid();
    let work = (0..24).map(|at| async move {
        let user = guid();
        match at % 4 {
            0 => drop(send_text(one, first.client, "а").await),
            1 => drop(send_text(two, second.client, "б").await),
            2 => {
                let target = path(one, &format!("/members/{user}"));
                put(&supervisor(first.tenant), &target).await.expect(204);
                supervisor(first.tenant).delete(&target).await.expect(204);
            }
            _ => {
                // The change with the highest version names the last agent, whatever the order.
                let agent = match at {
                    23 => last_agent,
                    _ if at % 8 == 3 => first.manager,
                    _ => user,
                };
                second.publish(STAGE_CHANGED, &second.changed(at + 2, "Sale", "Sale", Some(agent))).await;
            }
        }
    });
    join_all(work).await;
    view_when(two, second.client, "the last agent", |chat| role(chat, last_agent).is_some()).await;
    for (id, reader) in [(one, first.client), (two, second.client)] {
        let all = messages(id, reader).await;
        let distinct: BTreeSet<_> = all.iter().map(|message| message["Sequence"].as_i64()).collect();
        assert_eq!(distinct.len(), all.len());
    }
}
