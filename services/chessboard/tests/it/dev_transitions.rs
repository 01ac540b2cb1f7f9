//! Transitions of a profile by users and by the identity cascade.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::access::losses;
use testkit::client::send;
use uuid::Uuid;

use crate::objects::{PROJECTS, project};
use crate::{
    ADMIN, ME, administrator, company_event, create_developer, create_published_developer, each, eventually,
    guid, manager, path, profile, profile_events, publish_company, publish_profile, publish_suspension,
    read_developer, read_when, service, text, with,
};

/// Requests a transition without a body.
async fn transition(developer: Uuid, operation: &str) -> Value {
    send(administrator().request(Method::POST, &path(developer, operation))).await.expect(200)
}

/// RULE-CHS-005, RULE-CHS-018: each transition follows the table and publishes one event. Any
/// other transition returns 409.
#[tokio::test]
async fn profile_transition_follows_table() {
    for (from, operation, to) in [
        ("Draft", "/publish", Some("Published")),
        ("Draft", "/hide", None),
        ("Draft", "/withdraw", None),
        ("Published", "/publish", None),
        ("Published", "/hide", Some("Hidden")),
        ("Published", "/withdraw", Some("Draft")),
        ("Hidden", "/publish", Some("Published")),
        ("Hidden", "/hide", None),
        ("Hidden", "/withdraw", None),
    ] {
        let id = create_developer().await;
        let steps: &[&str] = match from {
            "Draft" => &[],
            "Published" => &["/publish"],
            _ => &["/publish", "/hide"],
        };
        manager(id).put(ME, profile()).await.expect(200);
        for step in steps {
            transition(id, step).await;
        }
        let before = read_developer(id).await;
        assert_eq!(before["Status"], from);
        let response = manager(id).post(&format!("{ME}{operation}"), json!({})).await;
        let Some(to) = to else {
            response.expect_problem(409, "CHESSBOARD_DEVELOPER_INVALID_TRANSITION");
            assert_eq!(read_developer(id).await, before, "{from} {operation}");
            continue;
        };
        let (after, version) = (response.expect(200), steps.len() + 3);
        assert_eq!(
            (&after["Status"], &after["Version"]),
            (&json!(to), &json!(version)),
            "{from} {operation}"
        );
        let last = profile_events(id).await.pop().unwrap();
        assert_eq!(
            (&last.payload["Status"], &last.payload["Version"]),
            (&after["Status"], &after["Version"])
        );
    }
}

/// INV-DEV-5, RULE-CHS-020: publishing requires `Name`, `LogoFileId` and `Description`. A text of
/// white space and invisible characters counts as empty, and the problem names the fields.
#[tokio::test]
async fn incomplete_profile_is_not_published() {
    let id = create_developer().await;
    for (change, members) in [
        (json!({"Name": " \u{a0}\t"}), vec!["/Name"]),
        (json!({"LogoFileId": null}), vec!["/LogoFileId"]),
        (json!({"Name": "\u{200b}"}), vec!["/Name"]),
        (json!({"Description": "\n "}), vec!["/Description"]),
        (json!({"Description": "\u{2060}\u{feff} "}), vec!["/Description"]),
        (
            json!({"Name": " ", "LogoFileId": null, "Description": null}),
            vec!["/Name", "/LogoFileId", "/Description"],
        ),
    ] {
        let mut body = profile();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        administrator().put(&path(id, ""), body).await.expect(200);
        let refused = manager(id).post(&format!("{ME}/publish"), json!({})).await;
        let problem = refused.expect_problem(409, "CHESSBOARD_DEVELOPER_PUBLISH_INCOMPLETE");
        let named: Vec<_> = each(&problem["errors"], "field").into_iter().map(text).collect();
        assert_eq!(named, members);
    }
    administrator().put(&path(id, ""), profile()).await.expect(200);
    transition(id, "/publish").await;
    let emptied = with(profile(), "Description", Value::Null);
    let emptied = manager(id).put(ME, emptied).await.expect(200);
    assert_eq!(emptied["Status"], "Published", "an edit of a published profile may empty a field");
    transition(id, "/hide").await;
    let refused = manager(id).post(&format!("{ME}/publish"), json!({})).await;
    refused.expect_problem(409, "CHESSBOARD_DEVELOPER_PUBLISH_INCOMPLETE");
}

