//! The log of a profile (INV-LOG-1).

use serde_json::{Value, json};

use crate::{
    ADMIN, ME, administrator, company_event, create_developer, create_published_developer, each,
    external_profile, guid, highlights, list, log_entries, manager, path, profile, publish_company,
    publish_external_profile, read_developer, read_when, service, text, user_claims, with,
};

const IDENTITY: &str = "00000000-0000-7000-8000-000000000001";
const SYNC: &str = "00000000-0000-7000-8000-000000000002";

/// INV-LOG-1: each change has a complete entry with names of fields and no values. A restoration
/// has one entry for the status and one for itself, without names.
#[tokio::test]
async fn every_change_has_log_entry() {
    let (id, external_id) = (create_developer().await, guid());
    let claims = user_claims(Some(id), &[crate::MANAGE]);
    let (by, user) = (service().caller(&claims), claims.sub);
    let claims = user_claims(None, &[crate::MANAGE_ALL]);
    let (administrator, administrator_id) = (service().caller(&claims), claims.sub);
    by.put(ME, profile()).await.expect(200);
    by.post(&format!("{ME}/publish"), json!({})).await.expect(200);
    let seen = read_developer(id).await;
    publish_company(&with(company_event(id, "Suspended", 2), "Name", "Лютик")).await;
    read_when(id, "the cascade", |found| found["Status"] == "Hidden").await;
    let replica = external_profile(external_id, id, 1);
    publish_external_profile(&replica).await;
    read_when(id, "the link", |found| found["ReplicaVersion"] == 1).await;
    administrator.post(&path(id, "/release"), json!({})).await.expect(200);
    administrator.delete(&path(id, "")).await.expect(204);
    administrator.post(ADMIN, json!({"CompanyId": id})).await.expect(201);
    let all = log_entries(id).await;
    let edited = json!([
        "ContactEmail",
        "ContactPhone",
        "Description",
        "FoundedYear",
        "Highlights",
        "LogoFileId",
        "Website",
    ]);
    let taken = json!(["ExternalChessboardDeveloperId", "LegalName", "LogoFileId", "Name", "SyncSource"]);
    let released = json!(["ExternalChessboardDeveloperId", "SyncSource"]);
    let expected = [
        ("Created", json!(null), json!(null), json!([]), json!("Platform"), "Identity", 1),
        ("FieldsChanged", json!(null), json!(null), edited, json!(null), "User", 2),
        ("StatusChanged", json!("Draft"), json!("Published"), json!([]), json!(null), "User", 3),
        ("FieldsChanged", json!(null), json!(null), json!(["Name"]), json!(null), "Identity", 4),
        ("StatusChanged", json!("Published"), json!("Hidden"), json!([]), json!(null), "Identity", 4),
        ("FieldsChanged", json!(null), json!(null), taken, json!(null), "ExternalChessboard", 5),
        ("FieldsChanged", json!(null), json!(null), released, json!(null), "User", 6),
        ("Deleted", json!(null), json!(null), json!([]), json!(null), "User", 7),
        ("StatusChanged", json!("Hidden"), json!("Draft"), json!([]), json!(null), "User", 8),
        ("Restored", json!(null), json!(null), json!([]), json!("Platform"), "User", 8),
    ];
    assert_eq!(all.len(), expected.len(), "{all:?}");
    for (entry, (kind, from, to, fields, source, actor, version)) in all.iter().zip(expected) {
        assert_eq!(text(&entry["Kind"]), kind);
        assert_eq!((&entry["From"], &entry["To"]), (&from, &to), "{kind}");
        assert_eq!((&entry["ChangedFields"], &entry["SyncSource"]), (&fields, &source), "{kind}");
        assert_eq!((text(&entry["ActorKind"]), &entry["Version"]), (actor, &json!(version)), "{kind}");
        let expected_user = match actor {
            "Identity" => IDENTITY,
            "ExternalChessboard" => SYNC,
            _ if version < 4 => &user,
            _ => &administrator_id,
        };
        assert_eq!(text(&entry["ActorUserId"]), expected_user, "{kind}");
        // Besides the members above there are only `Id` and `OccurredAt`, so none has values.
        assert_eq!(entry.as_object().unwrap().len(), 10);
    }
    assert_eq!(all[2]["OccurredAt"], seen["UpdatedAt"]);
}

