//! Profiles: creation, updates, deletion and restoration.

use serde_json::{Value, json};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::{
    ADMIN, COMPANY_UPSERTED, ME, administrator, company_event, create_developer, create_published_developer,
    each, external_profile, guid, highlights, list, manager, next_sequence, path, profile, profile_events,
    profile_versions, publish_company, publish_external_profile, publish_profile, read_developer, read_when,
    service, with, without,
};

const IDENTITY: &str = "00000000-0000-7000-8000-000000000001";

fn default_highlights() -> Value {
    json!({
        "ContractVersion": 1, "ObjectsDeliveredCount": null, "ObjectsInProgressCount": null, "YearsOnMarket": null,
        "ReliabilityValue": null, "ReliabilityMax": 10, "AwardTitles": [],
    })
}

/// Waits until the service has stored this version of a company.
pub async fn wait_for_company(company: Uuid, version: i64) {
    let sql = service().sql().await;
    let stored = "select 1 from company where id = $1::text::uuid and version = $2";
    let find = async || sql.query_opt(stored, &[&company.to_string(), &version]).await.unwrap();
    crate::eventually("the company", find).await;
}

/// RULE-CHS-001, RULE-EVT-007: an Active company of `Type` Developer gets a Draft profile at once,
/// and the service publishes `developer-upserted`.
#[tokio::test]
async fn active_developer_company_gets_profile() {
    let id = create_developer().await;
    let created = read_developer(id).await;
    let expected = json!({
        "Id": id, "Status": "Draft", "Name": "Ромашка", "LegalName": "ООО «Ромашка»", "Description": null,
        "LogoFileId": null, "Website": null, "ContactPhone": null, "ContactEmail": null, "FoundedYear": null,
        "Highlights": default_highlights(), "ProjectsPublishedCount": 0, "ExternalChessboardDeveloperId": null,
        "SyncSource": "Platform", "ReplicaVersion": null, "LastSyncedAt": null, "CreatedAt": created["CreatedAt"],
        "CreatedByUserId": IDENTITY, "UpdatedAt": created["CreatedAt"], "UpdatedByUserId": IDENTITY,
        "DeletedAt": null, "DeletedByUserId": null, "Version": 1,
    });
    assert_eq!(created, expected);
    assert_eq!(manager(id).get(ME).await.expect(200), created);
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

/// RULE-ALL-039: an event that a consumer publishes continues the trace of the consumed message.
#[tokio::test]
async fn event_of_consumer_continues_trace() {
    let (id, trace) = (guid(), guid().simple().to_string());
    let headers = [
        ("ce_id", guid().to_string()),
        ("ce_sequence", next_sequence().to_string()),
        ("traceparent", format!("00-{trace}-00f067aa0ba902b7-01")),
    ];
    let (key, payload) = (id.to_string(), company_event(id, "Active", 1).to_string());
    service().bus().publish_raw(COMPANY_UPSERTED, key.as_bytes(), &headers, payload.as_bytes()).await;
    read_when(id, "the developer", |_| true).await;
    let published = profile_events(id).await.remove(0);
    assert_eq!(published.headers["traceparent"].split('-').nth(1), Some(trace.as_str()));
}

/// RULE-CHS-001: a company that appears in another status gets its profile when it becomes Active.
/// Other types get none.
#[tokio::test]
async fn company_gets_profile_when_it_becomes_active() {
    let (late, agency) = (guid(), guid());
    publish_company(&company_event(late, "Suspended", 1)).await;
    publish_company(&with(company_event(agency, "Active", 1), "Type", "Agency")).await;
    publish_company(&company_event(late, "Archived", 2)).await;
    wait_for_company(late, 2).await;
    wait_for_company(agency, 1).await;
    for id in [late, agency] {
        administrator().get(&path(id, "")).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    }
    publish_company(&company_event(late, "Active", 3)).await;
    read_when(late, "the profile", |profile| profile["Status"] == "Draft").await;
}

/// RULE-CHS-002: `PUT` replaces all fields, an absent field becomes null, and the phone number is
/// stored in E.164.
#[tokio::test]
async fn put_replaces_whole_profile() {
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
    assert_eq!(emptied["Name"], " x ", "texts are stored as sent");
    for member in
        ["LegalName", "Description", "LogoFileId", "Website", "ContactPhone", "ContactEmail", "FoundedYear"]
    {
        assert_eq!(emptied[member], Value::Null, "{member}");
    }
    assert_eq!(emptied["Highlights"], default_highlights());
    assert_eq!(read_developer(id).await, emptied);
}

/// RULE-CHS-002: an identical body returns 200 regardless of `Version`, without a log entry or an
/// event.
#[tokio::test]
async fn identical_put_writes_no_entry_and_no_event() {
    let id = create_developer().await;
    let body = profile();
    let written = manager(id).put(ME, body.clone()).await.expect(200);
    let again = with(with(body, "ContactPhone", "+7 495 123 45 67"), "Version", 77);
    assert_eq!(manager(id).put(ME, again).await.expect(200), written);
    assert_eq!(crate::log_entries(id).await.len(), 2);
    assert_eq!(profile_versions(id).await, [1, 2]);
}

/// RULE-CHS-009, RULE-EVT-007: a change of `Name`, `Status`, `LogoFileId` or `Highlights` publishes
/// one event. Any other change is part of the next event.
#[tokio::test]
async fn only_published_fields_cause_event() {
    let id = create_published_developer().await;
    let body = without(without(read_developer(id).await, "Id"), "Version");
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
        administrator().put(&path(id, ""), changed.clone()).await.expect(200);
    }
    assert_eq!(read_developer(id).await["Version"], 12);
    assert_eq!(profile_versions(id).await, [1, 2, 3, 10, 11, 12]);
    let events = profile_events(id).await;
    let renamed = &events[3].payload;
    assert_eq!((&renamed["LegalName"], &renamed["FoundedYear"]), (&json!("иное"), &json!(2001)));
    for event in &events {
        let payload = event.payload.to_string();
        assert!(
            !payload.contains("example.org") && !payload.contains("+7495"),
            "an event has contacts: {payload}"
        );
    }
}

