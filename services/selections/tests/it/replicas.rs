//! Two replicas on one database.

use std::iter::zip;

use futures_util::future::join_all;
use selections::Service;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::issuer::Claims;
use testkit::service::Running;

use crate::{
    SELECTIONS, UPDATED, create_selection, create_selection_of, eventually, favorite_path, guid, guids,
    items, items_of, items_path, join_limited, mark, path, snapshots_path, text,
};

/// Both replicas, in the order of their start.
struct Replicas([Running; 2]);

impl Replicas {
    fn start() -> Self {
        let first = Running::start::<Service>(&[]);
        let second = Running::start::<Service>(&[("DATABASE_URL", &first.database_url)]);
        Self([first, second])
    }

    /// Returns clients of one user at both replicas.
    fn owners(&self) -> [Client; 20] {
        let id = guid();
        std::array::from_fn(|n| self.0[n % 2].caller(&Claims::user(id)))
    }

    fn news(&self) -> [Client; 20] {
        std::array::from_fn(|n| self.0[n % 2].machine("news"))
    }
}

fn count(responses: &[testkit::client::Response], status: u16) -> usize {
    responses.iter().filter(|response| response.status == status).count()
}

/// INV-SEL-007, RULE-SEL-019, RULE-ALL-056: the limits and the one Active snapshot hold under
/// concurrent requests to two replicas.
#[tokio::test]
async fn limits_hold_across_replicas() {
    let replicas = Replicas::start();
    let owners = replicas.owners();
    let create =
        async |owner: &Client| owner.post(SELECTIONS, json!({"Title": "x", "Items": items(1)})).await;
    let first = create(&owners[0]).await.expect(201);
    join_limited((1..99).map(async |n| create(&owners[n % 20]).await.expect(201))).await;
    let created = join_all(owners.iter().map(create)).await;
    assert_eq!((count(&created, 201), count(&created, 409)), (1, 19));

    join_all(zip(guids(199), owners.iter().cycle()).map(async |(object, owner)| mark(owner, object).await))
        .await;
    let marked =
        join_all(owners.iter().map(async |owner| owner.put(&favorite_path(guid()), Value::Null).await)).await;
    assert_eq!((count(&marked, 204), count(&marked, 409)), (1, 19));

    let body = json!({"PostId": guid(), "ActorUserId": first["OwnerUserId"]});
    let news = replicas.news();
    let taken =
        join_all(news.iter().map(async |news| news.post(&snapshots_path(&first), body.clone()).await)).await;
    assert_eq!((count(&taken, 201), count(&taken, 200)), (1, 19));
}

/// RULE-SEL-035, RULE-ALL-056: each change is published in order, and another replica takes over
/// the relay.
#[tokio::test]
async fn replicas_publish_changes_in_order_and_take_over_the_relay() {
    let first = Running::start::<Service>(&[]);
    let sql = first.sql().await;
    let has_lease = async || sql.query_opt("select from outbox_lease where epoch > 0", &[]).await.unwrap();
    eventually("the first replica has the lease", has_lease).await;
    let second = Running::start::<Service>(&[("DATABASE_URL", &first.database_url)]);
    let replicas = Replicas([first, second]);
    let owners = replicas.owners();
    let selection = create_selection_of(&owners[0], json!([])).await;
    let mut versions = Vec::new();
    for owner in &owners {
        let changed =
            owner.put(&items_path(&selection), json!({"Items": items_of(&guids(1))})).await.expect(200);
        versions.push(changed["Version"].clone());
    }
    owners[0].delete(&path(&selection)).await.expect(204);

    let [first, second] = &replicas.0;
    let events = second.published(text(&selection["Id"])).await;
    assert_eq!(events.len(), 2 + 2 * owners.len());
    let updated = events.iter().filter(|event| event.topic == UPDATED);
    assert_eq!(updated.map(|event| event.payload["Version"].clone()).collect::<Vec<_>>(), versions);

    first.process.stop();
    first.process.stopped().cancelled().await;
    let (_, owner) = second.user();
    let selection = create_selection(&owner).await;
    assert_eq!(second.published(text(&selection["Id"])).await.len(), 1);
}
