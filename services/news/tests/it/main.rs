//! News at its edges: HTTP and Kafka, against a real database, a real broker and a real selections.

mod post;

use std::sync::OnceLock;

use news::Service;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::Running;
use uuid::Uuid;

const PUBLISHED: &str = "platform.news.post-published.v1";

/// The selections that news calls.
fn selections() -> &'static Running {
    static SELECTIONS: OnceLock<Running> = OnceLock::new();
    SELECTIONS.get_or_init(|| Running::start::<selections::Service>(&[]))
}

/// The service that most tests share: each has authors and posts of its own.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| start(&selections().internal_url()))
}

/// A news that calls selections at `selections_url`.
fn start(selections_url: &str) -> Running {
    Running::start::<Service>(&[("SELECTIONS_URL", selections_url), ("CLIENT_SECRET", CLIENTS[0].1)])
}

/// An id of anything.
fn guid() -> Uuid {
    Uuid::from_u128(rand::random())
}

/// Somebody who writes posts of their own, here and as an owner of selections.
struct Author {
    news: Client,
    selections: Client,
}

fn author() -> Author {
    let claims = Claims::user(guid()).permission("news.posts.manage-own");
    Author { news: service().caller(&claims), selections: selections().caller(&claims) }
}

impl Author {
    async fn create_post(&self) -> String {
        let post = self.news.post("/api/v1/posts", json!({"Title": "Spring"})).await.expect(201);
        text(&post["Id"]).to_owned()
    }

    /// A selection of three objects; its id.
    async fn create_selection(&self) -> String {
        let items: Value = (0..3).map(|_| json!({"PropertyObjectId": guid()})).collect();
        let selection = json!({"Title": "Three flats", "Items": items});
        text(&self.selections.post("/api/v1/selections", selection).await.expect(201)["Id"]).to_owned()
    }
}

fn text_block(text: &str) -> Value {
    json!({"Kind": "Text", "SortOrder": 0, "Format": "Plain", "Text": text})
}

fn embed(source: &str) -> Value {
    json!({"Kind": "SelectionEmbed", "SortOrder": 1, "SourceSelectionId": source})
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
