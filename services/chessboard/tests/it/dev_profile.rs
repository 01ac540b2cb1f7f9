//! Profiles: how they are made, written, deleted and brought back.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    ADMIN, COMPANY_UPSERTED, ME, company, create_developer, create_published_developer, each, guid,
    highlights, list, manager, next, operator, outside, path, profile, profile_events, profile_versions,
    publish, read, read_when, service, tell_company, tell_outside, with, without,
};

const IDENTITY: &str = "00000000-0000-7000-8000-000000000001";

fn default_highlights() -> Value {
    json!({
        "ContractVersion": 1, "ObjectsDeliveredCount": null, "ObjectsInProgressCount": null, "YearsOnMarket": null,
        "ReliabilityValue": null, "ReliabilityMax": 10, "AwardTitles": [],
    })
}

/// Waits until the service has stored this version of a company.
async fn heard(company: Uuid, version: i64) {
    let sql = service().sql().await;
    let stored = "select 1 from company where id = $1::text::uuid and version = $2";
    let ask = async || sql.query_opt(stored, &[&company.to_string(), &version]).await.unwrap();
    crate::eventually("the company", ask).await;
}

/// Section 9: an Active company of Type Developer gets its profile at once, whole, and others are told of it.
#[tokio::test]
async fn an_active_developer_company_gets_a_profile() {
    let id = create_developer().await;
    let made = read(id).await;
    let expected = json!({
        "Id": id, "Status": "Draft", "Name": "Ромашка", "LegalName": "ООО «Ромашка»", "Description": null,
        "LogoFileId": null, "Website": null, "ContactPhone": null, "ContactEmail": null, "FoundedYear": null,
        "Highlights": default_highlights(), "ProjectsPublishedCount": 0, "ExternalChessboardDeveloperId": null,
        "SyncSource": "Platform", "ReplicaVersion": null, "LastSyncedAt": null, "CreatedAt": made["CreatedAt"],
        "CreatedByUserId": IDENTITY, "UpdatedAt": made["CreatedAt"], "UpdatedByUserId": IDENTITY,
        "DeletedAt": null, "DeletedByUserId": null, "Version": 1,
    });
    assert_eq!(made, expected);
    assert_eq!(manager(id).get(ME).await.expect(200), made);
    let events = profile_events(id).await;
    assert_eq!(
        events[0].payload,
        json!({
            "Id": id, "Status": "Draft", "Name": "Ромашка", "LegalName": "ООО «Ромашка»", "LogoFileId": null,
            "FoundedYear": null, "Highlights": default_highlights(), "Version": 1,
        })
    );
    assert_eq!(events[0].headers["aggregatetype"], "Developer");
}

/// Traces: what a consumer tells is in the trace of what it was told.
#[tokio::test]
async fn what_a_company_sets_off_is_in_its_trace() {
    let (id, trace) = (guid(), guid().simple().to_string());
    let headers = [
        ("ce_id", guid().to_string()),
        ("ce_sequence", next().to_string()),
        ("traceparent", format!("00-{trace}-00f067aa0ba902b7-01")),
    ];
    let (key, payload) = (id.to_string(), company(id, "Active", 1).to_string());
    service().bus().publish_raw(COMPANY_UPSERTED, key.as_bytes(), &headers, payload.as_bytes()).await;
    read_when(id, "the developer", |_| true).await;
    let published = profile_events(id).await.remove(0);
    assert_eq!(published.headers["traceparent"].split('-').nth(1), Some(trace.as_str()));
}

/// Section 9: one that is first seen in another status gets it when it becomes Active; other Types get none.
#[tokio::test]
async fn a_company_waits_for_its_profile_until_it_is_active() {
    let (late, agency, marker) = (guid(), guid(), guid());
    tell_company(&company(late, "Suspended", 1)).await;
    tell_company(&with(company(agency, "Active", 1), "Type", "Agency")).await;
    tell_company(&company(late, "Archived", 2)).await;
    tell_company(&company(marker, "Active", 1)).await;
    read_when(marker, "the marker", |_| true).await;
    tell_company(&company(late, "Active", 3)).await;
    read_when(late, "the profile", |profile| profile["Status"] == "Draft").await;
    operator().get(&path(agency, "")).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
}

