//! What holds when changes of developers race.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};

use crate::{
    ADMIN, ME, company, count, create_developer, create_published_developer, entries, eventually, guid,
    highlights, manager, operator, outside, path, profile, profile_events, profile_versions, read, read_when,
    service, tell_company, tell_outside, with,
};

/// Rounds of a race whose outcome hangs on who is first.
const ROUNDS: usize = 8;

/// Section 7: of parallel `POST`s for one company one answers 201, and one event comes.
#[tokio::test]
async fn of_parallel_creations_one_happens() {
    let id = create_developer().await;
    operator().delete(&path(id, "")).await.expect(204);
    let callers: [_; 10] = std::array::from_fn(|_| operator());
    let body = json!({"CompanyId": id, "Name": "Раз"});
    let answers = join_all(callers.iter().map(|caller| caller.post(ADMIN, body.clone()))).await;
    assert_eq!(count(&answers, 201), 1, "{answers:?}");
    for answer in answers.into_iter().filter(|answer| answer.status != 201) {
        answer.expect_problem(409, "CHESSBOARD_DEVELOPER_ALREADY_EXISTS");
    }
    assert_eq!(profile_versions(id).await, [1, 3]);

    let new = guid();
    tell_company(&company(new, "Suspended", 1)).await;
    let known = async || {
        let body = json!({"CompanyId": new});
        let answers = join_all(callers.iter().map(|caller| caller.post(ADMIN, body.clone()))).await;
        (count(&answers, 201) > 0).then_some(answers)
    };
    let answers = eventually("the company", known).await;
    assert_eq!(count(&answers, 201), 1, "{answers:?}");
    assert_eq!(profile_versions(new).await, [1]);
}

/// Section 7: of ten `PUT`s with one Version one wins; the others get the conflict, and nothing of them is kept.
#[tokio::test]
async fn of_ten_edits_of_one_version_one_happens() {
    let id = create_developer().await;
    let callers: [_; 10] = std::array::from_fn(|_| manager(id));
    let edits = callers.iter().enumerate().map(|(at, caller)| {
        let body = with(with(profile(), "Name", format!("name {at}")), "Version", 1);
        async move { caller.put(ME, body).await }
    });
    let answers = join_all(edits).await;
    assert_eq!((count(&answers, 200), count(&answers, 409)), (1, 9));
    let won = answers.iter().find(|answer| answer.status == 200).unwrap().body.clone();
    for answer in answers.into_iter().filter(|answer| answer.status == 409) {
        answer.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    }
    assert_eq!(read(id).await, won);
    assert_eq!(profile_versions(id).await, [1, 2]);
    assert_eq!(entries(id).await.len(), 2);
}

/// Compare and swap holds whether or not a Version was sent: nobody's edit is lost unseen.
#[tokio::test]
async fn each_version_is_told_once_whatever_races() {
    let id = create_developer().await;
    let callers: [_; 10] = std::array::from_fn(|_| manager(id));
    let edits = callers.iter().enumerate().map(|(at, caller)| {
        let body = with(profile(), "Name", format!("name {at}"));
        async move { caller.put(ME, body).await }
    });
    let answers = join_all(edits).await;
    let done = count(&answers, 200);
    assert_eq!((done >= 1, done + count(&answers, 409)), (true, 10));
    let last = i64::try_from(done).unwrap() + 1;
    assert_eq!(read(id).await["Version"], last);
    assert_eq!(profile_versions(id).await, (1..=last).collect::<Vec<_>>());
    assert_eq!(entries(id).await.len(), done + 1);
}

/// Section 7: of parallel equal moves one wins.
#[tokio::test]
async fn of_parallel_equal_moves_one_happens() {
    let id = create_developer().await;
    manager(id).put(ME, profile()).await.expect(200);
    for (made, status) in
        [("publish", "Published"), ("hide", "Hidden"), ("publish", "Published"), ("withdraw", "Draft")]
    {
        let callers: [_; 10] = std::array::from_fn(|_| manager(id));
        let move_path = format!("{ME}/{made}");
        let answers = join_all(callers.iter().map(|caller| caller.post(&move_path, json!({})))).await;
        assert_eq!((count(&answers, 200), count(&answers, 409)), (1, 9), "{made}");
        assert_eq!(read(id).await["Status"], status);
    }
    assert_eq!(profile_versions(id).await, [1, 2, 3, 4, 5, 6]);
}

/// Section 7: a publication that meets a suspension never leaves a Published profile of a company that is not Active.
#[tokio::test]
async fn a_publication_that_meets_a_suspension_is_hidden() {
    for round in 0..ROUNDS {
        let id = create_developer().await;
        manager(id).put(ME, profile()).await.expect(200);
        let publish = async {
            if round % 2 == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(3 * round as u64)).await;
            }
            manager(id).post(&format!("{ME}/publish"), json!({})).await
        };
        let (answer, ()) = join(publish, tell_company(&company(id, "Suspended", 2))).await;
        assert!([200, 409].contains(&answer.status), "{answer:?}");
        let suspended = async || {
            let query = "select status from company where id = $1::text::uuid";
            let row = service().sql().await.query_one(query, &[&id.to_string()]).await.unwrap();
            (row.get::<_, &str>(0) == "Suspended").then_some(())
        };
        eventually("the suspension", suspended).await;
        assert_ne!(read(id).await["Status"], "Published", "round {round}, answered {}", answer.status);
    }
}

