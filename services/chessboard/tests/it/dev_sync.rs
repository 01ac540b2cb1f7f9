//! The outside system: what it makes, takes over and leaves, and what waits for it.

use serde_json::{Value, json};
use testkit::client::Client;
use uuid::Uuid;

use crate::{
    ADMIN, ME, OUTSIDE_UPSERTED, company, create_developer, create_published_developer, dead_letter,
    dead_letters, each, eventually, guid, manager, operator, outside, path, profile, profile_events,
    profile_versions, read, read_when, service, tell_company, tell_outside, text, with,
};

const SYNC: &str = "00000000-0000-7000-8000-000000000002";

/// Why an event is a dead letter that follows another one of its key.
const BEHIND: &str = "behind a dead letter of its key";

/// Waits until an outside id is a developer's, and answers them.
async fn linked(developer: Uuid, outside: Uuid) -> Value {
    let is_linked = |found: &Value| found["ExternalChessboardDeveloperId"] == json!(outside);
    read_when(developer, "the link", is_linked).await
}

/// Waits until a developer has been told of under a version.
async fn replicated(developer: Uuid, version: i64) -> Value {
    read_when(developer, "the version", |found| found["ReplicaVersion"] == version).await
}

/// What waits of an outside id: its version.
async fn waiting(outside: Uuid) -> Option<i64> {
    let sql = service().sql().await;
    let query = "select version from outside_profile where outside_id = $1::text::uuid";
    let row = sql.query_opt(query, &[&outside.to_string()]).await.unwrap();
    row.map(|row| row.get(0))
}

async fn waits(outside: Uuid, version: i64) {
    eventually("the wait", async || (waiting(outside).await == Some(version)).then_some(())).await;
}

/// A developer whom the outside system is the master of.
async fn create_replica() -> (Uuid, Uuid) {
    let (id, outside_id) = (create_developer().await, guid());
    tell_outside(&outside(outside_id, id, 1)).await;
    linked(id, outside_id).await;
    (id, outside_id)
}

/// Section 9: no profile: it is made, Draft, `ExternalChessboard`; the company may have any status.
#[tokio::test]
async fn the_outside_system_makes_a_profile() {
    let (id, outside_id) = (guid(), guid());
    tell_company(&company(id, "Suspended", 1)).await;
    let profile = outside(outside_id, id, 7);
    tell_outside(&profile).await;
    let made = linked(id, outside_id).await;
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
        assert_eq!(made[member], value, "{member}");
    }
    assert!(made["LastSyncedAt"].is_string());
    tell_company(&company(id, "Active", 2)).await;
    tell_outside(&with(outside(outside_id, id, 8), "Name", "Ещё раз")).await;
    replicated(id, 8).await;
    assert_eq!(profile_versions(id).await, [1, 2]);
}

