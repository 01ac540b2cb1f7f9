//! Moves of a profile: by people, and by what becomes of its company.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use uuid::Uuid;

use crate::{
    ADMIN, ME, company, create_developer, create_published_developer, each, guid, manager, operator, path,
    profile, profile_events, publish, read, read_when, tell_company, tell_suspension, text, with,
};

/// Without a body, which a move may do.
async fn make(developer: Uuid, made: &str) -> Value {
    send(operator().request(Method::POST, &path(developer, made))).await.expect(200)
}

/// Section 4: the table of moves, whole, with what each tells.
#[tokio::test]
async fn a_profile_moves_as_the_table_says() {
    for (from, made, to) in [
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
        let way: &[&str] = match from {
            "Draft" => &[],
            "Published" => &["/publish"],
            _ => &["/publish", "/hide"],
        };
        manager(id).put(ME, profile()).await.expect(200);
        for step in way {
            make(id, step).await;
        }
        let before = read(id).await;
        assert_eq!(before["Status"], from);
        let answer = manager(id).post(&format!("{ME}{made}"), json!({})).await;
        let Some(to) = to else {
            answer.expect_problem(409, "CHESSBOARD_DEVELOPER_INVALID_TRANSITION");
            assert_eq!(read(id).await, before, "{from} {made}");
            continue;
        };
        let (after, moves) = (answer.expect(200), way.len() + 3);
        assert_eq!((&after["Status"], &after["Version"]), (&json!(to), &json!(moves)), "{from} {made}");
        let last = profile_events(id).await.pop().unwrap();
        assert_eq!(
            (&last.payload["Status"], &last.payload["Version"]),
            (&after["Status"], &after["Version"])
        );
    }
}

/// INV-DEV-5: publishing needs `Name`, `LogoFileId` and `Description`; white space fills nothing. The members are named.
#[tokio::test]
async fn an_incomplete_profile_is_not_published() {
    let id = create_developer().await;
    for (change, members) in [
        (json!({"Name": " \u{a0}\t"}), vec!["/Name"]),
        (json!({"LogoFileId": null}), vec!["/LogoFileId"]),
        (json!({"Description": "\n "}), vec!["/Description"]),
        (
            json!({"Name": " ", "LogoFileId": null, "Description": null}),
            vec!["/Name", "/LogoFileId", "/Description"],
        ),
    ] {
        let mut body = profile();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        operator().put(&path(id, ""), body).await.expect(200);
        let refused = manager(id).post(&format!("{ME}/publish"), json!({})).await;
        let problem = refused.expect_problem(409, "CHESSBOARD_DEVELOPER_PUBLISH_INCOMPLETE");
        let named: Vec<_> = each(&problem["errors"], "field").into_iter().map(text).collect();
        assert_eq!(named, members);
    }
    operator().put(&path(id, ""), profile()).await.expect(200);
    make(id, "/publish").await;
    let emptied = with(profile(), "Description", Value::Null);
    let emptied = manager(id).put(ME, emptied).await.expect(200);
    assert_eq!(emptied["Status"], "Published", "an edit of a published profile may empty a field");
    make(id, "/hide").await;
    let refused = manager(id).post(&format!("{ME}/publish"), json!({})).await;
    refused.expect_problem(409, "CHESSBOARD_DEVELOPER_PUBLISH_INCOMPLETE");
}

/// Section 4: nobody publishes the profile of a company that is not Active; that comes before what is lacking.
#[tokio::test]
async fn a_company_that_is_not_active_is_not_published() {
    for status in ["Suspended", "Archived"] {
        let id = guid();
        tell_company(&company(id, status, 1)).await;
        crate::eventually("the company", async || {
            (operator().post(ADMIN, json!({"CompanyId": id})).await.status == 201).then_some(())
        })
        .await;
        let refused = manager(id).post(&format!("{ME}/publish"), json!({})).await;
        refused.expect_problem(409, "CHESSBOARD_DEVELOPER_COMPANY_NOT_ACTIVE");
        tell_company(&company(id, "Active", 2)).await;
        operator().put(&path(id, ""), profile()).await.expect(200);
        let publish = async || {
            (manager(id).post(&format!("{ME}/publish"), json!({})).await.status == 200).then_some(())
        };
        crate::eventually("the company to be active", publish).await;
    }
}

