//! Reads of guests from a second database.

use selections::Service;
use serde_json::Value;
use testkit::eventually;
use testkit::ports;
use testkit::service::Running;

use crate::{create_selection, open_path};

/// Starts the service with the database of the read replica for the reads of guests.
fn start(replica_url: &str) -> Running {
    Running::start::<Service>(&[("DATABASE_READ_URL", replica_url)])
}

async fn create(service: &Running) -> Value {
    let (_, owner) = service.user();
    create_selection(&owner).await
}

/// RULE-ALL-120: a guest opens a selection of the second database, and a user one of the first.
/// RULE-SEL-004: a guest also opens a selection that the second database does not have yet.
#[tokio::test]
async fn guest_reads_from_the_replica_and_a_user_from_the_primary() {
    let other = Running::start::<Service>(&[]);
    let service = start(&other.database_url);
    let (replicated, new) = (create(&other).await, create(&service).await);
    let (guest, (_, user)) = (service.guest(), service.user());

    eventually("the read replica", async || {
        (guest.get(&open_path(&replicated)).await.status == 200).then_some(())
    })
    .await;
    guest.get(&open_path(&new)).await.expect(200);
    user.get(&open_path(&new)).await.expect(200);
    user.get(&open_path(&replicated)).await.expect(404);
}

/// RULE-ALL-120: if the read replica does not respond, guests read from the primary.
#[tokio::test]
async fn guest_reads_from_the_primary_while_the_replica_is_down() {
    let service = start(&format!("postgres://guest@127.0.0.1:{}/none", ports::free().unwrap()));
    let selection = create(&service).await;
    service.guest().get(&open_path(&selection)).await.expect(200);
}
