//! The limit of messages of a user in an hour.

use std::sync::OnceLock;

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::client::Response;
use testkit::guid;
use testkit::service::Running;
use uuid::Uuid;

use crate::fixture::ConferenceFixture;
use crate::media_service::{livekit, start};
use crate::{count, text};

/// Returns a service in which a user sends at most three messages in an hour.
fn limited_service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| start(livekit(), &[("MESSENGER_MAX_MESSAGES_PER_PERSON_PER_HOUR", "3")]))
}

async fn send(chat: &ConferenceFixture<'_>, sender: Uuid, body: Value) -> Response {
    chat.as_user(sender).post(&chat.path("/messages"), body).await
}

/// RULE-MSG-095, RULE-ALL-026: a message above the limit is 429 with `Retry-After`. Repeats and
/// messages of other users do not count.
#[tokio::test]
async fn sender_at_the_limit_sends_no_message() {
    let chat = ConferenceFixture::of(limited_service()).await;
    let (client, repeated) = (chat.deal.client, json!({"Text": "once", "ClientMessageId": guid()}));
    send(&chat, client, repeated.clone()).await.expect(201);
    for _ in 0..3 {
        send(&chat, client, repeated.clone()).await.expect(200);
    }
    send(&chat, client, json!({"Text": "two"})).await.expect(201);
    send(&chat, client, json!({"Text": "three"})).await.expect(201);

    let refused = send(&chat, client, json!({"Text": "four"})).await;

    // The hour of the sender began with the first message, moments ago.
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| (3_500..=3_601).contains(&wait)));
    assert!(text(&refused.body["detail"]).contains("at most 3 messages"), "{}", refused.text);
    refused.expect_problem(429, "MESSENGER_MESSAGES_LIMIT_EXCEEDED");
    send(&chat, client, repeated).await.expect(200);
    send(&chat, chat.deal.agent(), json!({"Text": "mine"})).await.expect(201);
    let page = chat.as_user(client).get(&chat.path("/messages")).await.expect(200);
    assert_eq!(page["LastSequence"], 4, "a refused message leaves no gap");
}

/// RULE-MSG-095: an edit counts as a message, unless it changes nothing, and a refused edit changes
/// nothing.
#[tokio::test]
async fn edit_counts_as_a_message() {
    let chat = ConferenceFixture::of(limited_service()).await;
    let client = chat.deal.client;
    let sent = send(&chat, client, json!({"Text": "one"})).await.expect(201);
    let path = chat.path(&format!("/messages/{}", text(&sent["Id"])));
    let edit = async |new: &str| chat.as_user(client).put(&path, json!({"Text": new})).await;
    for new in ["two", "two", "three", "three"] {
        edit(new).await.expect(200);
    }

    let refused = edit("four").await;

    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| (3_500..=3_601).contains(&wait)));
    refused.expect_problem(429, "MESSENGER_MESSAGES_LIMIT_EXCEEDED");
    send(&chat, client, json!({"Text": "four"}))
        .await
        .expect_problem(429, "MESSENGER_MESSAGES_LIMIT_EXCEEDED");
    assert_eq!(edit("three").await.expect(200)["Version"], 3);
    chat.as_user(client).delete(&path).await.expect(204);
}

/// RULE-MSG-095: after an hour a sender has the whole limit again.
#[tokio::test]
async fn next_hour_has_the_whole_limit() {
    let chat = ConferenceFixture::of(limited_service()).await;
    let client = chat.deal.client;
    for _ in 0..3 {
        send(&chat, client, json!({"Text": "now"})).await.expect(201);
    }
    send(&chat, client, json!({"Text": "now"}))
        .await
        .expect_problem(429, "MESSENGER_MESSAGES_LIMIT_EXCEEDED");
    let sql = limited_service().sql().await;
    let later =
        "update sender set hour_began_at = hour_began_at - interval '1 hour' where user_id::text = $1";
    assert_eq!(sql.execute(later, &[&client.to_string()]).await.unwrap(), 1);

    for _ in 0..3 {
        send(&chat, client, json!({"Text": "later"})).await.expect(201);
    }
    send(&chat, client, json!({"Text": "later"}))
        .await
        .expect_problem(429, "MESSENGER_MESSAGES_LIMIT_EXCEEDED");
}

/// RULE-MSG-095: concurrent messages of a user do not exceed the limit.
#[tokio::test]
async fn concurrent_messages_do_not_exceed_the_limit() {
    let chat = ConferenceFixture::of(limited_service()).await;
    let sends = (0..12).map(|at| send(&chat, chat.deal.client, json!({"Text": at.to_string()})));

    let responses = join_all(sends).await;

    assert_eq!((count(&responses, 201), count(&responses, 429)), (3, 9), "{responses:?}");
}
