//! Races of changes of developers.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::held::HeldLocks;
use uuid::Uuid;

use crate::dev_sync::wait_for_waiting_version;
use crate::{
    ADMIN, EXTERNAL_UPSERTED, ME, administrator, company_event, count, count_dead_letters, create_developer,
    create_published_developer, dead_letter, eventually, external_profile, guid, highlights, log_entries,
    manager, path, profile, profile_events, profile_versions, publish_company, publish_external_profile,
    read_developer, read_when, service, with,
};

/// Number of rounds of a race with a random winner.
const ROUNDS: usize = 8;

const DUPLICATE: &str = "CHESSBOARD_DEVELOPER_TALENT_DUPLICATE";

/// RULE-CHS-012: parallel creations for one company return one 201 and publish one event.
#[tokio::test]
async fn only_one_parallel_creation_succeeds() {
    let id = create_developer().await;
    administrator().delete(&path(id, "")).await.expect(204);
    let callers: [_; 10] = std::array::from_fn(|_| administrator());
    let body = json!({"CompanyId": id, "Name": "Раз"});
    let responses = join_all(callers.iter().map(|caller| caller.post(ADMIN, body.clone()))).await;
    assert_eq!(count(&responses, 201), 1, "{responses:?}");
    for response in responses.into_iter().filter(|response| response.status != 201) {
        response.expect_problem(409, "CHESSBOARD_DEVELOPER_ALREADY_EXISTS");
    }
    // The deletion of the Draft, version 2, publishes no event.
    assert_eq!(profile_versions(id).await, [1, 3]);

    let new = guid();
    publish_company(&company_event(new, "Suspended", 1)).await;
    let known = async || {
        let body = json!({"CompanyId": new});
        let responses = join_all(callers.iter().map(|caller| caller.post(ADMIN, body.clone()))).await;
        (count(&responses, 201) > 0).then_some(responses)
    };
    let responses = eventually("the company", known).await;
    assert_eq!(count(&responses, 201), 1, "{responses:?}");
    assert_eq!(profile_versions(new).await, [1]);
}

/// INV-DEV-2, RULE-CHS-012: only one of several parallel creations with one external id succeeds.
/// The others get 409 and store nothing.
#[tokio::test]
async fn only_one_parallel_creation_gets_external_id() {
    for _ in 0..ROUNDS {
        let external_id = guid();
        let mut companies = Vec::new();
        for _ in 0..4 {
            let id = create_developer().await;
            administrator().delete(&path(id, "")).await.expect(204);
            companies.push((administrator(), id));
        }
        let create = companies.iter().map(|(caller, id)| async move {
            caller.post(ADMIN, json!({"CompanyId": id, "ExternalChessboardDeveloperId": external_id})).await
        });
        let responses = join_all(create).await;
        assert_eq!((count(&responses, 201), count(&responses, 409)), (1, 3), "{responses:?}");
        for ((_, id), response) in companies.iter().zip(&responses) {
            assert_eq!(read_developer(*id).await["DeletedAt"].is_null(), response.status == 201);
        }
    }
}

/// The pattern of the statement that writes a developer.
const UPDATE: &str = "update \"developer\"%";

/// Locks the row of a developer, so that a change reads everything and then waits before its write.
async fn hold_developer(id: Uuid) -> HeldLocks {
    HeldLocks::lock(service(), &format!("select from developer where id = '{id}' for update")).await
}

/// INV-DEV-2, RULE-CHS-012: a creation and an external event assign one external id to two
/// companies. Both find the id free before either writes it. The first one gets the id. The other
/// one is refused or becomes a dead letter.
#[tokio::test]
async fn creation_and_event_with_one_external_id_link_one_company() {
    for creation_is_first in [true, false] {
        let (created, synced, external_id) = (create_developer().await, create_developer().await, guid());
        administrator().delete(&path(created, "")).await.expect(204);
        let (of_created, of_synced) = (hold_developer(created).await, hold_developer(synced).await);
        let administrator = administrator();
        let body = json!({"CompanyId": created, "ExternalChessboardDeveloperId": external_id});
        let create = administrator.post(ADMIN, body);
        let link = async {
            publish_external_profile(&external_profile(external_id, synced, 1)).await;
            of_created.wait_for(1, UPDATE).await;
            of_synced.wait_for(1, UPDATE).await;
            if creation_is_first {
                of_created.release().await;
                read_when(created, "the creation", |found| found["DeletedAt"].is_null()).await;
                of_synced.release().await;
            } else {
                of_synced.release().await;
                read_when(synced, "the link", |found| found["ReplicaVersion"] == 1).await;
                of_created.release().await;
            }
        };
        let (response, ()) = join(create, link).await;
        if creation_is_first {
            response.expect(201);
            assert!(dead_letter(external_id).await.contains(DUPLICATE));
        } else {
            response.expect_problem(409, DUPLICATE);
            assert_eq!(count_dead_letters(external_id).await, 0);
        }
        for (id, is_linked) in [(created, creation_is_first), (synced, !creation_is_first)] {
            let found = read_developer(id).await;
            let expected = if is_linked { json!(external_id) } else { Value::Null };
            assert_eq!(found["ExternalChessboardDeveloperId"], expected);
        }
    }
}

