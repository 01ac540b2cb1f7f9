//! Profiles of the external chessboard system.

use serde_json::{Value, json};
use testkit::client::Client;
use uuid::Uuid;

use crate::dev_profile::wait_for_company;
use crate::{
    ADMIN, EXTERNAL_UPSERTED, ME, administrator, company_event, count_dead_letters, create_developer,
    create_published_developer, dead_letter, each, eventually, external_profile, guid, manager, path,
    profile, profile_events, profile_versions, publish_company, publish_external_profile, read_developer,
    read_when, service, text, with,
};

const SYNC: &str = "00000000-0000-7000-8000-000000000002";

/// Waits until the developer has this external id, and returns the developer.
async fn wait_for_link(developer: Uuid, external_id: Uuid) -> Value {
    let is_linked = |found: &Value| found["ExternalChessboardDeveloperId"] == json!(external_id);
    read_when(developer, "the link", is_linked).await
}

/// Waits until an external version is applied, and returns the developer.
async fn wait_for_replica_version(developer: Uuid, version: i64) -> Value {
    read_when(developer, "the version", |found| found["ReplicaVersion"] == version).await
}

/// Returns the version of the waiting profile of an external id.
async fn waiting_version(external_id: Uuid) -> Option<i64> {
    let sql = service().sql().await;
    let query = "select version from external_profile where external_id = $1::text::uuid";
    let row = sql.query_opt(query, &[&external_id.to_string()]).await.unwrap();
    row.map(|row| row.get(0))
}

pub async fn wait_for_waiting_version(external_id: Uuid, version: i64) {
    eventually("the waiting profile", async || {
        (waiting_version(external_id).await == Some(version)).then_some(())
    })
    .await;
}

/// Creates a developer that the external system has linked. Returns the ids of both.
async fn create_replica() -> (Uuid, Uuid) {
    let (id, external_id) = (create_developer().await, guid());
    publish_external_profile(&external_profile(external_id, id, 1)).await;
    wait_for_link(id, external_id).await;
    (id, external_id)
}

/// RULE-CHS-007: if the company has no profile, the event creates one in Draft, regardless of the
/// company's status.
#[tokio::test]
async fn external_system_creates_profile() {
    let (id, external_id) = (guid(), guid());
    publish_company(&company_event(id, "Suspended", 1)).await;
    wait_for_company(id, 1).await;
    let profile = external_profile(external_id, id, 7);
    publish_external_profile(&profile).await;
    let created = wait_for_link(id, external_id).await;
    for (member, value) in [
        ("Status", json!("Draft")),
        ("SyncSource", json!("ExternalChessboard")),
        ("ReplicaVersion", json!(7)),
        ("Name", profile["Name"].clone()),
        ("LegalName", profile["LegalName"].clone()),
        ("LogoFileId", profile["LogoFileId"].clone()),
        ("FoundedYear", profile["FoundedYear"].clone()),
        ("CreatedByUserId", json!(SYNC)),
        ("UpdatedByUserId", json!(SYNC)),
        ("Version", json!(1)),
    ] {
        assert_eq!(created[member], value, "{member}");
    }
    assert!(created["LastSyncedAt"].is_string());
    publish_company(&company_event(id, "Active", 2)).await;
    publish_external_profile(&with(external_profile(external_id, id, 8), "Name", "Ещё раз")).await;
    wait_for_replica_version(id, 8).await;
    assert_eq!(profile_versions(id).await, [1, 2]);
}

/// RULE-CHS-007: the event overwrites the replica fields of a platform profile, even with null.
/// Other fields do not change.
#[tokio::test]
async fn external_system_takes_over_profile() {
    let (id, external_id) = (create_published_developer().await, guid());
    let before = read_developer(id).await;
    let mut profile = external_profile(external_id, id, 0);
    for member in ["LegalName", "LogoFileId", "FoundedYear"] {
        profile[member] = Value::Null;
    }
    publish_external_profile(&profile).await;
    let after = wait_for_link(id, external_id).await;
    for member in ["LegalName", "LogoFileId", "FoundedYear"] {
        assert_eq!(after[member], Value::Null, "{member}");
    }
    assert_eq!((&after["Name"], &after["ReplicaVersion"]), (&profile["Name"], &json!(0)));
    for member in
        ["Description", "Highlights", "Website", "ContactPhone", "ContactEmail", "Status", "CreatedAt"]
    {
        assert_eq!(after[member], before[member], "{member}");
    }
    assert_eq!(after["Version"], before["Version"].as_i64().unwrap() + 1);
    let last = profile_events(id).await.pop().unwrap();
    assert_eq!((&last.payload["Name"], &last.payload["LogoFileId"]), (&profile["Name"], &Value::Null));
}

