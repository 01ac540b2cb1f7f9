//! The languages of problems.

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use testkit::guid;
use testkit::languages::code_in_each_language;

use crate::fixture::{CONFERENCES, ConferenceFixture};
use crate::{CHATS, as_user, open_chat, path, service};

/// RULE-ALL-010: problems, and their errors of single fields, are in the caller's language.
#[tokio::test]
async fn problem_is_in_the_callers_language() {
    let (deal, chat) = open_chat().await;
    let (member, guest) = (as_user(deal.client), service().guest());
    let unknown_id = guid();
    let post = |path: &str, body| member.request(Method::POST, path).json(&body);
    let below = |below: &str| path(chat, below);
    let unknown_conference = format!("{CONFERENCES}/{unknown_id}");
    let fixture = ConferenceFixture::new().await;
    let live = fixture.ring_with_lobby(&[fixture.deal.agent()]).await;
    let uninvited = as_user(fixture.deal.manager);
    let act = |act: &str| uninvited.request(Method::POST, &format!("{CONFERENCES}/{live}/{act}"));
    assert_eq!(code_in_each_language(|| act("join")).await, "MESSENGER_ADMISSION_REQUIRED");
    act("knock").send().await.unwrap();
    fixture.deny(fixture.deal.client, live, fixture.deal.manager).await.expect(200);
    let requests: [(&dyn Fn() -> RequestBuilder, &str); 11] = [
        (&|| guest.request(Method::GET, CHATS), "UNAUTHORIZED"),
        (&|| member.request(Method::GET, "/api/messenger/reports"), "FORBIDDEN"),
        (&|| guest.request(Method::GET, "/api/messenger/nowhere"), "NOT_FOUND"),
        (&|| post(CHATS, json!({"UserId": deal.client})), "VALIDATION_FAILED"),
        (&|| post(&below("/messages"), json!({"Text": "", "ClientMessageId": "x"})), "VALIDATION_FAILED"),
        (&|| member.request(Method::GET, &path(unknown_id, "")), "MESSENGER_CHAT_NOT_FOUND"),
        (&|| post(&below("/leave"), json!({})), "MESSENGER_CHAT_NOT_DIRECT"),
        (
            &|| member.request(Method::DELETE, &below(&format!("/messages/{unknown_id}"))),
            "MESSENGER_MESSAGE_NOT_FOUND",
        ),
        (&|| member.request(Method::GET, &unknown_conference), "MESSENGER_CONFERENCE_NOT_FOUND"),
        (&|| act("knock"), "MESSENGER_ADMISSION_DENIED"),
        (&|| member.request(Method::PUT, &below("/block")), "MESSENGER_CHAT_NOT_DIRECT"),
    ];
    for (request, code) in requests {
        assert_eq!(code_in_each_language(request).await, code);
    }
}
