//! Events of messages.

use serde_json::{Value, json};
use testkit::{guid, text};

use crate::fixture::topics;
use crate::{
    MESSAGE_SENT, STAGE_CHANGED, add, as_user, chat_direct, open_chat, path, send_text, service, view_when,
};

/// RULE-MSG-012, RULE-EVT-019: each new Text message is published for all members but the sender,
/// without the text. No other change is published.
#[tokio::test]
async fn new_text_is_published_without_its_content() {
    let (deal, id) = open_chat().await;
    let me = as_user(deal.client);
    let body = json!({"Text": "тайна", "ClientMessageId": guid()});
    let sent = me.post(&path(id, "/messages"), body.clone()).await.expect(201);
    me.post(&path(id, "/messages"), body).await.expect(200);
    let target = path(id, &format!("/messages/{}", text(&sent["Id"])));
    me.put(&target, json!({"Text": "другая тайна"})).await.expect(200);
    me.delete(&target).await.expect(204);
    as_user(deal.agent()).put(&path(id, "/read"), json!({"Sequence": 1})).await.expect(200);
    add(&deal, id, guid()).await.expect(204);
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Application", "Sale", deal.agent)).await;
    view_when(id, deal.client, "the card", |chat| chat["LastSequence"] == 3).await;
    let last = send_text(id, deal.manager, "конец").await;

    let events = service().published(id).await;
    assert_eq!(topics(&events), [MESSAGE_SENT, MESSAGE_SENT]);
    assert_eq!(events[0].headers["aggregatetype"], "Chat");
    let mut payload = events[0].payload.clone();
    let mut recipients: Vec<_> =
        payload["RecipientUserIds"].as_array().unwrap().iter().map(text).map(str::to_owned).collect();
    recipients.sort();
    let mut others = [deal.agent().to_string(), deal.manager.to_string()];
    others.sort();
    assert_eq!(recipients, others);
    payload["RecipientUserIds"] = Value::Null;
    assert_eq!(
        payload,
        json!({
            "ChatId": id, "DealId": deal.id, "MessageId": sent["Id"], "Sequence": 1, "SenderUserId": deal.client,
            "RecipientUserIds": null, "At": sent["CreatedAt"],
        })
    );
    assert_eq!(events[1].payload["MessageId"], last["Id"]);
    assert_eq!(events[1].payload["RecipientUserIds"].as_array().unwrap().len(), 3);
}

/// RULE-MSG-012, RULE-EVT-019: the event of a Direct chat has no deal.
#[tokio::test]
async fn direct_chat_message_is_published_without_a_deal() {
    let (deal, _) = open_chat().await;
    let id = chat_direct::open(deal.client, deal.manager).await;
    send_text(id, deal.client, "привет").await;
    let events = service().published(id).await;
    assert_eq!(topics(&events), [MESSAGE_SENT]);
    assert_eq!(events[0].payload["DealId"], Value::Null);
    assert_eq!(events[0].payload["RecipientUserIds"], json!([deal.manager]));
}