/// INV-DEV-4, RULE-EVT-006: a version that is not above `ReplicaVersion` is skipped. An event
/// without a change raises no version and publishes nothing.
#[tokio::test]
async fn only_newer_external_version_is_applied() {
    let (id, external_id) = (guid(), guid());
    publish_company(&company_event(id, "Active", 1)).await;
    read_when(id, "the profile", |_| true).await;
    let five = with(external_profile(external_id, id, 5), "Name", "Пять");
    publish_external_profile(&five).await;
    let taken = wait_for_replica_version(id, 5).await;
    for version in [4, 5, 0] {
        publish_external_profile(&with(external_profile(external_id, id, version), "Name", "Старое")).await;
    }
    publish_external_profile(&with(five.clone(), "Version", 6)).await;
    let same = wait_for_replica_version(id, 6).await;
    assert_eq!((&same["Name"], &same["Version"]), (&json!("Пять"), &taken["Version"]));
    assert_eq!(same["UpdatedAt"], taken["UpdatedAt"], "a change of bookkeeping columns raises no version");
    assert_ne!(same["LastSyncedAt"], taken["LastSyncedAt"]);
    publish_external_profile(&with(with(five, "Version", 7), "FoundedYear", 1950)).await;
    let seven = wait_for_replica_version(id, 7).await;
    assert_eq!(seven["Version"], taken["Version"].as_i64().unwrap() + 1);
    publish_external_profile(&with(external_profile(external_id, id, 8), "Name", "Восемь")).await;
    wait_for_replica_version(id, 8).await;
    assert_eq!(profile_versions(id).await, [1, 2, 4], "the year is part of the next event");
}

/// INV-DEV-4: an event of version 0 is applied if the profile has no `ReplicaVersion`. A link by an
/// administrator sets 0, so the event is then skipped.
#[tokio::test]
async fn version_zero_is_applied_without_a_replica_version_only() {
    let (taken_over, linked) = (create_developer().await, create_developer().await);
    let (of_taken_over, of_linked) = (guid(), guid());
    administrator().delete(&path(linked, "")).await.expect(204);
    let body = json!({"CompanyId": linked, "ExternalChessboardDeveloperId": of_linked});
    let before = administrator().post(ADMIN, body).await.expect(201);
    assert_eq!((&before["ReplicaVersion"], &before["LastSyncedAt"]), (&json!(0), &Value::Null));
    for (id, external_id, names) in
        [(taken_over, of_taken_over, vec!["Нуль", "Один"]), (linked, of_linked, vec!["Один"])]
    {
        for (version, name) in [(0, "Нуль"), (0, "Снова нуль"), (1, "Один")] {
            publish_external_profile(&with(external_profile(external_id, id, version), "Name", name)).await;
        }
        wait_for_replica_version(id, 1).await;
        let events = profile_events(id).await;
        let synced =
            events.iter().map(|event| text(&event.payload["Name"])).filter(|name| *name != "Ромашка");
        assert_eq!(synced.collect::<Vec<_>>(), names);
    }
}

/// RULE-CHS-006: a change of bookkeeping causes no conflict, so an edit with the former version
/// succeeds.
#[tokio::test]
async fn bookkeeping_causes_no_conflict() {
    let (id, external_id) = create_replica().await;
    let seen = read_developer(id).await;
    let repeated = json!({
        "ExternalChessboardDeveloperId": external_id, "CompanyId": id, "Version": 2, "Name": seen["Name"],
        "LegalName": seen["LegalName"], "LogoFileId": seen["LogoFileId"], "FoundedYear": seen["FoundedYear"],
    });
    publish_external_profile(&repeated).await;
    wait_for_replica_version(id, 2).await;
    let body = with(seen.clone(), "Description", "иное");
    let edited = manager(id).put(ME, body).await.expect(200);
    assert_eq!((&edited["ReplicaVersion"], &edited["Version"]), (&json!(2), &json!(3)));
}