/// Section 1: `PUT` replaces: what is left out becomes null; the phone number is kept in E.164.
#[tokio::test]
async fn a_profile_is_replaced_whole() {
    let id = create_developer().await;
    let written = manager(id).put(ME, with(profile(), "Unknown", 1)).await.expect(200);
    for (member, value) in profile().as_object().unwrap() {
        match member.as_str() {
            "ContactPhone" => assert_eq!(written[member], "+74951234567"),
            "LogoFileId" => assert!(written[member].is_string()),
            _ => assert_eq!(written[member], *value, "{member}"),
        }
    }
    assert_eq!((&written["Version"], &written["Status"]), (&json!(2), &json!("Draft")));
    let least = json!({"Name": " x ", "Highlights": {"ContractVersion": 1, "AwardTitles": []}});
    let emptied = manager(id).put(ME, least).await.expect(200);
    assert_eq!(emptied["Name"], " x ", "texts are kept as sent");
    for member in
        ["LegalName", "Description", "LogoFileId", "Website", "ContactPhone", "ContactEmail", "FoundedYear"]
    {
        assert_eq!(emptied[member], Value::Null, "{member}");
    }
    assert_eq!(emptied["Highlights"], default_highlights());
    assert_eq!(read(id).await, emptied);
}

/// Section 6: a `PUT` that changes nothing is 200, whatever the Version. It adds no entry to the log and publishes no event.
#[tokio::test]
async fn a_put_that_changes_nothing_leaves_no_entry_and_no_event() {
    let id = create_developer().await;
    let body = profile();
    let written = manager(id).put(ME, body.clone()).await.expect(200);
    let again = with(with(body, "ContactPhone", "+7 495 123 45 67"), "Version", 77);
    assert_eq!(manager(id).put(ME, again).await.expect(200), written);
    assert_eq!(crate::entries(id).await.len(), 2);
    assert_eq!(profile_versions(id).await, [1, 2]);
}

/// Section 8: each change of Name, Status, `LogoFileId` or Highlights publishes one event. Any other change is in the next event.
#[tokio::test]
async fn only_a_change_of_name_status_logo_or_highlights_publishes_an_event() {
    let id = create_published_developer().await;
    let body = without(without(read(id).await, "Id"), "Version");
    let mut changed = body.clone();
    for (member, value) in [
        ("Description", json!("иное")),
        ("LegalName", json!("иное")),
        ("Website", json!(null)),
        ("ContactPhone", json!(null)),
        ("ContactEmail", json!("b@example.org")),
        ("FoundedYear", json!(2001)),
        ("Name", json!("Иная")),
        ("LogoFileId", json!(guid())),
        ("Highlights", with(highlights(), "YearsOnMarket", 3)),
    ] {
        changed[member] = value;
        operator().put(&path(id, ""), changed.clone()).await.expect(200);
    }
    assert_eq!(read(id).await["Version"], 12);
    assert_eq!(profile_versions(id).await, [1, 2, 3, 10, 11, 12]);
    let events = profile_events(id).await;
    let renamed = &events[3].payload;
    assert_eq!((&renamed["LegalName"], &renamed["FoundedYear"]), (&json!("иное"), &json!(2001)));
    for event in &events {
        let payload = event.payload.to_string();
        assert!(
            !payload.contains("example.org") && !payload.contains("+7495"),
            "contacts are in answers alone"
        );
    }
}

/// Section 2, `POST A`: in Draft; names left out are the company's, and Highlights the default ones.
#[tokio::test]
async fn the_platform_makes_a_profile() {
    let (id, outside) = (guid(), guid());
    tell_company(&company(id, "Suspended", 1)).await;
    let body =
        json!({"CompanyId": id, "ExternalChessboardDeveloperId": outside, "Website": "http://example.org"});
    let made = crate::eventually("the company", async || {
        let answer = operator().post(ADMIN, body.clone()).await;
        (answer.status == 201).then_some(answer.body)
    })
    .await;
    assert_eq!((&made["Name"], &made["LegalName"]), (&json!("Ромашка"), &json!("ООО «Ромашка»")));
    assert_eq!((&made["Status"], &made["Version"]), (&json!("Draft"), &json!(1)));
    assert_eq!((&made["SyncSource"], &made["ReplicaVersion"]), (&json!("ExternalChessboard"), &json!(0)));
    assert_eq!((&made["LastSyncedAt"], &made["Highlights"]), (&Value::Null, &default_highlights()));
    assert_eq!(made["ExternalChessboardDeveloperId"], json!(outside));
    assert_eq!(read(id).await, made);
    operator().post(ADMIN, body).await.expect_problem(409, "CHESSBOARD_DEVELOPER_ALREADY_EXISTS");
    let other = create_developer().await;
    operator().delete(&path(other, "")).await.expect(204);
    let taken = json!({"CompanyId": other, "ExternalChessboardDeveloperId": outside});
    operator().post(ADMIN, taken).await.expect_problem(409, "CHESSBOARD_DEVELOPER_TALENT_DUPLICATE");
}