/// RULE-CHS-005, RULE-CHS-019: publishing returns 409 while the company is not Active, before
/// incomplete fields are checked.
#[tokio::test]
async fn profile_of_inactive_company_is_not_published() {
    for status in ["Suspended", "Archived"] {
        let id = guid();
        publish_company(&company_event(id, status, 1)).await;
        eventually("the company", async || {
            (administrator().post(ADMIN, json!({"CompanyId": id})).await.status == 201).then_some(())
        })
        .await;
        let refused = manager(id).post(&format!("{ME}/publish"), json!({})).await;
        refused.expect_problem(409, "CHESSBOARD_DEVELOPER_COMPANY_NOT_ACTIVE");
        publish_company(&company_event(id, "Active", 2)).await;
        administrator().put(&path(id, ""), profile()).await.expect(200);
        let publish = async || {
            (manager(id).post(&format!("{ME}/publish"), json!({})).await.status == 200).then_some(())
        };
        eventually("the company to be active", publish).await;
    }
}

/// RULE-CHS-019, RULE-CHS-035, RULE-ALL-075: after the archiving of a company, its manager can
/// publish nothing with an older token. The revocation then invalidates the token.
#[tokio::test]
async fn manager_of_archived_company_publishes_nothing() {
    let id = create_published_developer().await;
    let by = manager(id);
    let created = by.post(PROJECTS, project()).await.expect(201);
    publish_company(&company_event(id, "Archived", 2)).await;
    read_when(id, "the cascade", |found| found["Status"] == "Hidden").await;
    let publish = by.post(&format!("{ME}/publish"), json!({})).await;
    publish.expect_problem(409, "CHESSBOARD_DEVELOPER_COMPANY_NOT_ACTIVE");
    let publish = by.post(&format!("{PROJECTS}/{}/publish", text(&created["Id"])), json!({})).await;
    publish.expect_problem(409, "CHESSBOARD_PROJECT_DEVELOPER_NOT_PUBLISHED");
    losses::revoke(service(), "Company", id, runtime::clock::now()).await;
    eventually("the end of the token", async || (by.get(ME).await.status == 401).then_some(())).await;
    by.put(ME, profile()).await.expect_problem(401, "UNAUTHORIZED");
    by.post(PROJECTS, project()).await.expect_problem(401, "UNAUTHORIZED");
}

/// RULE-CHS-005: suspension or archiving hides a Published profile, and reactivation publishes it
/// again.
#[tokio::test]
async fn identity_hides_and_republishes_profile() {
    for status in ["Suspended", "Archived"] {
        let id = create_published_developer().await;
        publish_company(&company_event(id, status, 2)).await;
        let hidden = read_when(id, "the cascade", |developer| developer["Status"] == "Hidden").await;
        assert_eq!(hidden["Version"], 4);
        assert_eq!(hidden["UpdatedByUserId"], "00000000-0000-7000-8000-000000000001");
        publish_company(&company_event(id, "Active", 3)).await;
        let shown = read_when(id, "the reactivation", |developer| developer["Status"] == "Published").await;
        assert_eq!(shown["Version"], 5);
        let statuses: Vec<_> =
            profile_events(id).await.into_iter().map(|event| event.payload["Status"].clone()).collect();
        assert_eq!(statuses, ["Draft", "Draft", "Published", "Hidden", "Published"]);
    }
}