/// Section 9: a profile of `SyncSource` Platform is taken over: replica fields overwritten, null too; the rest stays.
#[tokio::test]
async fn a_profile_of_the_platform_is_taken_over() {
    let (id, outside_id) = (create_published_developer().await, guid());
    let before = read(id).await;
    let mut profile = outside(outside_id, id, 0);
    for member in ["LegalName", "LogoFileId", "FoundedYear"] {
        profile[member] = Value::Null;
    }
    tell_outside(&profile).await;
    let after = linked(id, outside_id).await;
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

/// INV-DEV-4: skipped at or below `ReplicaVersion`; what changes nothing raises no Version and is told to nobody.
#[tokio::test]
async fn only_what_is_newer_is_applied() {
    let (id, outside_id) = (guid(), guid());
    tell_company(&company(id, "Active", 1)).await;
    read_when(id, "the profile", |_| true).await;
    let five = with(outside(outside_id, id, 5), "Name", "Пять");
    tell_outside(&five).await;
    let taken = replicated(id, 5).await;
    for version in [4, 5, 0] {
        tell_outside(&with(outside(outside_id, id, version), "Name", "Старое")).await;
    }
    tell_outside(&with(five.clone(), "Version", 6)).await;
    let same = replicated(id, 6).await;
    assert_eq!((&same["Name"], &same["Version"]), (&json!("Пять"), &taken["Version"]));
    assert_eq!(same["UpdatedAt"], taken["UpdatedAt"], "books are no change");
    assert_ne!(same["LastSyncedAt"], taken["LastSyncedAt"]);
    tell_outside(&with(with(five, "Version", 7), "FoundedYear", 1950)).await;
    let seven = replicated(id, 7).await;
    assert_eq!(seven["Version"], taken["Version"].as_i64().unwrap() + 1);
    tell_outside(&with(outside(outside_id, id, 8), "Name", "Восемь")).await;
    replicated(id, 8).await;
    assert_eq!(profile_versions(id).await, [1, 2, 4], "the year is told with the next");
}

/// A book that changes is no reason for a conflict: a person's edit with the Version from before it goes through.
#[tokio::test]
async fn books_are_no_reason_for_a_conflict() {
    let (id, outside_id) = create_replica().await;
    let seen = read(id).await;
    let repeated = json!({
        "ExternalChessboardDeveloperId": outside_id, "CompanyId": id, "Version": 2, "Name": seen["Name"],
        "LegalName": seen["LegalName"], "LogoFileId": seen["LogoFileId"], "FoundedYear": seen["FoundedYear"],
    });
    tell_outside(&repeated).await;
    replicated(id, 2).await;
    let body = with(seen.clone(), "Description", "иное");
    let edited = manager(id).put(ME, body).await.expect(200);
    assert_eq!((&edited["ReplicaVersion"], &edited["Version"]), (&json!(2), &json!(3)));
}

/// INV-DEV-3: what the outside system is the master of is 422 on change, with the members named; the rest is free.
#[tokio::test]
async fn replica_fields_are_the_outside_systems() {
    let (id, _) = create_replica().await;
    let before = read(id).await;
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
        for by in [(manager(id), ME.to_owned()), (operator(), path(id, ""))] {
            let (by, path): (Client, String) = by;
            let refused = by.put(&path, changed.clone()).await;
            let problem = refused.expect_problem(422, "CHESSBOARD_DEVELOPER_FIELD_SYNC_MANAGED");
            assert_eq!(each(&problem["errors"], "field"), [&json!(format!("/{member}"))]);
        }
    }
    let stale = with(with(body, "Name", "иное"), "Version", 1);
    manager(id).put(ME, stale).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    assert_eq!(read(id).await, after);
}

/// Section 5: identity's names are for `SyncSource` Platform alone, and only what changed in the company itself.
#[tokio::test]
async fn identity_renames_what_the_platform_is_the_master_of() {
    let (replica, _) = create_replica().await;
    let own = create_developer().await;
    manager(own).put(ME, with(profile(), "Name", "Моё имя")).await.expect(200);
    let hear = async |id, version, name: &str, legal: &str| {
        let told = with(with(company(id, "Active", version), "Name", name), "LegalName", legal);
        tell_company(&told).await;
    };
    hear(own, 2, "Ромашка", "Новое юрлицо").await;
    let after = read_when(own, "the new legal name", |found| found["LegalName"] == "Новое юрлицо").await;
    assert_eq!(after["Name"], "Моё имя", "a person's edit outlives other news");
    hear(own, 3, "Лютик", "Новое юрлицо").await;
    read_when(own, "the new name", |found| found["Name"] == "Лютик").await;
    hear(replica, 2, "Лютик", "Новое юрлицо").await;
    tell_company(&company(replica, "Suspended", 3)).await;
    tell_company(&company(replica, "Active", 4)).await;
    let marker = guid();
    tell_company(&company(marker, "Active", 1)).await;
    read_when(marker, "the marker", |_| true).await;
    assert_eq!(read(replica).await["Name"], "Внешняя");
}