/// INV-DEV-3, RULE-CHS-006, RULE-CHS-017: a change of a replica field returns 422 and names the
/// field. Other fields can change.
#[tokio::test]
async fn change_of_replica_field_is_rejected() {
    let (id, _) = create_replica().await;
    let before = read_developer(id).await;
    let free = json!({
        "Description": "иное", "Website": "https://example.org", "ContactPhone": "+74951234567",
        "ContactEmail": "a@example.org", "Highlights": crate::highlights(),
    });
    let mut body = before.clone();
    body.as_object_mut().unwrap().extend(free.as_object().unwrap().clone());
    let after = manager(id).put(ME, body.clone()).await.expect(200);
    for (member, value) in free.as_object().unwrap() {
        assert_eq!(after[member], *value, "{member}");
    }
    for (member, value) in [
        ("Name", json!("иное")),
        ("LegalName", json!("иное")),
        ("LegalName", json!("")),
        ("LogoFileId", json!(guid())),
        ("LogoFileId", Value::Null),
        ("FoundedYear", Value::Null),
    ] {
        let changed = with(with(body.clone(), member, value), "Version", after["Version"].clone());
        for by in [(manager(id), ME.to_owned()), (administrator(), path(id, ""))] {
            let (by, path): (Client, String) = by;
            let refused = by.put(&path, changed.clone()).await;
            let problem = refused.expect_problem(422, "CHESSBOARD_DEVELOPER_FIELD_SYNC_MANAGED");
            assert_eq!(each(&problem["errors"], "field"), [&json!(format!("/{member}"))]);
        }
    }
    let stale = with(with(body, "Name", "иное"), "Version", 1);
    manager(id).put(ME, stale).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    assert_eq!(read_developer(id).await, after);
}

/// RULE-CHS-006: identity changes a name only if `SyncSource` is Platform and the company's name
/// has changed.
#[tokio::test]
async fn identity_renames_platform_profile_only() {
    let (replica, _) = create_replica().await;
    let own = create_developer().await;
    manager(own).put(ME, with(profile(), "Name", "Моё имя")).await.expect(200);
    let publish_names = async |id, version, name: &str, legal: &str| {
        let event = with(with(company_event(id, "Active", version), "Name", name), "LegalName", legal);
        publish_company(&event).await;
    };
    publish_names(own, 2, "Ромашка", "Новое юрлицо").await;
    let after = read_when(own, "the new legal name", |found| found["LegalName"] == "Новое юрлицо").await;
    assert_eq!(after["Name"], "Моё имя", "a user's edit stays");
    publish_names(own, 3, "Лютик", "Новое юрлицо").await;
    read_when(own, "the new name", |found| found["Name"] == "Лютик").await;
    publish_names(replica, 2, "Лютик", "Новое юрлицо").await;
    publish_company(&company_event(replica, "Suspended", 3)).await;
    publish_company(&company_event(replica, "Active", 4)).await;
    wait_for_company(replica, 4).await;
    assert_eq!(read_developer(replica).await["Name"], "Внешняя");
}

/// RULE-CHS-007, RULE-EVT-006, RULE-EVT-025: the highest version of each external id waits for its
/// company and is applied when the company appears.
#[tokio::test]
async fn external_profile_waits_for_company() {
    for status in ["Active", "Suspended"] {
        let (id, external_id) = (guid(), guid());
        publish_external_profile(&with(external_profile(external_id, id, 3), "Name", "Три")).await;
        wait_for_waiting_version(external_id, 3).await;
        publish_external_profile(&with(external_profile(external_id, id, 2), "Name", "Два")).await;
        publish_external_profile(&with(external_profile(external_id, id, 4), "Name", "Четыре")).await;
        wait_for_waiting_version(external_id, 4).await;
        publish_company(&company_event(id, status, 1)).await;
        let created = wait_for_link(id, external_id).await;
        assert_eq!((&created["Name"], &created["ReplicaVersion"]), (&json!("Четыре"), &json!(4)));
        assert_eq!((&created["Status"], &created["Version"]), (&json!("Draft"), &json!(1)));
        assert_eq!(waiting_version(external_id).await, None);
    }
    let (agency, external_id) = (guid(), guid());
    publish_company(&with(company_event(agency, "Active", 1), "Type", "Agency")).await;
    publish_external_profile(&external_profile(external_id, agency, 1)).await;
    wait_for_waiting_version(external_id, 1).await;
}

