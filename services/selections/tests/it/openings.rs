//! Counts of openings.

use selections::Service;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::service::Running;

use crate::{
    create_selection, details_path, eventually, join_limited, link_path, open_path, reread, service, text,
};

async fn openings(owner: &Client, selection: &Value) -> Value {
    owner.get(&details_path(selection)).await.expect(200)["Openings"].clone()
}

/// RULE-SEL-057: openings by guests and other users are counted with the time of the last one.
/// Openings by the owner are not counted, and no opening changes the selection.
#[tokio::test]
async fn openings_by_others_are_counted() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (_, stranger) = service().user();
    let path = open_path(&selection);
    for caller in [&service().guest(), &stranger, &owner, &service().guest(), &owner] {
        caller.get(&path).await.expect(200);
    }
    let counted = eventually("three openings", async || {
        Some(openings(&owner, &selection).await).filter(|openings| openings["Count"] == 3)
    })
    .await;
    assert!(text(&counted["LastOpenedAt"]) >= text(&selection["CreatedAt"]));
    assert_eq!(reread(&owner, &selection).await, selection);

    owner.put(&link_path(&selection), json!({"IsEnabled": false, "ExpiresAt": null})).await.expect(200);
    stranger.get(&path).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    owner.put(&link_path(&selection), json!({"IsEnabled": true, "ExpiresAt": null})).await.expect(200);
    stranger.get(&path).await.expect(200);
    eventually("four openings", async || (openings(&owner, &selection).await["Count"] == 4).then_some(()))
        .await;
}

/// RULE-SEL-057: the openings of all replicas are added up, and a replica stores its own before it
/// stops.
#[tokio::test]
async fn openings_of_a_stopped_replica_are_counted() {
    let first = Running::start::<Service>(&[]);
    let second = Running::start::<Service>(&[("DATABASE_URL", &first.database_url)]);
    let (_, owner) = first.user();
    let selection = create_selection(&owner).await;
    let path = open_path(&selection);
    for replica in [&first, &second] {
        let opened = (0..20).map(async |_| replica.guest().get(&path).await);
        for response in join_limited(opened).await {
            response.expect(200);
        }
    }
    drop(second);
    eventually("forty openings", async || (openings(&owner, &selection).await["Count"] == 40).then_some(()))
        .await;
}
