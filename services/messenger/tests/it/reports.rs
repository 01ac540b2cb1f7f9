//! Reports of Direct chats, and the chat moderators who decide them.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};
use testkit::guid;
use uuid::Uuid;

use crate::stream_client::Stream;
use crate::{
    CHATS, Deal, MANAGE_ALL, as_user, chat_direct, claims_with, each, id_of, list, open_chat, path,
    send_text, service, view,
};

pub const REPORTS: &str = "/api/messenger/reports";
pub const MODERATE_DIRECT: &str = "messenger.direct-chats.moderate@platform";

fn chat_moderator(user: Uuid) -> Client {
    service().caller(&claims_with(user, None, &[MODERATE_DIRECT]))
}

async fn report(chat: Uuid, user: Uuid, body: Value) -> Response {
    as_user(user).post(&path(chat, "/reports"), body).await
}

/// Opens a Direct chat of the deal's client and manager, which the client reports.
async fn open_reported() -> (Deal, Uuid, Uuid) {
    let (deal, _) = open_chat().await;
    let chat = chat_direct::open(deal.client, deal.manager).await;
    send_text(chat, deal.manager, "переведите деньги").await;
    let reported = report(chat, deal.client, json!({"Reason": "Fraud"})).await.expect(201);
    (deal, chat, id_of(&reported["Id"]))
}

async fn decide(caller: &Client, id: Uuid, act: &str) -> Response {
    send(caller.request(reqwest::Method::POST, &format!("{REPORTS}/{id}/{act}"))).await
}