/// RULE-CHS-007: the service applies the first of several waiting profiles. The others wait until
/// a release frees the developer.
#[tokio::test]
async fn first_waiting_profile_is_applied() {
    let (id, first, second, third) = (guid(), guid(), guid(), guid());
    for external_id in [first, second, third] {
        publish_external_profile(&external_profile(external_id, id, 1)).await;
        wait_for_waiting_version(external_id, 1).await;
    }
    publish_external_profile(&external_profile(first, id, 2)).await;
    wait_for_waiting_version(first, 2).await;
    publish_company(&company_event(id, "Active", 1)).await;
    wait_for_link(id, first).await;
    assert_eq!((waiting_version(second).await, waiting_version(third).await), (Some(1), Some(1)));
    publish_external_profile(&external_profile(second, id, 5)).await;
    wait_for_waiting_version(second, 5).await;
    let metrics = service().operator().get("/metrics").await;
    let waiting_now = metrics.text.lines().find(|line| line.starts_with("outside_profiles_waiting "));
    assert!(waiting_now.is_some(), "{}", metrics.text);
    let released = administrator().post(&path(id, "/release"), json!({})).await.expect(200);
    assert_eq!(released, read_developer(id).await);
    assert_eq!(
        (&released["ExternalChessboardDeveloperId"], &released["ReplicaVersion"]),
        (&json!(second), &json!(5))
    );
    administrator().post(&path(id, "/release"), json!({})).await.expect(200);
    assert_eq!(read_developer(id).await["ExternalChessboardDeveloperId"], json!(third));
    assert_eq!((waiting_version(second).await, waiting_version(third).await), (None, None));
}

/// INV-DEV-2, RULE-EVT-046: an event that contradicts an existing link becomes a dead letter. The
/// dead letter changes no profile and blocks no later event of its key. Only a higher version
/// supersedes it.
#[tokio::test]
async fn event_with_wrong_link_is_dead_lettered() {
    let (one, of_one) = create_replica().await;
    let other = create_developer().await;
    let (before_one, before_other) = (read_developer(one).await, read_developer(other).await);
    let stranger = guid();
    publish_external_profile(&external_profile(of_one, other, 9)).await;
    publish_external_profile(&external_profile(stranger, one, 9)).await;
    for key in [of_one, stranger] {
        let reason = dead_letter(key).await;
        assert!(reason.contains("CHESSBOARD_DEVELOPER_TALENT_DUPLICATE"), "{reason}");
    }
    assert_eq!((read_developer(one).await, read_developer(other).await), (before_one, before_other));
    assert_eq!((waiting_version(of_one).await, waiting_version(stranger).await), (None, None));
    for (key, company) in [(of_one, one), (stranger, other)] {
        for (version, left) in [(8, 1), (10, 0)] {
            publish_external_profile(&external_profile(key, company, version)).await;
            wait_for_replica_version(company, version).await;
            assert_eq!(count_dead_letters(key).await, left, "after version {version}");
        }
    }
}

/// INV-DEV-4: a late event that names another company is skipped, and is no dead letter.
#[tokio::test]
async fn late_event_of_another_company_is_skipped() {
    let (one, external_id) = create_replica().await;
    let other = create_developer().await;
    publish_external_profile(&external_profile(external_id, one, 5)).await;
    wait_for_replica_version(one, 5).await;
    for version in [1, 4, 5] {
        publish_external_profile(&external_profile(external_id, other, version)).await;
    }
    publish_external_profile(&external_profile(external_id, one, 6)).await;
    wait_for_replica_version(one, 6).await;
    let letters = "select count(*) from dead_letter where key = $1";
    let letters = service().sql().await.query_one(letters, &[&external_id.to_string()]).await.unwrap();
    assert_eq!(letters.get::<_, i64>(0), 0);
    assert_eq!(read_developer(other).await["ExternalChessboardDeveloperId"], Value::Null);
}