/// Section 9: company unknown, or no Developer: the highest Version of each outside id waits, and is applied when it comes.
#[tokio::test]
async fn a_profile_waits_for_its_company() {
    for status in ["Active", "Suspended"] {
        let (id, outside_id) = (guid(), guid());
        tell_outside(&with(outside(outside_id, id, 3), "Name", "Три")).await;
        waits(outside_id, 3).await;
        tell_outside(&with(outside(outside_id, id, 2), "Name", "Два")).await;
        tell_outside(&with(outside(outside_id, id, 4), "Name", "Четыре")).await;
        waits(outside_id, 4).await;
        tell_company(&company(id, status, 1)).await;
        let made = linked(id, outside_id).await;
        assert_eq!((&made["Name"], &made["ReplicaVersion"]), (&json!("Четыре"), &json!(4)));
        assert_eq!((&made["Status"], &made["Version"]), (&json!("Draft"), &json!(1)));
        assert_eq!(waiting(outside_id).await, None);
    }
    let (agency, outside_id) = (guid(), guid());
    tell_company(&with(company(agency, "Active", 1), "Type", "Agency")).await;
    tell_outside(&outside(outside_id, agency, 1)).await;
    waits(outside_id, 1).await;
}

/// Section 9: of several that wait for one company the first that came is applied; the others wait until it is released.
#[tokio::test]
async fn of_several_that_wait_the_first_that_came_is_applied() {
    let (id, first, second, third) = (guid(), guid(), guid(), guid());
    for outside_id in [first, second, third] {
        tell_outside(&outside(outside_id, id, 1)).await;
        waits(outside_id, 1).await;
    }
    tell_outside(&outside(first, id, 2)).await;
    waits(first, 2).await;
    tell_company(&company(id, "Active", 1)).await;
    linked(id, first).await;
    assert_eq!((waiting(second).await, waiting(third).await), (Some(1), Some(1)));
    tell_outside(&outside(second, id, 5)).await;
    waits(second, 5).await;
    let metrics = service().operator().get("/metrics").await;
    let waiting_now = metrics.text.lines().find(|line| line.starts_with("outside_profiles_waiting "));
    assert!(waiting_now.is_some(), "{}", metrics.text);
    let released = operator().post(&path(id, "/release"), json!({})).await.expect(200);
    assert_eq!(released, read(id).await);
    assert_eq!(
        (&released["ExternalChessboardDeveloperId"], &released["ReplicaVersion"]),
        (&json!(second), &json!(5))
    );
    operator().post(&path(id, "/release"), json!({})).await.expect(200);
    assert_eq!(read(id).await["ExternalChessboardDeveloperId"], json!(third));
    assert_eq!((waiting(second).await, waiting(third).await), (None, None));
}

/// INV-DEV-2: an event with an outside id of another company, and an event for a company that has another outside id, are dead letters.
/// Later events of that outside id are dead letters too, valid ones among them, until an operator replays or discards the first. No profile
/// changes.
#[tokio::test]
async fn an_outside_event_that_breaks_a_link_is_dead_lettered_and_blocks_its_id() {
    let (one, of_one) = create_replica().await;
    let other = create_developer().await;
    let (before_one, before_other) = (read(one).await, read(other).await);
    let stranger = guid();
    tell_outside(&outside(of_one, other, 9)).await;
    tell_outside(&outside(stranger, one, 9)).await;
    for (key, company) in [(of_one, one), (stranger, other)] {
        let reason = dead_letter(key).await;
        assert!(reason.contains("CHESSBOARD_DEVELOPER_TALENT_DUPLICATE"), "{reason}");
        tell_outside(&outside(key, company, 10)).await;
        assert_eq!(dead_letters(key, 2).await[1], BEHIND);
    }
    assert_eq!((read(one).await, read(other).await), (before_one, before_other));
    assert_eq!((waiting(of_one).await, waiting(stranger).await), (None, None));
}