/// Section 2, `DELETE A/{developerId}`: soft; a Published profile becomes Hidden in the same write; a repeat is 404.
#[tokio::test]
async fn a_deleted_profile_is_hidden_and_is_there_for_the_platform_alone() {
    let id = create_published_developer().await;
    operator().delete(&path(id, "")).await.expect(204);
    operator().delete(&path(id, "")).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    let deleted = read(id).await;
    assert_eq!((&deleted["Status"], &deleted["Version"]), (&json!("Hidden"), &json!(4)));
    assert!(deleted["DeletedAt"].is_string() && deleted["DeletedByUserId"].is_string());
    manager(id).get(ME).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    manager(id).get(&format!("{ME}/events")).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    for (answer, what) in [
        (operator().put(&path(id, ""), profile()).await, "put"),
        (operator().post(&path(id, "/publish"), json!({})).await, "publish"),
        (operator().post(&path(id, "/release"), json!({})).await, "release"),
    ] {
        assert_eq!(answer.status, 404, "{what}");
    }
    let events = profile_events(id).await;
    assert_eq!((events.len(), &events[3].payload["Status"]), (4, &json!("Hidden")));
}

/// Section 2: a deleted profile of the platform comes back by `POST A` alone. It has its Id, a higher Version, the members of the body and
/// the defaults of the others; a name that the body leaves out is the company's.
#[tokio::test]
async fn a_deleted_platform_profile_comes_back_with_the_members_of_the_body() {
    let id = create_published_developer().await;
    operator().delete(&path(id, "")).await.expect(204);
    tell_company(&with(company(id, "Active", 2), "Name", "Новое имя")).await;
    heard(id, 2).await;
    assert_eq!(read(id).await["Name"], "Ромашка", "no event changes a deleted profile");
    let back = operator().post(ADMIN, json!({"CompanyId": id, "FoundedYear": 1950})).await.expect(201);
    assert_eq!((&back["Id"], &back["Status"], &back["Version"]), (&json!(id), &json!("Draft"), &json!(5)));
    assert_eq!((&back["Name"], &back["FoundedYear"]), (&json!("Новое имя"), &json!(1950)));
    for member in ["Description", "LogoFileId", "Website", "ContactPhone", "DeletedAt", "DeletedByUserId"] {
        assert_eq!(back[member], Value::Null, "{member}");
    }
    assert_eq!(back["Highlights"], default_highlights());
    assert_eq!(profile_versions(id).await, [1, 2, 3, 4, 5]);
    assert_eq!(manager(id).get(ME).await.expect(200), back);
}