/// INV-DEV-2: an event that assigns a waiting profile to a company with another external id becomes
/// a dead letter. The profile waits unchanged until a later version.
#[tokio::test]
async fn waiting_profile_is_not_reassigned_to_linked_company() {
    let ((taken, _), unknown, external_id) = (create_replica().await, guid(), guid());
    publish_external_profile(&external_profile(external_id, unknown, 1)).await;
    wait_for_waiting_version(external_id, 1).await;
    publish_external_profile(&external_profile(external_id, taken, 2)).await;
    let reason = dead_letter(external_id).await;
    assert!(reason.contains("CHESSBOARD_DEVELOPER_TALENT_DUPLICATE"), "{reason}");
    assert_eq!(waiting_version(external_id).await, Some(1));
    publish_external_profile(&external_profile(external_id, unknown, 3)).await;
    wait_for_waiting_version(external_id, 3).await;
    assert_eq!(count_dead_letters(external_id).await, 0);
    publish_company(&company_event(unknown, "Active", 1)).await;
    assert_eq!(wait_for_link(unknown, external_id).await["ReplicaVersion"], 3);
}

/// RULE-CHS-007: a released profile has `SyncSource` Platform and no link, and a repeated release
/// changes nothing. A later event links the profile again.
#[tokio::test]
async fn released_profile_belongs_to_platform() {
    let (id, external_id) = create_replica().await;
    let before = read_developer(id).await;
    let stale = administrator().post(&path(id, "/release"), json!({"Version": 1})).await;
    stale.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    let released =
        administrator().post(&path(id, "/release"), json!({"Version": before["Version"]})).await.expect(200);
    assert_eq!(
        (&released["SyncSource"], &released["ExternalChessboardDeveloperId"], &released["ReplicaVersion"]),
        (&json!("Platform"), &Value::Null, &Value::Null)
    );
    assert_eq!(released["Version"], before["Version"].as_i64().unwrap() + 1);
    assert_eq!(released["Name"], before["Name"]);
    assert_eq!(administrator().post(&path(id, "/release"), json!({})).await.expect(200), released);
    manager(id).put(ME, profile()).await.expect(200);
    let other = create_developer().await;
    publish_external_profile(&external_profile(external_id, other, 1)).await;
    wait_for_link(other, external_id).await;
    let again = guid();
    publish_external_profile(&external_profile(again, id, 1)).await;
    wait_for_link(id, again).await;
}

/// RULE-CHS-007: a profile that waits under the external id of another profile is applied when that
/// profile is released.
#[tokio::test]
async fn profile_waiting_for_taken_id_is_applied_at_release() {
    let (holder, late, external_id) = (create_developer().await, guid(), guid());
    publish_external_profile(&external_profile(external_id, late, 3)).await;
    wait_for_waiting_version(external_id, 3).await;
    administrator().delete(&path(holder, "")).await.expect(204);
    let body = json!({"CompanyId": holder, "ExternalChessboardDeveloperId": external_id});
    administrator().post(ADMIN, body).await.expect(201);
    publish_company(&company_event(late, "Active", 1)).await;
    let created = read_when(late, "the profile", |_| true).await;
    assert_eq!((&created["SyncSource"], &created["Name"]), (&json!("Platform"), &json!("Ромашка")));
    assert_eq!(waiting_version(external_id).await, Some(3));
    let released = administrator().post(&path(holder, "/release"), json!({})).await.expect(200);
    assert_eq!((&released["SyncSource"], &released["Name"]), (&json!("Platform"), &json!("Ромашка")));
    let taken_over = read_developer(late).await;
    assert_eq!(
        (&taken_over["ExternalChessboardDeveloperId"], &taken_over["ReplicaVersion"], &taken_over["Name"]),
        (&json!(external_id), &json!(3), &json!("Внешняя"))
    );
    assert_eq!(waiting_version(external_id).await, None);
}