/// RULE-CHS-003, INV-DEV-2: a created profile is a Draft with the company's names and default
/// highlights. The external id of another profile returns 409.
#[tokio::test]
async fn administrator_creates_profile() {
    let (id, external_id) = (guid(), guid());
    publish_company(&company_event(id, "Suspended", 1)).await;
    let body = json!({"CompanyId": id, "ExternalChessboardDeveloperId": external_id, "Website": "http://example.org"});
    let created = crate::eventually("the company", async || {
        let response = administrator().post(ADMIN, body.clone()).await;
        (response.status == 201).then_some(response.body)
    })
    .await;
    assert_eq!((&created["Name"], &created["LegalName"]), (&json!("Ромашка"), &json!("ООО «Ромашка»")));
    assert_eq!((&created["Status"], &created["Version"]), (&json!("Draft"), &json!(1)));
    assert_eq!(
        (&created["SyncSource"], &created["ReplicaVersion"]),
        (&json!("ExternalChessboard"), &json!(0))
    );
    assert_eq!((&created["LastSyncedAt"], &created["Highlights"]), (&Value::Null, &default_highlights()));
    assert_eq!(created["ExternalChessboardDeveloperId"], json!(external_id));
    assert_eq!(read_developer(id).await, created);
    administrator().post(ADMIN, body).await.expect_problem(409, "CHESSBOARD_DEVELOPER_ALREADY_EXISTS");
    let other = create_developer().await;
    administrator().delete(&path(other, "")).await.expect(204);
    let taken = json!({"CompanyId": other, "ExternalChessboardDeveloperId": external_id});
    administrator().post(ADMIN, taken).await.expect_problem(409, "CHESSBOARD_DEVELOPER_TALENT_DUPLICATE");
}

/// RULE-CHS-003: a deletion is soft and hides a Published profile in the same write. Only
/// administrators can read the profile, and another deletion returns 404.
#[tokio::test]
async fn deleted_profile_is_hidden_and_visible_to_administrator_only() {
    let id = create_published_developer().await;
    administrator().delete(&path(id, "")).await.expect(204);
    administrator().delete(&path(id, "")).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    let deleted = read_developer(id).await;
    assert_eq!((&deleted["Status"], &deleted["Version"]), (&json!("Hidden"), &json!(4)));
    assert!(deleted["DeletedAt"].is_string() && deleted["DeletedByUserId"].is_string());
    manager(id).get(ME).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    manager(id).get(&format!("{ME}/events")).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    for (response, what) in [
        (administrator().put(&path(id, ""), profile()).await, "put"),
        (administrator().post(&path(id, "/publish"), json!({})).await, "publish"),
        (administrator().post(&path(id, "/release"), json!({})).await, "release"),
    ] {
        assert_eq!(response.status, 404, "{what}");
    }
    let events = profile_events(id).await;
    assert_eq!((events.len(), &events[3].payload["Status"]), (4, &json!("Hidden")));
}