/// INV-DEV-2, RULE-CHS-012: events with one external id for two companies may be in two partitions.
/// Both find the id free before either writes it. The first company gets the id, and the consumer
/// continues.
#[tokio::test]
async fn events_with_one_external_id_in_two_partitions_link_one_company() {
    for first in [0, 1] {
        let (companies, external_id) = ([create_developer().await, create_developer().await], guid());
        let publish = async |key: Uuid, company: Uuid, version: i64| {
            let payload = external_profile(external_id, company, version).to_string();
            let headers = [("ce_id", guid().to_string()), ("ce_source", "/external".to_owned())];
            let (bus, key) = (service().bus(), key.to_string());
            bus.publish_raw(EXTERNAL_UPSERTED, key.as_bytes(), &headers, payload.as_bytes()).await;
        };
        let held = [hold_developer(companies[0]).await, hold_developer(companies[1]).await];
        let key = guid();
        publish(key, companies[0], 1).await;
        held[0].wait_for(1, UPDATE).await;
        // At least one of these keys is in another partition, except with probability 4^-12.
        let other_keys = [(); 12].map(|()| guid());
        for key in other_keys {
            publish(key, companies[1], 2).await;
        }
        held[1].wait_for(1, UPDATE).await;
        held[first].release().await;
        let version = if first == 0 { 1 } else { 2 };
        read_when(companies[first], "the link", |found| found["ReplicaVersion"] == version).await;
        held[1 - first].release().await;
        if first == 0 {
            for key in other_keys {
                assert!(dead_letter(key).await.contains(DUPLICATE));
            }
        }
        publish(key, companies[first], 3).await;
        read_when(companies[first], "the next event", |found| found["ReplicaVersion"] == 3).await;
        let other = read_developer(companies[1 - first]).await;
        assert_eq!(other["ExternalChessboardDeveloperId"], Value::Null);
    }
}

/// RULE-CHS-012: parallel releases of two developers both succeed, although for each company an
/// external profile waits under the external id of the other developer.
#[tokio::test]
async fn parallel_releases_that_change_both_developers_succeed() {
    for _ in 0..ROUNDS {
        let companies = [create_developer().await, create_developer().await];
        let external_ids = [guid(), guid()];
        for (at, id) in companies.into_iter().enumerate() {
            administrator().delete(&path(id, "")).await.expect(204);
            let waiting = external_ids[1 - at];
            publish_external_profile(&external_profile(waiting, id, 1)).await;
            wait_for_waiting_version(waiting, 1).await;
        }
        for (id, external_id) in companies.into_iter().zip(external_ids) {
            let body = json!({"CompanyId": id, "ExternalChessboardDeveloperId": external_id});
            administrator().post(ADMIN, body).await.expect(201);
        }
        let callers = [administrator(), administrator()];
        let releases = callers.iter().zip(companies);
        let releases =
            releases.map(|(caller, id)| async move { caller.post(&path(id, "/release"), json!({})).await });
        for response in join_all(releases).await {
            response.expect(200);
        }
        for (at, id) in companies.into_iter().enumerate() {
            assert_eq!(
                read_developer(id).await["ExternalChessboardDeveloperId"],
                json!(external_ids[1 - at])
            );
        }
    }
}

/// RULE-CHS-012, RULE-CHS-022, RULE-ALL-031: only one of ten edits of one version succeeds. The
/// others get a conflict and store nothing.
#[tokio::test]
async fn only_one_edit_of_a_version_succeeds() {
    let id = create_developer().await;
    let callers: [_; 10] = std::array::from_fn(|_| manager(id));
    let edits = callers.iter().enumerate().map(|(at, caller)| {
        let body = with(with(profile(), "Name", format!("name {at}")), "Version", 1);
        async move { caller.put(ME, body).await }
    });
    let responses = join_all(edits).await;
    assert_eq!((count(&responses, 200), count(&responses, 409)), (1, 9));
    let won = responses.iter().find(|response| response.status == 200).unwrap().body.clone();
    for response in responses.into_iter().filter(|response| response.status == 409) {
        response.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    }
    assert_eq!(read_developer(id).await, won);
    assert_eq!(profile_versions(id).await, [1, 2]);
    assert_eq!(log_entries(id).await.len(), 2);
}

