//! What holds when people meet.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::json;
use testkit::{guid, text};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::sleep;

use crate::calls::{Line, participant};
use crate::{
    CHATS, Deal, STAGE_CHANGED, add, cards, count, each, list, messages, open_chat, path, person, put,
    remove, roles, say, service, supervisor, view, view_when,
};

/// INV-MSG-1, section 7: of twenty openings of a Direct chat from both sides one answers 201 and nineteen 200.
#[tokio::test]
async fn two_have_one_chat_whoever_opens_it() {
    let (Deal { client, manager, .. }, _) = open_chat().await;
    let openings = (0..20).map(|at| {
        let (by, with) = if at % 2 == 0 { (client, manager) } else { (manager, client) };
        let by = person(by);
        async move { by.post(CHATS, json!({"UserId": with})).await }
    });
    let answers = join_all(openings).await;
    assert_eq!((count(&answers, 201), count(&answers, 200)), (1, 19), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.body["Id"] == answers[0].body["Id"]));
}

/// INV-MSG-4, section 7: of twenty sends with one `ClientMessageId` one answers 201 and nineteen 200.
#[tokio::test]
async fn one_client_message_id_sends_one_message() {
    let (deal, id) = open_chat().await;
    let given = guid();
    let me = person(deal.client);
    let sends = (0..20).map(|at| {
        let body = json!({"Text": at.to_string(), "ClientMessageId": given});
        let (me, place) = (&me, path(id, "/messages"));
        async move { me.post(&place, body).await }
    });
    let answers = join_all(sends).await;
    assert_eq!((count(&answers, 201), count(&answers, 200)), (1, 19), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.body == answers[0].body));
    assert_eq!(messages(id, deal.client).await.len(), 1);
}