/// RULE-CHS-007: an event for a deleted profile waits. The write that restores the profile applies
/// it.
#[tokio::test]
async fn event_for_deleted_profile_waits() {
    let (id, external_id) = create_replica().await;
    administrator().delete(&path(id, "")).await.expect(204);
    let deleted = read_developer(id).await;
    publish_external_profile(&with(external_profile(external_id, id, 4), "Name", "Позже")).await;
    wait_for_waiting_version(external_id, 4).await;
    publish_company(&company_event(id, "Suspended", 2)).await;
    publish_company(&company_event(id, "Active", 3)).await;
    let stranger = guid();
    publish_external_profile(&external_profile(stranger, id, 4)).await;
    assert!(dead_letter(stranger).await.contains("TALENT_DUPLICATE"));
    assert_eq!(read_developer(id).await, deleted);
    let back = administrator()
        .post(ADMIN, json!({"CompanyId": id, "Name": "Имя", "Description": "x"}))
        .await
        .expect(201);
    assert_eq!(
        (&back["Name"], &back["ReplicaVersion"], &back["Description"]),
        (&json!("Позже"), &json!(4), &json!("x"))
    );
    assert_eq!(back["Version"], deleted["Version"].as_i64().unwrap() + 1, "one write");
    assert_eq!(waiting_version(external_id).await, None);
    assert_eq!(profile_versions(id).await, [1, 2, 4]);

    let (own, external_id) = (create_developer().await, guid());
    administrator().delete(&path(own, "")).await.expect(204);
    publish_external_profile(&external_profile(external_id, own, 1)).await;
    wait_for_waiting_version(external_id, 1).await;
    let back = administrator().post(ADMIN, json!({"CompanyId": own})).await.expect(201);
    assert_eq!((&back["SyncSource"], &back["Name"]), (&json!("ExternalChessboard"), &json!("Внешняя")));
}

/// RULE-CHS-007, RULE-EVT-046: an event that does not decode or breaks a limit becomes a dead
/// letter and blocks no later event of its key.
#[tokio::test]
async fn invalid_event_is_dead_lettered() {
    for (member, value) in [
        ("Version", json!(-1)),
        ("Version", json!("1")),
        ("Name", json!("")),
        ("Name", json!("x".repeat(257))),
        ("Name", json!("a\0b")),
        ("Name", Value::Null),
        ("LegalName", json!("x".repeat(513))),
        ("LogoFileId", json!("x")),
        ("FoundedYear", json!(1899)),
        ("FoundedYear", json!(2101)),
        ("CompanyId", Value::Null),
    ] {
        let (id, external_id) = (guid(), guid());
        publish_external_profile(&with(external_profile(external_id, id, 1), member, value.clone())).await;
        let reason = dead_letter(external_id).await;
        assert!(!reason.contains("xxx"), "the reason repeats the value of {member}: {reason}");
        publish_external_profile(&external_profile(external_id, id, 2)).await;
        wait_for_waiting_version(external_id, 2).await;
        assert_eq!(count_dead_letters(external_id).await, 0, "{member}");
        if ["Name", "LegalName", "Version"].contains(&member) && value != json!(-1) {
            let company_id = guid();
            let bad = with(company_event(company_id, "Active", 1), member, value);
            publish_company(&bad).await;
            dead_letter(company_id).await;
            publish_company(&company_event(company_id, "Active", 2)).await;
            read_when(company_id, "the profile", |_| true).await;
            assert_eq!(count_dead_letters(company_id).await, 0, "{member}");
        }
    }
}

/// RULE-CHS-007, RULE-EVT-006: headers of external events may be missing, and the sequence is
/// ignored.
#[tokio::test]
async fn external_event_needs_no_headers() {
    let (id, external_id) = (create_developer().await, guid());
    let send = async |version: i64, headers: &[(&str, String)]| {
        let payload = external_profile(external_id, id, version).to_string();
        let key = external_id.to_string();
        service().bus().publish_raw(EXTERNAL_UPSERTED, key.as_bytes(), headers, payload.as_bytes()).await;
    };
    send(1, &[]).await;
    wait_for_replica_version(id, 1).await;
    send(2, &[("ce_sequence", "9".to_owned()), ("ce_id", guid().to_string())]).await;
    wait_for_replica_version(id, 2).await;
    send(3, &[("ce_sequence", "1".to_owned()), ("ce_id", guid().to_string())]).await;
    wait_for_replica_version(id, 3).await;
}