/// Section 2: a deleted profile with an outside id comes back with the same outside id, `SyncSource` and `ReplicaVersion`, whatever outside
/// id the body has. The replica fields are those of the body or the company, as for a profile of the platform, until the outside system
/// publishes a later version. The version that was applied last does not bring them back.
#[tokio::test]
async fn a_deleted_replica_comes_back_with_its_link_and_the_replica_fields_of_the_body() {
    let (id, outside_id) = (create_developer().await, guid());
    tell_outside(&outside(outside_id, id, 5)).await;
    let linked = read_when(id, "the link", |found| found["ReplicaVersion"] == 5).await;
    operator().delete(&path(id, "")).await.expect(204);
    let body = json!({"CompanyId": id, "ExternalChessboardDeveloperId": guid(), "FoundedYear": 1950});
    let back = operator().post(ADMIN, body).await.expect(201);
    for member in ["ExternalChessboardDeveloperId", "SyncSource", "ReplicaVersion", "LastSyncedAt"] {
        assert_eq!(back[member], linked[member], "{member}");
    }
    assert_eq!((&back["Name"], &back["LegalName"]), (&json!("Ромашка"), &json!("ООО «Ромашка»")));
    assert_eq!((&back["FoundedYear"], &back["LogoFileId"]), (&json!(1950), &Value::Null));
    assert_eq!(back["Version"], linked["Version"].as_i64().unwrap() + 2);
    let restored = crate::entries(id).await.pop().unwrap();
    assert_eq!(
        (&restored["Kind"], &restored["SyncSource"], &restored["ChangedFields"]),
        (&json!("Restored"), &json!("ExternalChessboard"), &json!([]))
    );
    // The second event follows the first one, which therefore has been applied or skipped by then.
    tell_outside(&outside(outside_id, id, 5)).await;
    tell_outside(&with(outside(outside_id, id, 6), "Name", "Шесть")).await;
    let synced = read_when(id, "the later version", |found| found["ReplicaVersion"] == 6).await;
    assert_eq!((&synced["Name"], &synced["FoundedYear"]), (&json!("Шесть"), &json!(1999)));
    assert_eq!(synced["Version"], back["Version"].as_i64().unwrap() + 1, "version 5 was skipped");
}

/// Section 2, `GET A`: filters, sorts, pages.
#[tokio::test]
async fn the_platform_lists_all_developers() {
    let tag = guid().simple().to_string();
    let mut made: Vec<Uuid> = Vec::new();
    for (name, legal) in [("Бета", None), ("альфа", Some("100%_Ab")), ("Гамма", Some("x"))] {
        let id = create_developer().await;
        let body = json!({
            "Name": format!("{tag} {name}"), "LegalName": legal.map(|legal| format!("{legal} {tag}")),
            "Highlights": {"ContractVersion": 1, "AwardTitles": []},
        });
        operator().put(&path(id, ""), body).await.expect(200);
        made.push(id);
    }
    let upper = tag.to_uppercase();
    let names = async |query: String| -> Vec<String> {
        let page = operator().get(&format!("{ADMIN}?{query}")).await.expect(200);
        assert_eq!(page["TotalCount"], list(&page["Items"]).len(), "{query}");
        let name = |name: &&Value| name.as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
        each(&page["Items"], "Name").iter().map(name).collect()
    };
    assert_eq!(names(format!("Query={upper}")).await, ["Гамма", "альфа", "Бета"], "newest first");
    assert_eq!(names(format!("Query={upper}&Sort=Name")).await, ["альфа", "Бета", "Гамма"]);
    assert_eq!(names(format!("Query={upper}&Sort=-Name")).await, ["Гамма", "Бета", "альфа"]);
    assert_eq!(names(format!("Query={upper}&Sort=CreatedAt")).await, ["Бета", "альфа", "Гамма"]);
    assert_eq!(names(format!("Query=100%25_aB%20{tag}")).await, ["альфа"]);
    assert_eq!(names(format!("Query=100%25%25aB%20{tag}")).await, [""; 0], "characters are taken literally");
    let across = format!("Query=%D0%B0%0A100%25_Ab%20{tag}");
    assert_eq!(names(across).await, [""; 0], "in one of the names, not across them");
    publish(made[0]).await;
    operator().delete(&path(made[1], "")).await.expect(204);
    assert_eq!(names(format!("Query={tag}&Status=Draft")).await, ["Гамма"]);
    assert_eq!(
        names(format!("Query={tag}&IncludeDeleted=true&SyncSource=Platform")).await,
        ["Гамма", "альфа"]
    );
    assert_eq!(names(format!("Query={tag}&SyncSource=ExternalChessboard")).await, [""; 0]);
    assert_eq!(names(format!("Query={tag}&Sort=-UpdatedAt&IncludeDeleted=true")).await, ["альфа", "Гамма"]);
    let page =
        operator().get(&format!("{ADMIN}?Query={tag}&PageSize=1&IncludeDeleted=true")).await.expect(200);
    assert_eq!((&page["TotalCount"], &page["PageSize"]), (&json!(2), &json!(1)));
    let shown = operator().get(&format!("{ADMIN}?Query={tag}")).await.expect(200);
    assert_eq!(list(&shown["Items"])[0], read(made[2]).await);
}