/// Section 7: the same while the publication has the company's row: the suspension waits, and hides what was published.
#[tokio::test]
async fn a_suspension_waits_for_a_publication() {
    let id = create_developer().await;
    manager(id).put(ME, profile()).await.expect(200);
    let sql = service().sql().await;
    sql.batch_execute(&format!("begin; select from developer where id = '{id}' for update")).await.unwrap();
    let publishing = async { manager(id).post(&format!("{ME}/publish"), json!({})).await };
    let suspending = async {
        // The publication has read that the company is active, and waits for the developer's row.
        eventually("the publication to wait", async || {
            let waiting = "select 1 from pg_locks where not granted and pid <> pg_backend_pid()";
            let waits = service().sql().await.query(waiting, &[]).await.unwrap();
            (!waits.is_empty()).then_some(())
        })
        .await;
        tell_company(&company(id, "Suspended", 2)).await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        sql.batch_execute("rollback").await.unwrap();
    };
    let (published, ()) = join(publishing, suspending).await;
    published.expect(200);
    let hidden = read_when(id, "the cascade", |found| found["Status"] == "Hidden").await;
    assert_eq!(hidden["Version"], 4);
}

/// Section 4: an edit that was begun before identity's claim ended does not bring the claim back.
#[tokio::test]
async fn a_claim_that_has_ended_stays_so_beside_an_edit() {
    let id = create_published_developer().await;
    operator().put(&path(id, ""), with(profile(), "LogoFileId", Value::Null)).await.expect(200);
    tell_company(&company(id, "Suspended", 2)).await;
    read_when(id, "the cascade", |found| found["Status"] == "Hidden").await;
    let (sql, watcher) = (service().sql().await, service().sql().await);
    let held = format!("begin; select from developer where id = '{id}' for update");
    sql.batch_execute(&held).await.unwrap();
    let holder: i32 = sql.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let blocked_by = async |holder: i32| -> i32 {
        let waiting = "select pid from pg_stat_activity where $1 = any (pg_blocking_pids(pid))";
        let ask = async || watcher.query_opt(waiting, &[&holder]).await.unwrap();
        eventually("whoever waits", ask).await.get(0)
    };
    // Identity finds the profile incomplete, and waits for its row; the edit has read the claim, and waits behind it.
    tell_company(&company(id, "Active", 3)).await;
    let identity = blocked_by(holder).await;
    let by = manager(id);
    let waiting = async {
        blocked_by(identity).await;
        sql.batch_execute("rollback").await.unwrap();
    };
    let (edited, ()) = join(by.put(ME, profile()), waiting).await;
    edited.expect(200);
    tell_company(&with(company(id, "Active", 4), "Name", "Иное имя")).await;
    let renamed = read_when(id, "the rename", |found| found["Name"] == "Иное имя").await;
    assert_eq!(renamed["Status"], "Hidden", "it is a person's to publish");
}

/// Section 9: companies and outside profiles are serialized for each company: neither misses the other.
#[tokio::test]
async fn a_company_and_its_outside_profile_do_not_miss_each_other() {
    let mut races = Vec::new();
    for _ in 0..ROUNDS * 3 {
        let (id, outside_id) = (guid(), guid());
        races.push(async move {
            let (told_outside, told_company) = (outside(outside_id, id, 1), company(id, "Active", 1));
            join(tell_outside(&told_outside), tell_company(&told_company)).await;
            let found = read_when(id, "the link", |found| {
                found["ExternalChessboardDeveloperId"] == json!(outside_id)
            })
            .await;
            assert_eq!((&found["Name"], &found["ReplicaVersion"]), (&json!("Внешняя"), &json!(1)));
        });
    }
    join_all(races).await;
}

/// Changes of people, identity and the outside system at once: each version is told at most once, in order, and the log
/// has every one.
#[tokio::test]
async fn all_masters_at_once_lose_nothing() {
    let (id, outside_id) = (create_published_developer().await, guid());
    let people = async {
        let mut done = 0;
        for years in 0..20 {
            let body = with(read(id).await, "Highlights", with(highlights(), "YearsOnMarket", years));
            done += usize::from(manager(id).put(ME, body).await.status == 200);
        }
        done
    };
    let identity = async {
        for version in 2..12 {
            let status = if version % 2 == 0 { "Suspended" } else { "Active" };
            tell_company(&company(id, status, version)).await;
        }
    };
    let sync = async {
        for version in 1..11 {
            tell_outside(&with(outside(outside_id, id, version), "Name", format!("имя {version}"))).await;
        }
    };
    let (done, (), ()) = futures_util::join!(people, identity, sync);
    assert!(done > 0);
    // It is published several times before.
    let sql = service().sql().await;
    eventually("identity's last word", async || {
        let heard = "select from company where id = $1::text::uuid and version = 11";
        sql.query_opt(heard, &[&id.to_string()]).await.unwrap()
    })
    .await;
    let last = read_when(id, "the last of all", |found| {
        found["ReplicaVersion"] == 10 && found["Status"] == "Published"
    })
    .await;
    assert_eq!((&last["Name"], &last["LogoFileId"].is_null()), (&json!("имя 10"), &false));
    let log = entries(id).await;
    let mut versions: Vec<_> = log.iter().map(|entry| entry["Version"].as_i64().unwrap()).collect();
    versions.dedup();
    assert_eq!(versions, (1..=last["Version"].as_i64().unwrap()).collect::<Vec<_>>());
    let events = profile_events(id).await;
    let told: Vec<_> = events.iter().map(|event| event.payload["Version"].as_i64().unwrap()).collect();
    assert!(told.is_sorted_by(|earlier, later| earlier < later), "{told:?}");
}