/// INV-DEV-2: a profile waits for its company, and an event moves it to a company that has another outside profile: the event is a dead
/// letter, and the profile waits as it was. Later events of that outside id are dead letters too.
#[tokio::test]
async fn a_waiting_profile_is_not_moved_to_a_company_that_has_another() {
    let ((taken, _), unknown, outside_id) = (create_replica().await, guid(), guid());
    tell_outside(&outside(outside_id, unknown, 1)).await;
    waits(outside_id, 1).await;
    tell_outside(&outside(outside_id, taken, 2)).await;
    let reason = dead_letter(outside_id).await;
    assert!(reason.contains("CHESSBOARD_DEVELOPER_TALENT_DUPLICATE"), "{reason}");
    tell_outside(&outside(outside_id, unknown, 3)).await;
    assert_eq!(dead_letters(outside_id, 2).await[1], BEHIND);
    assert_eq!(waiting(outside_id).await, Some(1));
    tell_company(&company(unknown, "Active", 1)).await;
    assert_eq!(linked(unknown, outside_id).await["ReplicaVersion"], 1);
}

/// Section 2, release: `SyncSource` becomes Platform, outside id and `ReplicaVersion` null; already Platform: nothing changes.
/// A later outside event takes the profile over again.
#[tokio::test]
async fn a_profile_is_released() {
    let (id, outside_id) = create_replica().await;
    let before = read(id).await;
    let stale = operator().post(&path(id, "/release"), json!({"Version": 1})).await;
    stale.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    let released =
        operator().post(&path(id, "/release"), json!({"Version": before["Version"]})).await.expect(200);
    assert_eq!(
        (&released["SyncSource"], &released["ExternalChessboardDeveloperId"], &released["ReplicaVersion"]),
        (&json!("Platform"), &Value::Null, &Value::Null)
    );
    assert_eq!(released["Version"], before["Version"].as_i64().unwrap() + 1);
    assert_eq!(released["Name"], before["Name"]);
    assert_eq!(operator().post(&path(id, "/release"), json!({})).await.expect(200), released);
    manager(id).put(ME, profile()).await.expect(200);
    let other = create_developer().await;
    tell_outside(&outside(outside_id, other, 1)).await;
    linked(other, outside_id).await;
    let again = guid();
    tell_outside(&outside(again, id, 1)).await;
    linked(id, again).await;
}

/// Section 9: what waits under an id that is another's profile's goes on waiting when its company comes, and is applied when
/// that profile is released.
#[tokio::test]
async fn what_waits_under_a_taken_id_is_applied_when_that_is_released() {
    let (holder, late, outside_id) = (create_developer().await, guid(), guid());
    tell_outside(&outside(outside_id, late, 3)).await;
    waits(outside_id, 3).await;
    operator().delete(&path(holder, "")).await.expect(204);
    let body = json!({"CompanyId": holder, "ExternalChessboardDeveloperId": outside_id});
    operator().post(ADMIN, body).await.expect(201);
    tell_company(&company(late, "Active", 1)).await;
    let made = read_when(late, "the profile", |_| true).await;
    assert_eq!((&made["SyncSource"], &made["Name"]), (&json!("Platform"), &json!("Ромашка")));
    assert_eq!(waiting(outside_id).await, Some(3));
    let released = operator().post(&path(holder, "/release"), json!({})).await.expect(200);
    assert_eq!((&released["SyncSource"], &released["Name"]), (&json!("Platform"), &json!("Ромашка")));
    let taken_over = read(late).await;
    assert_eq!(
        (&taken_over["ExternalChessboardDeveloperId"], &taken_over["ReplicaVersion"], &taken_over["Name"]),
        (&json!(outside_id), &json!(3), &json!("Внешняя"))
    );
    assert_eq!(waiting(outside_id).await, None);
}

