//! Users who write to each other and call each other in the chats of deals while the deals change.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::issuer::Claims;
use uuid::Uuid;

use super::{Writer, guid};

/// Number of attempts to find a chat, 100 ms apart.
const MAX_CHAT_POLLS: usize = 100;

impl Writer {
    /// Creates a developer with a building, and makes deals whose members use the chats, until the
    /// load stops.
    pub(super) async fn chat(self, chessboard: String, crm: String, messenger: String) {
        let Some(flats) = self.house(&chessboard).await else { return };
        let seller = Self { base: crm, ..self };
        for flat in flats.iter().cycle() {
            if seller.stopping.is_cancelled() {
                return;
            }
            seller.chat_about(flat, &messenger).await;
        }
    }

    /// Returns a user without permissions at messenger.
    fn member(&self, user: Uuid, messenger: &str) -> Option<Self> {
        let token = self.issuer.token(&Claims::user(user)).ok()?;
        Some(Self { token, base: messenger.to_owned(), ..self.clone() })
    }

    /// Makes a deal, and lets its client and its agent use the chat.
    async fn chat_about(&self, flat: &str, messenger: &str) -> Option<()> {
        let deals = "platform-manager/crm/deals";
        let [client, agent] = [guid(), guid()];
        let body = json!({
            "PropertyObjectId": flat, "ClientUserId": client, "AgentUserId": agent, "RequestId": guid(),
        });
        let made = self.send(Method::POST, deals, body).await?;
        let deal = made["DealId"].as_str()?;
        let (client, agent) = (self.member(client, messenger)?, self.member(agent, messenger)?);
        let chat = client.chat_of(deal).await?;
        for target in ["Booking", "Sale", "Cancelled", "Application"] {
            client.write(&chat).await;
            let body = json!({"TargetStatus": target, "Comment": "chaos"});
            self.send(Method::POST, &format!("{deals}/{deal}/override-status"), body).await;
            agent.write(&chat).await;
            client.call(&chat, &agent).await;
        }
        // The new agent replaces the old one in the chat.
        self.send(Method::PUT, &format!("{deals}/{deal}/agent"), json!({"AgentUserId": guid()})).await;
        Some(())
    }

    /// Waits until messenger has received the deal from Kafka, and returns the path of its chat.
    async fn chat_of(&self, deal: &str) -> Option<String> {
        let own = format!("messenger/chats?DealId={deal}");
        for _ in 0..MAX_CHAT_POLLS {
            if self.stopping.is_cancelled() {
                return None;
            }
            let page = self.send(Method::GET, &own, Value::Null).await;
            if let Some(chat) = page.as_ref().and_then(|page| page["Items"][0]["Id"].as_str()) {
                return Some(format!("messenger/chats/{chat}"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        None
    }

    /// Sends a message twice, edits it, deletes another one, and reads the chat.
    async fn write(&self, chat: &str) {
        let messages = format!("{chat}/messages");
        let body = json!({"Text": "chaos", "ClientMessageId": guid()});
        self.send(Method::POST, &messages, body.clone()).await;
        if let Some(sent) = self.make(&messages, body).await {
            let edited = json!({"Text": "less chaos"});
            self.send(Method::PUT, &format!("{messages}/{sent}"), edited).await;
        }
        if let Some(sent) = self.make(&messages, json!({"Text": "nothing"})).await {
            self.send(Method::DELETE, &format!("{messages}/{sent}"), Value::Null).await;
        }
        self.send(Method::PUT, &format!("{chat}/read"), json!({"Sequence": i64::MAX})).await;
    }

    /// Calls the other member, who answers, declines or ignores the call. Open calls end by a
    /// timeout.
    async fn call(&self, chat: &str, other: &Self) {
        let started = self.make(&format!("{chat}/conferences"), json!({"Media": "Audio"})).await;
        let Some(id) = started else { return };
        let conference = format!("messenger/conferences/{id}");
        match rand::random_range(0..4) {
            0 => {
                other.act(&conference, "join").await;
                self.act(&conference, "end").await;
            }
            1 => other.act(&conference, "decline").await,
            2 => {
                other.act(&conference, "join").await;
                other.act(&conference, "leave").await;
                self.act(&conference, "leave").await;
            }
            _ => {}
        }
    }

    async fn act(&self, conference: &str, what: &str) {
        self.send(Method::POST, &format!("{conference}/{what}"), Value::Null).await;
    }
}