/// INV-MSG-2, INV-MSG-5: sequences without a gap, times that never fall, markers within, whoever writes and reads.
#[tokio::test]
async fn a_crowd_leaves_no_gap() {
    let (deal, id) = open_chat().await;
    let people = [deal.client, deal.agent(), deal.manager];
    let sends = (0..45).map(|at| async move { say(id, people[at % 3], &at.to_string()).await });
    let reads = (0..30).map(|at| async move {
        let reader = person(people[at % 3]);
        let marker = reader.put(&path(id, "/read"), json!({"Sequence": at})).await.expect(200);
        assert!(marker["UnreadCount"].as_i64().unwrap() >= 0, "{marker}");
        let chat = view(id, people[at % 3]).await;
        let number = |member: &str| chat[member].as_i64().unwrap();
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
    let parsed: Vec<_> = times.iter().map(|at| time(at)).collect();
    assert!(parsed.is_sorted(), "{times:?}");
}

/// As something that compares: fractions of a second are written without zeros at their end.
fn time(at: &str) -> (String, String) {
    let at = at.trim_end_matches('Z');
    let (seconds, fraction) = at.split_once('.').unwrap_or((at, ""));
    (seconds.to_owned(), format!("{fraction:0<9}"))
}

/// Section 7: commands fail by no race: a marker that rises while its reader is removed.
#[tokio::test]
async fn a_marker_and_a_removal_do_not_block_each_other() {
    let (deal, id) = open_chat().await;
    let user = guid();
    add(&deal, id, user).await.expect(204);
    say(id, deal.client, "а").await;
    let sql = service().sql().await;
    // Both are told to the last of the members, whose row is held: so each has what it has when they meet.
    let hold = "select from stream where user_id in (select user_id from member where chat_id = $1::text::uuid) \
        order by user_id desc limit 1 for update";
    sql.batch_execute("begin").await.unwrap();
    sql.execute(hold, &[&id.to_string()]).await.unwrap();
    let read = async {
        sleep(Duration::from_millis(300)).await;
        person(user).put(&path(id, "/read"), json!({"Sequence": 2})).await
    };
    let release = async {
        sleep(Duration::from_millis(700)).await;
        sql.batch_execute("commit").await.unwrap();
    };
    let (removed, (read, ())) = join(remove(&deal, id, user), join(read, release)).await;
    removed.expect(204);
    read.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
}

/// Section 7: whoever waits for their turn does what they do when it comes, so that no time falls.
#[tokio::test]
async fn what_waits_for_its_turn_happens_then() {
    let line = Line::new().await;
    let [client, agent, _] = line.people();
    let id = line.ring(None).await;
    let sql = service().sql().await;
    let now = async || {
        let now = sql.query_one("select extract(epoch from clock_timestamp())::float8", &[]).await.unwrap();
        now.get::<_, f64>(0)
    };
    let hold = "select from chat where id = $1::text::uuid for update";
    sql.batch_execute("begin").await.unwrap();
    sql.execute(hold, &[&line.chat.to_string()]).await.unwrap();
    let user = guid();
    let release = async {
        sleep(Duration::from_millis(1200)).await;
        let released = now().await;
        sql.batch_execute("commit").await.unwrap();
        released
    };
    let (joined, (added, (sent, released))) = join(
        line.act(agent, id, "join"),
        join(add(&line.deal, line.chat, user), join(say(line.chat, client, "а"), release)),
    )
    .await;
    joined.expect(200);
    added.expect(204);
    let card = line.card(id).await;
    let chat = view(line.chat, user).await;
    let member = list(&chat["Members"]).iter().find(|member| member["UserId"] == json!(user)).unwrap();
    for at in
        [&participant(&card, agent)["JoinedAt"], &card["ActiveAt"], &member["JoinedAt"], &sent["CreatedAt"]]
    {
        let at = OffsetDateTime::parse(text(at), &Rfc3339).unwrap();
        assert!((at - OffsetDateTime::UNIX_EPOCH).as_seconds_f64() + 0.001 > released, "{at}");
    }
}

/// INV-MSG-6: additions that race for the last seat.
#[tokio::test]
async fn the_last_seat_is_given_once() {
    let (deal, id) = open_chat().await;
    for _ in 0..46 {
        add(&deal, id, guid()).await.expect(204);
    }
    let answers = join_all((0..10).map(|_| add(&deal, id, guid()))).await;
    assert_eq!((count(&answers, 204), count(&answers, 409)), (1, 9), "{answers:?}");
    assert_eq!(roles(&view(id, deal.client).await).len(), 50);
}

/// One entry and one card for one person, whoever adds them at the same time; nobody is removed twice.
#[tokio::test]
async fn one_person_comes_and_goes_once() {
    let (deal, id) = open_chat().await;
    let user = guid();
    let answers = join_all((0..10).map(|_| add(&deal, id, user))).await;
    assert_eq!(count(&answers, 204), 10);
    assert_eq!(cards(id, user).await.len(), 1);
    let answers = join_all((0..10).map(|_| remove(&deal, id, user))).await;
    assert_eq!((count(&answers, 204), count(&answers, 404)), (1, 9), "{answers:?}");
    assert_eq!(cards(id, deal.client).await.len(), 2);
}

/// Section 1: who stops being a member loses the chat at once: what they send is either before their going or refused.
#[tokio::test]
async fn nobody_writes_after_they_were_removed() {
    for _ in 0..5 {
        let (deal, id) = open_chat().await;
        let writes = (0..10).map(|at| {
            let writer = person(deal.manager);
            async move { writer.post(&path(id, "/messages"), json!({"Text": at.to_string()})).await }
        });
        let (answers, removed) = join(join_all(writes), remove(&deal, id, deal.manager)).await;
        removed.expect(204);
        let all = messages(id, deal.client).await;
        assert_eq!(all.len(), count(&answers, 201) + 1);
        assert_eq!(all.last().unwrap()["Card"]["Type"], "MemberRemoved", "{all:?}");
        assert_eq!(count(&answers, 201) + count(&answers, 404), 10);
    }
}

/// People who share several chats, and are told of all of them, never wait for each other in a circle.
#[tokio::test]
async fn chats_that_share_their_people_do_not_block_each_other() {
    let (first, one) = open_chat().await;
    let second = Deal { id: guid(), agent: Some(first.client), client: first.agent(), ..first };
    second.tell_created().await;
    let two = second.chat().await;
    let work = (0..24).map(|at| async move {
        let user = guid();
        match at % 4 {
            0 => drop(say(one, first.client, "а").await),
            1 => drop(say(two, second.client, "б").await),
            2 => {
                let place = path(one, &format!("/members/{user}"));
                put(&supervisor(first.tenant), &place).await.expect(204);
                supervisor(first.tenant).delete(&place).await.expect(204);
            }
            _ => {
                let agent = if at % 8 == 3 { Some(first.manager) } else { Some(user) };
                second.tell(STAGE_CHANGED, &second.changed(at + 2, "Sale", "Sale", agent)).await;
            }
        }
    });
    join_all(work).await;
    view_when(two, second.client, "all of it", |chat| chat["LastSequence"].as_i64() >= Some(6)).await;
    for (id, reader) in [(one, first.client), (two, second.client)] {
        let all = messages(id, reader).await;
        let distinct: BTreeSet<_> = all.iter().map(|message| message["Sequence"].as_i64()).collect();
        assert_eq!(distinct.len(), all.len());
    }
}