/// RULE-CHS-058: the database refuses the removal of a profile, live or deleted, and of its log.
#[tokio::test]
async fn database_refuses_removal_of_profile() {
    let (live, deleted) = (create_published_developer().await, create_developer().await);
    administrator().delete(&path(deleted, "")).await.expect(204);
    let sql = service().sql().await;
    for id in [live, deleted] {
        let before = read_developer(id).await;
        for removal in [
            format!("delete from developer where id = '{id}'"),
            format!("delete from developer_log where developer_id = '{id}'"),
        ] {
            let refused = sql.batch_execute(&removal).await.unwrap_err();
            let code = refused.code().map(SqlState::code);
            assert!(matches!(code, Some("23001" | "23503")), "{removal}: {refused:?}");
        }
        assert_eq!(read_developer(id).await, before);
    }
}

/// RULE-CHS-003: a restored profile has its id, a higher version and the fields of the body. An
/// absent name is the company's.
#[tokio::test]
async fn restored_profile_has_fields_of_body() {
    let id = create_published_developer().await;
    administrator().delete(&path(id, "")).await.expect(204);
    publish_company(&with(company_event(id, "Active", 2), "Name", "Новое имя")).await;
    wait_for_company(id, 2).await;
    assert_eq!(read_developer(id).await["Name"], "Ромашка", "no event changes a deleted profile");
    let back = administrator().post(ADMIN, json!({"CompanyId": id, "FoundedYear": 1950})).await.expect(201);
    assert_eq!((&back["Id"], &back["Status"], &back["Version"]), (&json!(id), &json!("Draft"), &json!(5)));
    assert_eq!((&back["Name"], &back["FoundedYear"]), (&json!("Новое имя"), &json!(1950)));
    for member in ["Description", "LogoFileId", "Website", "ContactPhone", "DeletedAt", "DeletedByUserId"] {
        assert_eq!(back[member], Value::Null, "{member}");
    }
    assert_eq!(back["Highlights"], default_highlights());
    assert_eq!(profile_versions(id).await, [1, 2, 3, 4, 5]);
    assert_eq!(manager(id).get(ME).await.expect(200), back);
}

/// RULE-CHS-003, INV-DEV-3: a restored profile that the external system owns keeps its link and its
/// replica fields, regardless of the body. A later external version replaces these fields. Another
/// external id returns 409.
#[tokio::test]
async fn restored_replica_keeps_its_link() {
    let (id, external_id) = (create_developer().await, guid());
    publish_external_profile(&external_profile(external_id, id, 5)).await;
    let linked = read_when(id, "the link", |found| found["ReplicaVersion"] == 5).await;
    administrator().delete(&path(id, "")).await.expect(204);
    let body = json!({"CompanyId": id, "Name": "Y", "FoundedYear": 1950, "Description": "Z"});
    let other = with(body.clone(), "ExternalChessboardDeveloperId", json!(guid()));
    administrator().post(ADMIN, other).await.expect_problem(409, "CHESSBOARD_DEVELOPER_TALENT_DUPLICATE");
    let own = with(body, "ExternalChessboardDeveloperId", json!(external_id));
    let back = administrator().post(ADMIN, own).await.expect(201);
    for member in [
        "ExternalChessboardDeveloperId",
        "SyncSource",
        "ReplicaVersion",
        "LastSyncedAt",
        "Name",
        "LegalName",
        "FoundedYear",
        "LogoFileId",
    ] {
        assert_eq!(back[member], linked[member], "{member}");
    }
    assert_eq!(back["Description"], "Z");
    assert_eq!(back["Version"], linked["Version"].as_i64().unwrap() + 2);
    let restored = crate::log_entries(id).await.pop().unwrap();
    assert_eq!(
        (&restored["Kind"], &restored["SyncSource"], &restored["ChangedFields"]),
        (&json!("Restored"), &json!("ExternalChessboard"), &json!([]))
    );
    // The consumer handles the events in order, so it has skipped the first one when the second one
    // is visible.
    publish_external_profile(&external_profile(external_id, id, 5)).await;
    publish_external_profile(&with(external_profile(external_id, id, 6), "Name", "Шесть")).await;
    let synced = read_when(id, "the later version", |found| found["ReplicaVersion"] == 6).await;
    assert_eq!((&synced["Name"], &synced["FoundedYear"]), (&json!("Шесть"), &json!(1999)));
    assert_eq!(synced["Version"], back["Version"].as_i64().unwrap() + 1, "version 5 was skipped");
}