/// RULE-CHS-012, RULE-EVT-007: without `Version` a lost edit returns 409, and each version is
/// published once.
#[tokio::test]
async fn each_version_is_published_once() {
    let id = create_developer().await;
    let callers: [_; 10] = std::array::from_fn(|_| manager(id));
    let edits = callers.iter().enumerate().map(|(at, caller)| {
        let body = with(profile(), "Name", format!("name {at}"));
        async move { caller.put(ME, body).await }
    });
    let responses = join_all(edits).await;
    let done = count(&responses, 200);
    assert_eq!((done >= 1, done + count(&responses, 409)), (true, 10));
    let last = i64::try_from(done).unwrap() + 1;
    assert_eq!(read_developer(id).await["Version"], last);
    assert_eq!(profile_versions(id).await, (1..=last).collect::<Vec<_>>());
    assert_eq!(log_entries(id).await.len(), done + 1);
}

/// RULE-CHS-012: only one of several equal parallel transitions succeeds.
#[tokio::test]
async fn only_one_parallel_transition_succeeds() {
    let id = create_developer().await;
    manager(id).put(ME, profile()).await.expect(200);
    for (operation, status) in
        [("publish", "Published"), ("hide", "Hidden"), ("publish", "Published"), ("withdraw", "Draft")]
    {
        let callers: [_; 10] = std::array::from_fn(|_| manager(id));
        let path = format!("{ME}/{operation}");
        let responses = join_all(callers.iter().map(|caller| caller.post(&path, json!({})))).await;
        assert_eq!((count(&responses, 200), count(&responses, 409)), (1, 9), "{operation}");
        assert_eq!(read_developer(id).await["Status"], status);
    }
    assert_eq!(profile_versions(id).await, [1, 2, 3, 4, 5, 6]);
}

/// RULE-CHS-012: a publication that races with a suspension is refused, or the suspension hides the
/// profile again.
#[tokio::test]
async fn publication_racing_suspension_is_refused_or_hidden() {
    for round in 0..ROUNDS {
        let id = create_developer().await;
        manager(id).put(ME, profile()).await.expect(200);
        let publish = async {
            // The delay of even rounds lets the suspension be first.
            if round % 2 == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(3 * round as u64)).await;
            }
            manager(id).post(&format!("{ME}/publish"), json!({})).await
        };
        let (response, ()) = join(publish, publish_company(&company_event(id, "Suspended", 2))).await;
        assert!([200, 409].contains(&response.status), "{response:?}");
        let suspended = async || {
            let query = "select status from company where id = $1::text::uuid";
            let row = service().sql().await.query_one(query, &[&id.to_string()]).await.unwrap();
            (row.get::<_, &str>(0) == "Suspended").then_some(())
        };
        eventually("the suspension", suspended).await;
        let status = if response.status == 200 { "Hidden" } else { "Draft" };
        assert_eq!(read_developer(id).await["Status"], status, "round {round}");
    }
}

/// RULE-CHS-012: a suspension waits for a publication that holds the company's row, and then hides
/// the profile.
#[tokio::test]
async fn suspension_waits_for_publication() {
    let id = create_developer().await;
    manager(id).put(ME, profile()).await.expect(200);
    let held = hold_developer(id).await;
    let publishing = async { manager(id).post(&format!("{ME}/publish"), json!({})).await };
    let suspending = async {
        // The publication has read the Active company and waits for the developer's row.
        held.wait_for(1, UPDATE).await;
        publish_company(&company_event(id, "Suspended", 2)).await;
        // In this time the suspension usually reaches the company's row.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        held.release().await;
    };
    let (published, ()) = join(publishing, suspending).await;
    published.expect(200);
    let hidden = read_when(id, "the cascade", |found| found["Status"] == "Hidden").await;
    assert_eq!(hidden["Version"], 4);
}

