//! Direct chats that a user leaves, or in which one user blocks the other.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::stream_client::Stream;
use crate::{CHATS, add, as_user, chat_direct, id_of, open_chat, path, put, remove, roles, send_text, view};

async fn leave(chat: Uuid, user: Uuid) -> testkit::client::Response {
    as_user(user).post(&path(chat, "/leave"), Value::Null).await
}

async fn block(chat: Uuid, user: Uuid) {
    put(&as_user(user), &path(chat, "/block")).await.expect(204);
}

async fn unblock(chat: Uuid, user: Uuid) {
    as_user(user).delete(&path(chat, "/block")).await.expect(204);
}

async fn post_text(chat: Uuid, user: Uuid) -> testkit::client::Response {
    as_user(user).post(&path(chat, "/messages"), json!({"Text": "а"})).await
}

/// RULE-MSG-072: either user leaves a Direct chat. The other user keeps it, and cannot write until
/// the user returns.
#[tokio::test]
async fn left_direct_chat_accepts_no_text_until_the_user_returns() {
    let (deal, _) = open_chat().await;
    let (one, other) = (deal.client, deal.manager);
    let id = chat_direct::open(one, other).await;
    send_text(id, other, "здравствуйте").await;
    let mut stream = Stream::open(one).await;
    leave(id, one).await.expect(204);
    assert_eq!(stream.next_of("chat-removed").await.data, json!({"ChatId": id}));
    leave(id, one).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    for below in ["", "/messages", "/conferences"] {
        as_user(one).get(&path(id, below)).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    let page = as_user(one).get(&format!("{CHATS}?Kind=Direct")).await.expect(200);
    assert_eq!(page["TotalCount"], 0);
    let kept = view(id, other).await;
    assert_eq!(roles(&kept).len(), 1);
    assert_eq!(kept["LastMessage"]["Card"], json!({"Type": "MemberRemoved", "UserId": one, "ByUserId": one}));
    post_text(id, other).await.expect_problem(409, "MESSENGER_CHAT_LEFT");
    let again = as_user(other).post(CHATS, json!({"UserId": one})).await.expect(200);
    assert_eq!(
        (&again["Id"], roles(&again).len()),
        (&json!(id), 1),
        "an opening by the other user brings no user back"
    );

    let back = as_user(one).post(CHATS, json!({"UserId": other})).await.expect(200);
    assert_eq!((&back["Id"], roles(&back).len()), (&json!(id), 2));
    send_text(id, other, "снова").await;
    send_text(id, one, "да").await;
    // Both users may leave.
    leave(id, one).await.expect(204);
    leave(id, other).await.expect(204);
    let back = as_user(other).post(CHATS, json!({"UserId": one})).await.expect(200);
    assert_eq!((&back["Id"], roles(&back).len()), (&json!(id), 1));
    post_text(id, other).await.expect_problem(409, "MESSENGER_CHAT_LEFT");
    assert_eq!(chat_direct::open(one, other).await, id);
    send_text(id, other, "оба здесь").await;
}

/// RULE-MSG-072: a user who left returns only while both users share a deal chat.
#[tokio::test]
async fn return_to_a_direct_chat_needs_a_shared_deal_chat() {
    let (deal, chat) = open_chat().await;
    let user = guid();
    add(&deal, chat, user).await.expect(204);
    let id = chat_direct::open(user, deal.client).await;
    leave(id, user).await.expect(204);
    remove(&deal, chat, user).await.expect(204);
    let refused = as_user(user).post(CHATS, json!({"UserId": deal.client})).await;
    refused.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}

/// RULE-MSG-072, RULE-MSG-075: only the users of a Direct chat leave, block and report it. A deal
/// chat refuses these operations.
#[tokio::test]
async fn only_users_of_a_direct_chat_leave_block_and_report_it() {
    let (deal, chat) = open_chat().await;
    let id = chat_direct::open(deal.client, deal.manager).await;
    let report = json!({"Reason": "Spam"});
    for (caller, target, status, code) in [
        (deal.client, chat, 422, "MESSENGER_CHAT_NOT_DIRECT"),
        (deal.agent(), id, 404, "MESSENGER_CHAT_NOT_FOUND"),
        (deal.client, guid(), 404, "MESSENGER_CHAT_NOT_FOUND"),
        (guid(), chat, 404, "MESSENGER_CHAT_NOT_FOUND"),
    ] {
        let caller = as_user(caller);
        caller.post(&path(target, "/leave"), Value::Null).await.expect_problem(status, code);
        put(&caller, &path(target, "/block")).await.expect_problem(status, code);
        caller.delete(&path(target, "/block")).await.expect_problem(status, code);
        caller.post(&path(target, "/reports"), report.clone()).await.expect_problem(status, code);
    }
    // The removal of a member stays an operation of deal chats.
    let own = path(id, &format!("/members/{}", deal.client));
    as_user(deal.client).delete(&own).await.expect_problem(422, "MESSENGER_CHAT_NOT_DEAL");
}

/// RULE-MSG-080: a user who left a Direct chat still reports it, and reads nothing.
#[tokio::test]
async fn user_who_left_reports_the_chat() {
    let (deal, chat) = open_chat().await;
    let (one, other) = (deal.client, deal.manager);
    let id = chat_direct::open(one, other).await;
    send_text(id, other, "переведите деньги").await;
    leave(id, one).await.expect(204);
    let body = json!({"Reason": "Fraud"});
    let reported = as_user(one).post(&path(id, "/reports"), body.clone()).await.expect(201);
    assert_eq!((&reported["ReporterUserId"], &reported["ReportedUserId"]), (&json!(one), &json!(other)));
    assert_eq!(as_user(one).post(&path(id, "/reports"), body.clone()).await.expect(200), reported);
    as_user(one).get(&path(id, "/messages")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    // The reported user may leave too, and may report.
    leave(id, other).await.expect(204);
    as_user(other).post(&path(id, "/reports"), body.clone()).await.expect(201);
    as_user(guid())
        .post(&path(id, "/reports"), body.clone())
        .await
        .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    // A deal chat has no reports, so a former member does not find it.
    let user = guid();
    add(&deal, chat, user).await.expect(204);
    remove(&deal, chat, user).await.expect(204);
    as_user(user).post(&path(chat, "/reports"), body).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
}

/// RULE-MSG-073: a block of either user stops new texts of both, and ends with the blocker's own
/// request.
#[tokio::test]
async fn block_stops_texts_of_both_users() {
    let (deal, _) = open_chat().await;
    for (blocker, blocked) in [(deal.client, deal.manager), (deal.manager, deal.client)] {
        let id = chat_direct::open(blocker, blocked).await;
        let own = id_of(&send_text(id, blocked, "раз").await["Id"]);
        let mut stream = Stream::open(blocker).await;
        block(id, blocker).await;
        block(id, blocker).await;
        assert_eq!(stream.next().await.data["IsBlocked"], true);
        assert_eq!(view(id, blocker).await["IsBlocked"], true);
        assert_eq!(view(id, blocked).await["IsBlocked"], false);
        for user in [blocker, blocked] {
            post_text(id, user).await.expect_problem(403, "MESSENGER_CHAT_BLOCKED");
        }
        let message = path(id, &format!("/messages/{own}"));
        let edit = as_user(blocked).put(&message, json!({"Text": "два"})).await;
        edit.expect_problem(403, "MESSENGER_CHAT_BLOCKED");
        let conference = as_user(blocked).post(&path(id, "/conferences"), json!({"Media": "Audio"})).await;
        conference.expect_problem(422, "MESSENGER_CHAT_NOT_DEAL");
        as_user(blocked).delete(&message).await.expect(204);
        unblock(id, blocked).await;
        post_text(id, blocked).await.expect_problem(403, "MESSENGER_CHAT_BLOCKED");
        block(id, blocked).await;
        unblock(id, blocker).await;
        post_text(id, blocker).await.expect_problem(403, "MESSENGER_CHAT_BLOCKED");
        unblock(id, blocked).await;
        unblock(id, blocked).await;
        send_text(id, blocked, "три").await;
    }
}

/// RULE-MSG-073: a blocked user who left cannot open the chat again, and the blocker can.
#[tokio::test]
async fn blocked_user_cannot_open_the_chat_again() {
    let (deal, _) = open_chat().await;
    let (blocker, other) = (deal.client, deal.manager);
    let id = chat_direct::open(blocker, other).await;
    block(id, blocker).await;
    let open = async |user: Uuid, with: Uuid| as_user(user).post(CHATS, json!({"UserId": with})).await;
    assert_eq!(open(other, blocker).await.expect(200)["Id"], json!(id), "the history stays");
    leave(id, other).await.expect(204);
    leave(id, blocker).await.expect(204);
    open(other, blocker).await.expect_problem(403, "MESSENGER_CHAT_BLOCKED");
    assert_eq!(open(blocker, other).await.expect(200)["IsBlocked"], true);
    unblock(id, blocker).await;
    assert_eq!(open(other, blocker).await.expect(200)["Id"], json!(id));
    send_text(id, other, "можно").await;
}

/// RULE-MSG-081: a user who left blocks and unblocks the other user, and reads nothing.
#[tokio::test]
async fn user_who_left_blocks_and_unblocks() {
    let (deal, _) = open_chat().await;
    let (one, other) = (deal.client, deal.manager);
    let id = chat_direct::open(one, other).await;
    leave(id, one).await.expect(204);
    block(id, one).await;
    post_text(id, other).await.expect_problem(403, "MESSENGER_CHAT_BLOCKED");
    as_user(one).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    leave(id, other).await.expect(204);
    let open = async |user: Uuid, with: Uuid| as_user(user).post(CHATS, json!({"UserId": with})).await;
    open(other, one).await.expect_problem(403, "MESSENGER_CHAT_BLOCKED");
    unblock(id, one).await;
    assert_eq!(open(other, one).await.expect(200)["Id"], json!(id));
    post_text(id, other).await.expect_problem(409, "MESSENGER_CHAT_LEFT");
    block(id, one).await;
    assert_eq!(open(one, other).await.expect(200)["IsBlocked"], true);
}

/// RULE-MSG-072, RULE-MSG-073: no text follows a block or a leave that is sent concurrently.
#[tokio::test]
async fn no_text_follows_a_block_or_a_leave() {
    let (deal, _) = open_chat().await;
    let (one, other) = (deal.client, deal.manager);
    let id = chat_direct::open(one, other).await;
    for act in ["block", "leave"] {
        let end = async {
            if act == "block" {
                block(id, one).await;
            } else {
                leave(id, one).await.expect(204);
            }
            view(id, other).await["LastSequence"].as_i64().unwrap()
        };
        let (texts, last_sequence) = join(join_all((0..10).map(|_| post_text(id, other))), end).await;
        for text in texts {
            assert!([201, 403, 409].contains(&text.status), "{}", text.text);
        }
        assert_eq!(view(id, other).await["LastSequence"], last_sequence, "{act}");
        if act == "block" {
            unblock(id, one).await;
        }
    }
}