/// RULE-CHS-001: `company-suspended` contains the whole company, so it replaces a late
/// `company-upserted`.
#[tokio::test]
async fn suspension_event_replaces_late_upsert() {
    let id = create_published_developer().await;
    let suspended = with(company_event(id, "Suspended", 2), "Name", "Иное имя");
    publish_suspension(&suspended).await;
    let hidden = read_when(id, "the cascade", |developer| developer["Status"] == "Hidden").await;
    assert_eq!(hidden["Name"], "Иное имя");
    publish_company(&suspended).await;
    publish_company(&company_event(id, "Active", 3)).await;
    let shown = read_when(id, "the reactivation", |developer| developer["Status"] == "Published").await;
    assert_eq!(shown["Version"], hidden["Version"].as_i64().unwrap() + 1);
}

/// RULE-CHS-005: a reactivation does not publish a profile that a user hid. A Draft stays a Draft.
#[tokio::test]
async fn profile_hidden_by_user_stays_hidden() {
    let (hidden, draft) = (create_published_developer().await, create_developer().await);
    transition(hidden, "/hide").await;
    for version in [2, 4] {
        for id in [hidden, draft] {
            publish_company(&company_event(id, "Suspended", version)).await;
            publish_company(&company_event(id, "Active", version + 1)).await;
        }
    }
    // After the rename all earlier events of the company are applied.
    for id in [hidden, draft] {
        publish_company(&with(company_event(id, "Active", 6), "Name", "Иное имя")).await;
        read_when(id, "the rename", |developer| developer["Name"] == "Иное имя").await;
    }
    assert_eq!(read_developer(hidden).await["Status"], "Hidden");
    assert_eq!(read_developer(draft).await["Status"], "Draft");
}

/// RULE-CHS-005: identity does not republish a profile that a user hid, even if identity had
/// republished it before.
#[tokio::test]
async fn identity_republishes_only_its_own_hiding() {
    let id = create_published_developer().await;
    publish_company(&company_event(id, "Suspended", 2)).await;
    read_when(id, "the cascade", |developer| developer["Status"] == "Hidden").await;
    let refused = manager(id).post(&format!("{ME}/hide"), json!({})).await;
    refused.expect_problem(409, "CHESSBOARD_DEVELOPER_INVALID_TRANSITION");
    publish_company(&company_event(id, "Active", 3)).await;
    read_when(id, "the reactivation", |developer| developer["Status"] == "Published").await;
    transition(id, "/hide").await;
    publish_company(&company_event(id, "Suspended", 4)).await;
    publish_company(&with(company_event(id, "Active", 5), "Name", "Иное имя")).await;
    let renamed = read_when(id, "the rename", |developer| developer["Name"] == "Иное имя").await;
    assert_eq!(renamed["Status"], "Hidden");
}

/// RULE-CHS-005: a profile that is incomplete (INV-DEV-5) at the reactivation stays Hidden and
/// leaves the cascade.
#[tokio::test]
async fn incomplete_profile_leaves_cascade_at_reactivation() {
    let id = create_published_developer().await;
    let emptied = with(profile(), "Description", Value::Null);
    administrator().put(&path(id, ""), emptied).await.expect(200);
    publish_company(&company_event(id, "Suspended", 2)).await;
    read_when(id, "the cascade", |developer| developer["Status"] == "Hidden").await;
    publish_company(&with(company_event(id, "Active", 3), "Name", "Второе имя")).await;
    let reactivated = read_when(id, "the rename", |developer| developer["Name"] == "Второе имя").await;
    assert_eq!(reactivated["Status"], "Hidden");
    administrator().put(&path(id, ""), with(profile(), "Name", "Второе имя")).await.expect(200);
    publish_company(&with(company_event(id, "Suspended", 4), "Name", "Второе имя")).await;
    publish_company(&with(company_event(id, "Active", 5), "Name", "Третье имя")).await;
    let renamed = read_when(id, "the rename", |developer| developer["Name"] == "Третье имя").await;
    assert_eq!(renamed["Status"], "Hidden");
    publish_profile(id).await;
}
