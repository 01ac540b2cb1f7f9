//! The events of messages.

use serde_json::{Value, json};
use testkit::{guid, text};

use crate::calls::topics;
use crate::{
    MESSAGE_SENT, STAGE_CHANGED, add, chat_direct, open_chat, path, person, say, service, view_when,
};

/// Section 8: each new Text message is published for all members but its sender, without the text. Nothing else is published.
#[tokio::test]
async fn each_new_text_is_published_without_its_words() {
    let (deal, id) = open_chat().await;
    let me = person(deal.client);
    let given = json!({"Text": "тайна", "ClientMessageId": guid()});
    let said = me.post(&path(id, "/messages"), given.clone()).await.expect(201);
    me.post(&path(id, "/messages"), given).await.expect(200);
    let place = path(id, &format!("/messages/{}", text(&said["Id"])));
    me.put(&place, json!({"Text": "другая тайна"})).await.expect(200);
    me.delete(&place).await.expect(204);
    person(deal.agent()).put(&path(id, "/read"), json!({"Sequence": 1})).await.expect(200);
    add(&deal, id, guid()).await.expect(204);
    deal.tell(STAGE_CHANGED, &deal.changed(2, "Application", "Sale", deal.agent)).await;
    view_when(id, deal.client, "the card", |chat| chat["LastSequence"] == 3).await;
    let last = say(id, deal.manager, "конец").await;

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
            "ChatId": id, "DealId": deal.id, "MessageId": said["Id"], "Sequence": 1, "SenderUserId": deal.client,
            "RecipientUserIds": null, "At": said["CreatedAt"],
        })
    );
    assert_eq!(events[1].payload["MessageId"], last["Id"]);
    assert_eq!(events[1].payload["RecipientUserIds"].as_array().unwrap().len(), 3);
}

/// Section 8: a Direct chat has no deal.
#[tokio::test]
async fn a_message_of_a_direct_chat_is_published_without_a_deal() {
    let (deal, _) = open_chat().await;
    let id = chat_direct::open(deal.client, deal.manager).await;
    say(id, deal.client, "привет").await;
    let events = service().published(id).await;
    assert_eq!(topics(&events), [MESSAGE_SENT]);
    assert_eq!(events[0].payload["DealId"], Value::Null);
    assert_eq!(events[0].payload["RecipientUserIds"], json!([deal.manager]));
}