/// Section 9: a deleted profile is touched by neither: what its outside id tells meanwhile waits, and is applied in the
/// write that brings it back.
#[tokio::test]
async fn what_is_told_of_a_deleted_profile_waits() {
    let (id, outside_id) = create_replica().await;
    operator().delete(&path(id, "")).await.expect(204);
    let deleted = read(id).await;
    tell_outside(&with(outside(outside_id, id, 4), "Name", "Позже")).await;
    waits(outside_id, 4).await;
    tell_company(&company(id, "Suspended", 2)).await;
    tell_company(&company(id, "Active", 3)).await;
    let stranger = guid();
    tell_outside(&outside(stranger, id, 4)).await;
    assert!(dead_letter(stranger).await.contains("TALENT_DUPLICATE"));
    assert_eq!(read(id).await, deleted);
    let back =
        operator().post(ADMIN, json!({"CompanyId": id, "Name": "Имя", "Description": "x"})).await.expect(201);
    assert_eq!(
        (&back["Name"], &back["ReplicaVersion"], &back["Description"]),
        (&json!("Позже"), &json!(4), &json!("x"))
    );
    assert_eq!(back["Version"], deleted["Version"].as_i64().unwrap() + 1, "it is one write");
    assert_eq!(waiting(outside_id).await, None);
    assert_eq!(profile_versions(id).await, [1, 2, 4]);

    let (own, outside_id) = (create_developer().await, guid());
    operator().delete(&path(own, "")).await.expect(204);
    tell_outside(&outside(outside_id, own, 1)).await;
    waits(outside_id, 1).await;
    let back = operator().post(ADMIN, json!({"CompanyId": own})).await.expect(201);
    assert_eq!((&back["SyncSource"], &back["Name"]), (&json!("ExternalChessboard"), &json!("Внешняя")));
}

/// Section 9: an event that cannot be decoded, or breaks a field's bounds, is a dead letter; nothing of it is kept. Later events of its key
/// are dead letters too, valid ones among them, until an operator replays or discards the first.
#[tokio::test]
async fn an_event_that_breaks_a_bound_is_dead_lettered_and_blocks_its_key() {
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
        let (id, outside_id) = (guid(), guid());
        tell_outside(&with(outside(outside_id, id, 1), member, value.clone())).await;
        let reason = dead_letter(outside_id).await;
        assert!(!reason.contains("xxx"), "{member}: {reason}");
        tell_outside(&outside(outside_id, id, 2)).await;
        assert_eq!(dead_letters(outside_id, 2).await[1], BEHIND, "{member}");
        assert_eq!(waiting(outside_id).await, None, "{member}");
        if ["Name", "LegalName", "Version"].contains(&member) && value != json!(-1) {
            let company_id = guid();
            let bad = with(company(company_id, "Active", 1), member, value);
            tell_company(&bad).await;
            dead_letter(company_id).await;
            tell_company(&company(company_id, "Active", 2)).await;
            assert_eq!(dead_letters(company_id, 2).await[1], BEHIND, "{member}");
            assert_eq!(crate::look_up(company_id).await, None);
        }
    }
}

/// From outside the platform headers may be missing, and a sequence is not looked at: the Version decides.
#[tokio::test]
async fn an_outside_event_needs_no_headers() {
    let (id, outside_id) = (create_developer().await, guid());
    let send = async |version: i64, headers: &[(&str, String)]| {
        let payload = outside(outside_id, id, version).to_string();
        let key = text(&json!(outside_id)).to_owned();
        service().bus().publish_raw(OUTSIDE_UPSERTED, key.as_bytes(), headers, payload.as_bytes()).await;
    };
    send(1, &[]).await;
    replicated(id, 1).await;
    send(2, &[("ce_sequence", "9".to_owned()), ("ce_id", guid().to_string())]).await;
    replicated(id, 2).await;
    send(3, &[("ce_sequence", "1".to_owned()), ("ce_id", guid().to_string())]).await;
    replicated(id, 3).await;
}