/// Returns the chat moderator and the report of each reading of a chat, in the order of the log.
async fn readings(chat: Uuid) -> Vec<(String, String)> {
    let rows = "select moderator_user_id::text, report_id::text from report_reading \
                where chat_id = $1::text::uuid order by id";
    let rows = service().sql().await.query(rows, &[&chat.to_string()]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// RULE-MSG-074: a user reports a Direct chat with a reason and a comment, once until the decision.
#[tokio::test]
async fn reporter_has_one_open_report_of_a_chat() {
    let (deal, _) = open_chat().await;
    let chat = chat_direct::open(deal.client, deal.manager).await;
    let body = json!({"Reason": "Harassment", "Comment": "пишет ночью"});
    let first = report(chat, deal.client, body).await.expect(201);
    for (field, value) in [
        ("ChatId", json!(chat)),
        ("ReporterUserId", json!(deal.client)),
        ("ReportedUserId", json!(deal.manager)),
        ("Reason", json!("Harassment")),
        ("Comment", json!("пишет ночью")),
        ("Status", json!("Open")),
        ("DecidedAt", Value::Null),
        ("DecidedByUserId", Value::Null),
    ] {
        assert_eq!(first[field], value, "{field}");
    }
    assert_eq!(report(chat, deal.client, json!({"Reason": "Spam"})).await.expect(200), first);
    let other = report(chat, deal.manager, json!({"Reason": "Other", "Comment": null})).await.expect(201);
    assert_ne!(other["Id"], first["Id"]);
    let dismissed = decide(&chat_moderator(guid()), id_of(&first["Id"]), "dismiss").await.expect(200);
    assert_eq!(dismissed["Status"], "Dismissed");
    report(chat, deal.client, json!({"Reason": "Spam"})).await.expect(201);
    for (body, field, reason) in [
        (json!({}), "/Reason", "required"),
        (json!({"Reason": "Boring"}), "/Reason", "unknown_value"),
        (json!({"Reason": "Spam", "Comment": ""}), "/Comment", "too_short"),
        (json!({"Reason": "Spam", "Comment": "а".repeat(1001)}), "/Comment", "too_long"),
    ] {
        report(chat, deal.agent(), body.clone()).await.expect_refusal("VALIDATION_FAILED", field, reason);
    }
}

/// RULE-MSG-074: concurrent reports of one reporter make one open report.
#[tokio::test]
async fn concurrent_reports_make_one_open_report() {
    let (deal, _) = open_chat().await;
    let chat = chat_direct::open(deal.client, deal.manager).await;
    let reports = join_all((0..8).map(|_| report(chat, deal.client, json!({"Reason": "Spam"})))).await;
    let mut statuses: Vec<_> = reports.iter().map(|report| report.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 201]);
}

/// RULE-MSG-076: a chat moderator reads the messages of a reported chat, and every reading is
/// logged. The log is append-only.
#[tokio::test]
async fn every_reading_of_a_chat_moderator_is_logged() {
    let (deal, chat, id) = open_reported().await;
    let me = guid();
    let messages = format!("{REPORTS}/{id}/messages");
    let page = chat_moderator(me).get(&messages).await.expect(200);
    assert_eq!((&page["Items"][0]["Text"], &page["LastSequence"]), (&json!("переведите деньги"), &json!(1)));
    chat_moderator(me).get(&format!("{messages}?AfterSequence=1&PageSize=1")).await.expect(200);
    let entry = (me.to_string(), id.to_string());
    assert_eq!(readings(chat).await, [entry.clone(), entry.clone()]);
    // A chat moderator is not a member.
    for below in ["", "/messages"] {
        chat_moderator(me).get(&path(chat, below)).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    chat_moderator(me).get(&format!("{messages}?PageSize=0")).await.expect_problem(400, "VALIDATION_FAILED");
    let unknown = chat_moderator(me).get(&format!("{REPORTS}/{}/messages", guid())).await;
    unknown.expect_problem(404, "MESSENGER_REPORT_NOT_FOUND");
    assert_eq!(view(chat, deal.client).await["Members"].as_array().unwrap().len(), 2);
    decide(&chat_moderator(me), id, "dismiss").await.expect(200);
    chat_moderator(me).get(&messages).await.expect_problem(409, "MESSENGER_REPORT_DECIDED");
    assert_eq!(readings(chat).await.len(), 2);
    let sql = service().sql().await;
    for change in ["update report_reading set read_at = now()", "delete from report_reading"] {
        let error = sql.execute(change, &[]).await.unwrap_err();
        assert!(format!("{error:?}").contains("append-only"), "{error:?}");
    }
}

/// RULE-MSG-076: only holders of the permission in platform scope read and decide, and no user of
/// the chat does.
#[tokio::test]
async fn only_impartial_chat_moderators_read_and_decide() {
    let (deal, chat, id) = open_reported().await;
    let of_company = claims_with(guid(), Some(deal.tenant), &["messenger.direct-chats.moderate"]);
    let supervisor = claims_with(guid(), None, &[MANAGE_ALL, "messenger.conferences.moderate@platform"]);
    for other in [service().caller(&of_company), service().caller(&supervisor), as_user(deal.client)] {
        other.get(REPORTS).await.expect_problem(403, "FORBIDDEN");
        other.get(&format!("{REPORTS}/{id}/messages")).await.expect_problem(403, "FORBIDDEN");
        for act in ["close-chat", "dismiss"] {
            decide(&other, id, act).await.expect_problem(403, "FORBIDDEN");
        }
    }
    for user in [deal.client, deal.manager] {
        let involved = chat_moderator(user);
        involved.get(&format!("{REPORTS}/{id}/messages")).await.expect_problem(403, "FORBIDDEN");
        for act in ["close-chat", "dismiss"] {
            decide(&involved, id, act).await.expect_problem(403, "FORBIDDEN");
        }
        let page = involved.get(&format!("{REPORTS}?Sort=-CreatedAt&PageSize=100")).await.expect(200);
        assert!(!each(list(&page["Items"]), "Id").contains(&&json!(id)));
    }
    assert!(readings(chat).await.is_empty());
    for act in ["close-chat", "dismiss"] {
        decide(&chat_moderator(guid()), guid(), act).await.expect_problem(404, "MESSENGER_REPORT_NOT_FOUND");
    }
}

/// RULE-MSG-077: a closed chat accepts no text and no return, and all its open reports are decided.
#[tokio::test]
async fn closed_chat_accepts_no_text() {
    let (deal, chat, id) = open_reported().await;
    let counter_report = report(chat, deal.manager, json!({"Reason": "Other"})).await.expect(201);
    let message = id_of(&view(chat, deal.client).await["LastMessage"]["Id"]);
    let mut stream = Stream::open(deal.client).await;
    let by = guid();
    let closed = decide(&chat_moderator(by), id, "close-chat").await.expect(200);
    assert_eq!((&closed["Status"], &closed["DecidedByUserId"]), (&json!("ChatClosed"), &json!(by)));
    let again = decide(&chat_moderator(guid()), id, "close-chat").await.expect(200);
    assert_eq!(again, closed, "a repeat changes nothing");
    decide(&chat_moderator(by), id, "dismiss").await.expect_problem(409, "MESSENGER_REPORT_DECIDED");
    let page = chat_moderator(by)
        .get(&format!("{REPORTS}?Status=ChatClosed&Sort=-CreatedAt&PageSize=100"))
        .await
        .expect(200);
    let ids = each(list(&page["Items"]), "Id");
    assert!(ids.contains(&&json!(id)) && ids.contains(&&counter_report["Id"]), "{page}");
    let page = chat_moderator(by).get(&format!("{REPORTS}?Status=Open&PageSize=100")).await.expect(200);
    assert!(!each(list(&page["Items"]), "Id").contains(&&counter_report["Id"]));

    let seen = stream.next_of("chat").await.data;
    assert_eq!(seen["ClosedAt"], closed["DecidedAt"]);
    assert_eq!(stream.next_of("message").await.data["Card"], json!({"Type": "ChatClosed"}));
    for user in [deal.client, deal.manager] {
        let text = as_user(user).post(&path(chat, "/messages"), json!({"Text": "а"})).await;
        text.expect_problem(409, "MESSENGER_CHAT_CLOSED");
    }
    let edit =
        as_user(deal.manager).put(&path(chat, &format!("/messages/{message}")), json!({"Text": "б"})).await;
    edit.expect_problem(409, "MESSENGER_CHAT_CLOSED");
    as_user(deal.client).post(CHATS, json!({"UserId": deal.manager})).await.expect(200);
    as_user(deal.client).post(&path(chat, "/leave"), Value::Null).await.expect(204);
    let back = as_user(deal.client).post(CHATS, json!({"UserId": deal.manager})).await;
    back.expect_problem(409, "MESSENGER_CHAT_CLOSED");
}

/// RULE-MSG-077: a dismissed report leaves the chat open.
#[tokio::test]
async fn dismissed_report_leaves_the_chat_open() {
    let (deal, chat, id) = open_reported().await;
    let by = guid();
    let dismissed = decide(&chat_moderator(by), id, "dismiss").await.expect(200);
    assert_eq!(decide(&chat_moderator(guid()), id, "dismiss").await.expect(200), dismissed);
    decide(&chat_moderator(by), id, "close-chat").await.expect_problem(409, "MESSENGER_REPORT_DECIDED");
    assert_eq!(view(chat, deal.client).await["ClosedAt"], Value::Null);
    send_text(chat, deal.client, "хорошо").await;
}
