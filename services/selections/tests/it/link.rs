//! The state of a selection's link.

use serde_json::{Value, json};
use testkit::client::Client;
use time::Duration;
use time::format_description::well_known::Rfc3339;

use crate::{
    CREATED, UPDATED, create_selection, details_path, events_of, eventually, guid, link_path, open_path,
    path, reread, service, take_snapshot, topics,
};

/// Returns the time `seconds` from now.
fn in_seconds(seconds: i64) -> String {
    (runtime::clock::now() + Duration::seconds(seconds)).format(&Rfc3339).unwrap()
}

async fn replace(owner: &Client, selection: &Value, is_enabled: bool, expires_at: Option<String>) -> Value {
    let body = json!({"IsEnabled": is_enabled, "ExpiresAt": expires_at});
    owner.put(&link_path(selection), body).await.expect(200)
}

/// Returns the status of the read by code for a guest.
async fn open_status(selection: &Value) -> u16 {
    service().guest().get(&open_path(selection)).await.status
}

/// RULE-SEL-056: a disabled link opens nothing, not even for the owner. Once it is enabled again,
/// the same code opens the selection.
#[tokio::test]
async fn link_is_switched_off_and_on() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let off = replace(&owner, &selection, false, None).await;
    assert_eq!(off["Link"], json!({"IsEnabled": false, "ExpiresAt": null}));
    for caller in [service().guest(), owner.clone()] {
        caller.get(&open_path(&selection)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    assert_eq!(owner.get(&details_path(&selection)).await.expect(200), off);
    take_snapshot(&selection, guid()).await.expect(201);
    let crm = service().machine("crm");
    let read_by_crm = crm.get(&path(&selection).replace("/v1/", "/v1/internal/")).await.expect(200);
    assert_eq!(read_by_crm["PublicCode"], selection["PublicCode"]);

    let on = replace(&owner, &selection, true, None).await;
    assert_eq!((&on["PublicCode"], &on["Version"]), (&selection["PublicCode"], &json!(3)));
    assert_eq!(open_status(&selection).await, 200);
}

/// RULE-SEL-056: a link expires at its time, and a later time enables it again.
#[tokio::test]
async fn link_expires_at_its_time() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    replace(&owner, &selection, true, Some(in_seconds(2))).await;
    assert_eq!(open_status(&selection).await, 200);
    eventually("the end of the link", async || (open_status(&selection).await == 404).then_some(())).await;
    let later = in_seconds(3600);
    replace(&owner, &selection, true, Some(later)).await;
    assert_eq!(open_status(&selection).await, 200);
    replace(&owner, &selection, true, Some(in_seconds(-1))).await;
    assert_eq!(open_status(&selection).await, 404);
}

/// RULE-SEL-056, RULE-SEL-030: a change of the link publishes `selection-updated` once. A repeat
/// changes nothing, and an outdated version is refused.
#[tokio::test]
async fn change_of_the_link_is_published_once() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let expires_at = "2030-01-01T03:00:00.1234567+03:00".to_owned();
    let changed = replace(&owner, &selection, true, Some(expires_at.clone())).await;
    assert_eq!(changed["Link"]["ExpiresAt"], "2030-01-01T00:00:00.123456Z");
    assert_eq!(replace(&owner, &selection, true, Some(expires_at)).await, changed);
    let outdated = json!({"IsEnabled": false, "ExpiresAt": null, "Version": 1});
    let refused = owner.put(&link_path(&selection), outdated).await;
    refused.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
    let events = events_of(service(), &selection).await;
    assert_eq!(topics(&events), [CREATED, UPDATED]);
    assert_eq!(events[1].payload["ChangedFields"], json!(["Link"]));
    assert_eq!(events[1].payload["Version"], 2);
}

/// INV-SEL-002, RULE-SEL-056: an invalid body is refused, and so is a change of another user's
/// selection.
#[tokio::test]
async fn invalid_change_of_the_link_is_refused() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    for (body, field) in [
        (json!({"ExpiresAt": null}), "/IsEnabled"),
        (json!({"IsEnabled": true}), "/ExpiresAt"),
        (json!({"IsEnabled": "yes", "ExpiresAt": null}), "/IsEnabled"),
        (json!({"IsEnabled": true, "ExpiresAt": "tomorrow"}), "/ExpiresAt"),
    ] {
        let refused = owner.put(&link_path(&selection), body).await;
        let problem = refused.expect_problem(400, "SELECTIONS_VALIDATION_FAILED");
        assert_eq!(problem["errors"][0]["field"], field);
    }
    let (_, stranger) = service().user();
    let refused = stranger.put(&link_path(&selection), json!({"IsEnabled": false, "ExpiresAt": null})).await;
    refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
    assert_eq!(reread(&owner, &selection).await, selection);
}