/// Section 4: a suspension or archiving hides what is published; reactivation publishes what identity hid.
#[tokio::test]
async fn identity_hides_and_publishes_again() {
    for status in ["Suspended", "Archived"] {
        let id = create_published_developer().await;
        tell_company(&company(id, status, 2)).await;
        let hidden = read_when(id, "the cascade", |developer| developer["Status"] == "Hidden").await;
        assert_eq!(hidden["Version"], 4);
        assert_eq!(hidden["UpdatedByUserId"], "00000000-0000-7000-8000-000000000001");
        tell_company(&company(id, "Active", 3)).await;
        let shown = read_when(id, "the reactivation", |developer| developer["Status"] == "Published").await;
        assert_eq!(shown["Version"], 5);
        let statuses: Vec<_> =
            profile_events(id).await.into_iter().map(|event| event.payload["Status"].clone()).collect();
        assert_eq!(statuses, ["Draft", "Draft", "Published", "Hidden", "Published"]);
    }
}

/// `company-suspended` carries the whole company: it stands in for an upsert that is late.
#[tokio::test]
async fn a_suspension_stands_in_for_an_upsert_that_is_late() {
    let id = create_published_developer().await;
    let suspended = with(company(id, "Suspended", 2), "Name", "Иное имя");
    tell_suspension(&suspended).await;
    let hidden = read_when(id, "the cascade", |developer| developer["Status"] == "Hidden").await;
    assert_eq!(hidden["Name"], "Иное имя");
    tell_company(&suspended).await;
    tell_company(&company(id, "Active", 3)).await;
    let shown = read_when(id, "the reactivation", |developer| developer["Status"] == "Published").await;
    assert_eq!(shown["Version"], hidden["Version"].as_i64().unwrap() + 1);
}

/// Section 4: what a person hid, identity leaves hidden; a Draft stays a Draft.
#[tokio::test]
async fn what_a_person_hid_stays_hidden() {
    let (hidden, draft) = (create_published_developer().await, create_developer().await);
    make(hidden, "/hide").await;
    for version in [2, 4] {
        for id in [hidden, draft] {
            tell_company(&company(id, "Suspended", version)).await;
            tell_company(&company(id, "Active", version + 1)).await;
        }
    }
    // A rename shows that all before it was heard.
    for id in [hidden, draft] {
        tell_company(&with(company(id, "Active", 6), "Name", "Иное имя")).await;
        read_when(id, "the rename", |developer| developer["Name"] == "Иное имя").await;
    }
    assert_eq!(read(hidden).await["Status"], "Hidden");
    assert_eq!(read(draft).await["Status"], "Draft");
}

/// Section 4: whoever hides by the API takes the profile out of the cascade, also after identity published it again.
#[tokio::test]
async fn identity_publishes_only_what_it_hid_last() {
    let id = create_published_developer().await;
    tell_company(&company(id, "Suspended", 2)).await;
    read_when(id, "the cascade", |developer| developer["Status"] == "Hidden").await;
    let refused = manager(id).post(&format!("{ME}/hide"), json!({})).await;
    refused.expect_problem(409, "CHESSBOARD_DEVELOPER_INVALID_TRANSITION");
    tell_company(&company(id, "Active", 3)).await;
    read_when(id, "the reactivation", |developer| developer["Status"] == "Published").await;
    make(id, "/hide").await;
    tell_company(&company(id, "Suspended", 4)).await;
    tell_company(&with(company(id, "Active", 5), "Name", "Иное имя")).await;
    let renamed = read_when(id, "the rename", |developer| developer["Name"] == "Иное имя").await;
    assert_eq!(renamed["Status"], "Hidden");
}

/// Section 4: where INV-DEV-5 does not hold, a reactivation leaves the profile hidden, and identity's claim has ended.
#[tokio::test]
async fn an_incomplete_profile_is_a_persons_to_publish() {
    let id = create_published_developer().await;
    let emptied = with(profile(), "Description", Value::Null);
    operator().put(&path(id, ""), emptied).await.expect(200);
    tell_company(&company(id, "Suspended", 2)).await;
    read_when(id, "the cascade", |developer| developer["Status"] == "Hidden").await;
    tell_company(&with(company(id, "Active", 3), "Name", "Второе имя")).await;
    let reactivated = read_when(id, "the rename", |developer| developer["Name"] == "Второе имя").await;
    assert_eq!(reactivated["Status"], "Hidden");
    operator().put(&path(id, ""), with(profile(), "Name", "Второе имя")).await.expect(200);
    tell_company(&with(company(id, "Suspended", 4), "Name", "Второе имя")).await;
    tell_company(&with(company(id, "Active", 5), "Name", "Третье имя")).await;
    let renamed = read_when(id, "the rename", |developer| developer["Name"] == "Третье имя").await;
    assert_eq!(renamed["Status"], "Hidden");
    publish(id).await;
}