/// RULE-CHS-003, RULE-ALL-031: a deletion and a restoration with an outdated `Version` return 409
/// and change nothing. Without `Version` both succeed.
#[tokio::test]
async fn deletion_and_restoration_compare_version() {
    const CONFLICT: &str = "CHESSBOARD_CONCURRENCY_CONFLICT";
    let id = create_developer().await;
    let delete = |version: &str| path(id, &format!("?Version={version}"));
    administrator().delete(&delete("2")).await.expect_problem(409, CONFLICT);
    let refused = administrator().delete(&delete("x")).await;
    assert_eq!((refused.status, read_developer(id).await["Version"].as_i64()), (400, Some(1)));
    administrator().delete(&delete("1")).await.expect(204);
    let restore = |version: i64| json!({"CompanyId": id, "Version": version});
    administrator().post(ADMIN, restore(1)).await.expect_problem(409, CONFLICT);
    let back = administrator().post(ADMIN, restore(2)).await.expect(201);
    assert_eq!(back["Version"], 3);
    administrator().delete(&path(id, "")).await.expect(204);
    administrator().post(ADMIN, json!({"CompanyId": id})).await.expect(201);
}

/// RULE-CHS-004: the administrator's list filters, sorts and pages.
#[tokio::test]
async fn administrator_lists_developers() {
    let tag = guid().simple().to_string();
    let mut created: Vec<Uuid> = Vec::new();
    for (name, legal) in [("Бета", None), ("альфа", Some("100%_Ab")), ("Гамма", Some("x"))] {
        let id = create_developer().await;
        let body = json!({
            "Name": format!("{tag} {name}"), "LegalName": legal.map(|legal| format!("{legal} {tag}")),
            "Highlights": {"ContractVersion": 1, "AwardTitles": []},
        });
        administrator().put(&path(id, ""), body).await.expect(200);
        created.push(id);
    }
    let upper = tag.to_uppercase();
    let names = async |query: String| -> Vec<String> {
        let page = administrator().get(&format!("{ADMIN}?{query}")).await.expect(200);
        assert_eq!(page["TotalCount"], list(&page["Items"]).len(), "{query}");
        let name = |name: &&Value| name.as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
        each(&page["Items"], "Name").iter().map(name).collect()
    };
    assert_eq!(names(format!("Query={upper}")).await, ["Гамма", "альфа", "Бета"], "newest first");
    assert_eq!(names(format!("Query={upper}&Sort=Name")).await, ["альфа", "Бета", "Гамма"]);
    assert_eq!(names(format!("Query={upper}&Sort=-Name")).await, ["Гамма", "Бета", "альфа"]);
    assert_eq!(names(format!("Query={upper}&Sort=CreatedAt")).await, ["Бета", "альфа", "Гамма"]);
    assert_eq!(names(format!("Query=100%25_aB%20{tag}")).await, ["альфа"]);
    assert_eq!(names(format!("Query=100%25%25aB%20{tag}")).await, [""; 0], "characters match literally");
    for separator in ["%0A", "%20", "%0A%0A"] {
        let across = format!("Query=%D0%B0{separator}100%25_Ab%20{tag}");
        assert_eq!(names(across).await, [""; 0], "a match must be within one name");
    }
    assert_eq!(names(format!("Query=100%25_aB%C2%A0%20{tag}%E2%80%8B")).await, ["альфа"]);
    publish_profile(created[0]).await;
    administrator().delete(&path(created[1], "")).await.expect(204);
    assert_eq!(names(format!("Query={tag}&Status=Draft")).await, ["Гамма"]);
    assert_eq!(
        names(format!("Query={tag}&IncludeDeleted=true&SyncSource=Platform")).await,
        ["Гамма", "альфа"]
    );
    assert_eq!(names(format!("Query={tag}&SyncSource=ExternalChessboard")).await, [""; 0]);
    assert_eq!(names(format!("Query={tag}&Sort=-UpdatedAt&IncludeDeleted=true")).await, ["альфа", "Гамма"]);
    let page =
        administrator().get(&format!("{ADMIN}?Query={tag}&PageSize=1&IncludeDeleted=true")).await.expect(200);
    assert_eq!((&page["TotalCount"], &page["PageSize"]), (&json!(2), &json!(1)));
    let shown = administrator().get(&format!("{ADMIN}?Query={tag}")).await.expect(200);
    assert_eq!(list(&shown["Items"])[0], read_developer(created[2]).await);
}