/// INV-LOG-1: deleting a Published profile writes `StatusChanged` and `Deleted`. A release names
/// the fields of the link.
#[tokio::test]
async fn deletion_of_published_profile_logs_two_entries() {
    let id = create_published_developer().await;
    administrator().delete(&path(id, "")).await.expect(204);
    let all = log_entries(id).await;
    let [status, deleted] = all.last_chunk().unwrap();
    assert_eq!((&status["From"], &status["To"]), (&json!("Published"), &json!("Hidden")));
    assert_eq!((&status["Kind"], &deleted["Kind"]), (&json!("StatusChanged"), &json!("Deleted")));
    assert_eq!((&status["Version"], &deleted["Version"]), (&json!(4), &json!(4)));
    let other = create_developer().await;
    publish_external_profile(&external_profile(guid(), other, 1)).await;
    read_when(other, "the link", |found| found["ReplicaVersion"] == 1).await;
    administrator().post(&path(other, "/release"), json!({})).await.expect(200);
    let last = log_entries(other).await.pop().unwrap();
    assert_eq!(last["ChangedFields"], json!(["ExternalChessboardDeveloperId", "SyncSource"]));
    assert_eq!(last["ActorKind"], "User");
}

/// INV-LOG-1: a walk returns each entry once, newest first, regardless of entries that are written
/// during the walk.
#[tokio::test]
async fn log_walk_returns_each_entry_once() {
    let id = create_developer().await;
    let edit = async |years: i64| {
        let body = with(profile(), "Highlights", with(highlights(), "YearsOnMarket", years));
        manager(id).put(ME, body).await.expect(200);
    };
    for years in 0..7 {
        edit(years).await;
    }
    let before: Vec<Value> = log_entries(id).await.into_iter().rev().collect();
    let (mut walked, mut cursor, mut years) = (Vec::new(), String::new(), 10);
    loop {
        let page = manager(id).get(&format!("{ME}/events?PageSize=3{cursor}")).await.expect(200);
        walked.extend(list(&page["Items"]).iter().cloned());
        years += 1;
        edit(years).await;
        let Some(next) = page["NextCursor"].as_str() else { break };
        cursor = format!("&Cursor={next}");
    }
    assert_eq!(walked, before);
    let page = administrator().get(&path(id, "/events")).await.expect(200);
    // One creation, seven edits before the walk, and one edit after each of three pages.
    assert_eq!(list(&page["Items"]).len(), 11);
    let versions: Vec<_> = each(&page["Items"], "Version").into_iter().map(|v| v.as_i64().unwrap()).collect();
    assert_eq!(versions, (1..=11).rev().collect::<Vec<_>>());
}

/// INV-LOG-1: a cursor of another log and a page size out of bounds return 400.
#[tokio::test]
async fn cursor_of_other_log_is_rejected() {
    let (one, other) = (create_published_developer().await, create_published_developer().await);
    let page = manager(one).get(&format!("{ME}/events?PageSize=1")).await.expect(200);
    let cursor = text(&page["NextCursor"]);
    manager(one).get(&format!("{ME}/events?Cursor={cursor}")).await.expect(200);
    // "e30" is an empty object in Base64.
    for cursor in [cursor, "", "e30", "%00"] {
        let refused = manager(other).get(&format!("{ME}/events?Cursor={cursor}")).await;
        refused.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
    }
    for size in ["0", "101", "x"] {
        let refused = manager(one).get(&format!("{ME}/events?PageSize={size}")).await;
        refused.expect_refusal("VALIDATION_FAILED", "/PageSize", "out_of_range");
    }
}

/// INV-LOG-1: the database rejects updates and deletions of entries.
#[tokio::test]
async fn database_rejects_change_of_log() {
    create_developer().await;
    let sql = service().sql().await;
    for change in [
        "update developer_log set kind = 'Deleted'",
        "update developer_log set kind = 'Deleted' where false",
        "delete from developer_log",
        "truncate developer_log",
    ] {
        let refused = sql.batch_execute(change).await.unwrap_err();
        assert_eq!(refused.code().map(tokio_postgres::error::SqlState::code), Some("23001"), "{change}");
    }
}