/// RULE-CHS-012: an edit that began before the profile left the identity cascade does not put the
/// profile back into it.
#[tokio::test]
async fn concurrent_edit_does_not_restore_cascade() {
    let id = create_published_developer().await;
    administrator().put(&path(id, ""), with(profile(), "LogoFileId", Value::Null)).await.expect(200);
    publish_company(&company_event(id, "Suspended", 2)).await;
    read_when(id, "the cascade", |found| found["Status"] == "Hidden").await;
    let (sql, watcher) = (service().sql().await, service().sql().await);
    let held = format!("begin; select from developer where id = '{id}' for update");
    sql.batch_execute(&held).await.unwrap();
    let holder: i32 = sql.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let blocked_by = async |holder: i32| -> i32 {
        let waiting = "select pid from pg_stat_activity where $1 = any (pg_blocking_pids(pid))";
        let find = async || watcher.query_opt(waiting, &[&holder]).await.unwrap();
        eventually("the waiting transaction", find).await.get(0)
    };
    // The consumer finds the profile incomplete and waits for its row. The edit has read the
    // state of the cascade and waits behind the consumer.
    publish_company(&company_event(id, "Active", 3)).await;
    let consumer = blocked_by(holder).await;
    let by = manager(id);
    let waiting = async {
        blocked_by(consumer).await;
        sql.batch_execute("rollback").await.unwrap();
    };
    let (edited, ()) = join(by.put(ME, profile()), waiting).await;
    edited.expect(200);
    publish_company(&with(company_event(id, "Active", 4), "Name", "Иное имя")).await;
    let renamed = read_when(id, "the rename", |found| found["Name"] == "Иное имя").await;
    assert_eq!(renamed["Status"], "Hidden", "only a user can publish the profile");
}

/// RULE-CHS-012: events about a company and about its external profile are serialized, so each
/// handler sees the other's result.
#[tokio::test]
async fn company_and_external_profile_events_are_serialized() {
    let mut races = Vec::new();
    for _ in 0..ROUNDS * 3 {
        let (id, external_id) = (guid(), guid());
        races.push(async move {
            let (profile, company) = (external_profile(external_id, id, 1), company_event(id, "Active", 1));
            join(publish_external_profile(&profile), publish_company(&company)).await;
            let found = read_when(id, "the link", |found| {
                found["ExternalChessboardDeveloperId"] == json!(external_id)
            })
            .await;
            assert_eq!((&found["Name"], &found["ReplicaVersion"]), (&json!("Внешняя"), &json!(1)));
        });
    }
    join_all(races).await;
}

/// RULE-CHS-012: parallel changes by users, identity and the external system lose nothing. Versions
/// are published in order, and the log has all of them.
#[tokio::test]
async fn parallel_writers_of_profile_lose_nothing() {
    let (id, external_id) = (create_published_developer().await, guid());
    let users = async {
        let mut done = 0;
        for years in 0..20 {
            let body =
                with(read_developer(id).await, "Highlights", with(highlights(), "YearsOnMarket", years));
            done += usize::from(manager(id).put(ME, body).await.status == 200);
        }
        done
    };
    let identity = async {
        for version in 2..12 {
            let status = if version % 2 == 0 { "Suspended" } else { "Active" };
            publish_company(&company_event(id, status, version)).await;
        }
    };
    let sync = async {
        for version in 1..11 {
            publish_external_profile(&with(
                external_profile(external_id, id, version),
                "Name",
                format!("имя {version}"),
            ))
            .await;
        }
    };
    let (done, (), ()) = futures_util::join!(users, identity, sync);
    assert!(done > 0);
    // The profile is Published several times in between, so the test first waits for the company's
    // last version.
    let sql = service().sql().await;
    eventually("the last event of identity", async || {
        let stored = "select from company where id = $1::text::uuid and version = 11";
        sql.query_opt(stored, &[&id.to_string()]).await.unwrap()
    })
    .await;
    let last = read_when(id, "the last external version", |found| {
        found["ReplicaVersion"] == 10 && found["Status"] == "Published"
    })
    .await;
    assert_eq!((&last["Name"], &last["LogoFileId"].is_null()), (&json!("имя 10"), &false));
    let log = log_entries(id).await;
    let mut versions: Vec<_> = log.iter().map(|entry| entry["Version"].as_i64().unwrap()).collect();
    versions.dedup();
    assert_eq!(versions, (1..=last["Version"].as_i64().unwrap()).collect::<Vec<_>>());
    let events = profile_events(id).await;
    let versions: Vec<_> = events.iter().map(|event| event.payload["Version"].as_i64().unwrap()).collect();
    assert!(versions.is_sorted_by(|earlier, later| earlier < later), "{versions:?}");
}
