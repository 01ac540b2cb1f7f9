//! Publishing and unpublishing at a time.

use std::collections::HashSet;

use news::Service;
use serde_json::{Value, json};
use testkit::client::Response;
use testkit::eventually;
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::{Running, issuer};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::{
    Author, CREATE_COMPANY, MANAGE, MANAGE_OWN, POSTS, PUBLISHED, UNPUBLISHED, author, author_at, author_of,
    guid, path, service, text, text_block,
};

fn in_seconds(seconds: i64) -> String {
    (runtime::clock::now() + Duration::seconds(seconds)).format(&Rfc3339).unwrap()
}

async fn schedule(author: &Author, post: &str, body: Value) -> Response {
    author.news.put(&format!("{POSTS}/{post}/schedule"), body).await
}

async fn wait_for_status(author: &Author, post: &str, status: &str) -> Value {
    eventually("the status", async || {
        let post = author.read(post).await;
        (post["Status"] == status).then_some(post)
    })
    .await
}

async fn wait_for_failure(author: &Author, post: &str) -> Value {
    eventually("the failure", async || {
        let post = author.read(post).await;
        post["ScheduleFailure"].is_object().then_some(post)
    })
    .await
}

/// Moves the schedule of a post into the past and makes its job due.
async fn make_schedule_due(news: &Running, post: &str) {
    let id: Uuid = post.parse().unwrap();
    let sql = news.sql().await;
    let update = "update post set publish_at = publish_at - interval '10 years', \
                  unpublish_at = case when publish_at is null then unpublish_at - interval '10 years' else unpublish_at end \
                  where id::text = $1";
    assert_eq!(sql.execute(update, &[&id.to_string()]).await.unwrap(), 1);
    let due = "update job set due_at = clock_timestamp() where kind = 'post-schedule' and key = $1";
    assert_eq!(sql.execute(due, &[&id.to_string()]).await.unwrap(), 1);
}

/// RULE-NWS-074: a post is published and unpublished at its times, each with its event. Each
/// move increments the version and is recorded as a change by the user of the schedule.
#[tokio::test]
async fn post_is_published_and_unpublished_at_its_times() {
    let author = author();
    let post = author.create_post_of([text_block("x")]).await;
    let (publish_at, unpublish_at) = (in_seconds(1), in_seconds(3));
    let body = json!({"PublishAt": publish_at, "UnpublishAt": unpublish_at});
    let set = schedule(&author, &post, body.clone()).await.expect(200);
    assert_eq!(
        (&set["Status"], &set["Version"], &set["PublishedAt"]),
        (&json!("Draft"), &json!(3), &Value::Null)
    );
    let time = |text: &Value| OffsetDateTime::parse(crate::text(text), &Rfc3339).unwrap();
    assert_eq!(time(&set["PublishAt"]), time(&json!(publish_at)));
    let again = schedule(&author, &post, body).await.expect(200);
    assert_eq!(again["Version"], 3, "the same times change nothing");

    let published = wait_for_status(&author, &post, "Published").await;
    assert!(time(&published["PublishedAt"]) >= time(&set["PublishAt"]));
    assert_eq!((&published["PublishAt"], &published["UnpublishAt"]), (&Value::Null, &set["UnpublishAt"]));
    assert_eq!((&published["UpdatedByUserId"], &published["Version"]), (&json!(author.id), &json!(4)));
    let seen = service().guest().get(&path(&post)).await.expect(200);
    for hidden in ["PublishAt", "UnpublishAt", "ScheduleFailure"] {
        assert_eq!(seen.get(hidden), Some(&Value::Null), "{hidden}");
    }
    let unpublished = wait_for_status(&author, &post, "Unpublished").await;
    assert!(time(&unpublished["UpdatedAt"]) >= time(&set["UnpublishAt"]));
    assert_eq!((&unpublished["UnpublishAt"], &unpublished["ScheduleFailure"]), (&Value::Null, &Value::Null));
    assert_eq!(unpublished["Version"], 5);

    let events = service().published(&post).await;
    let topics: Vec<_> = events.iter().map(|event| event.topic.as_str()).collect();
    assert_eq!(topics.len(), 2);
    assert_eq!(topics.into_iter().collect::<HashSet<_>>(), HashSet::from([PUBLISHED, UNPUBLISHED]));
}

/// RULE-NWS-074: several replicas make each move once. A schedule survives the end of the process
/// that stored it.
#[tokio::test]
async fn every_move_is_made_once_by_several_replicas() {
    let settings = [("SELECTIONS_URL", "http://127.0.0.1:1"), ("CLIENT_SECRET", CLIENTS[0].1)];
    let first = Running::start::<Service>(&settings);
    let author = author_at(&first);
    let mut posts = Vec::new();
    for _ in 0..8 {
        let post = author.create_post_of([text_block("x")]).await;
        schedule(&author, &post, json!({"PublishAt": in_seconds(3600)})).await.expect(200);
        posts.push(post);
    }
    let settings = [settings.as_slice(), &[("DATABASE_URL", first.database_url.as_str())]].concat();
    let replicas = [Running::start::<Service>(&settings), Running::start::<Service>(&settings)];
    let author = author_of(&replicas[0], author.id, &|claims| claims.permission(MANAGE_OWN));
    let url = first.database_url.clone();
    first.process.stop();
    for post in &posts {
        make_schedule_due(&replicas[0], post).await;
    }
    for post in &posts {
        wait_for_status(&author, post, "Published").await;
        // A second run of a finished job makes no second move.
        let sql = replicas[0].sql().await;
        sql.execute("insert into job (kind, key, due_at) values ('post-schedule', $1, now())", &[post])
            .await
            .unwrap();
    }
    for post in &posts {
        eventually("the job is done", async || {
            let jobs = "select count(*) from job where kind = 'post-schedule' and key = $1";
            let left: i64 = replicas[0].sql().await.query_one(jobs, &[post]).await.unwrap().get(0);
            (left == 0).then_some(())
        })
        .await;
        assert_eq!(author.read(post).await["Version"], 4);
        assert_eq!(replicas[0].published(post).await.len(), 1, "{url}");
    }
}

/// RULE-NWS-074: a job that runs before the time of its move, since a clock was set back, makes no
/// move and waits for the time.
#[tokio::test]
async fn early_job_waits_for_the_time() {
    let author = author();
    let post = author.create_post_of([text_block("x")]).await;
    schedule(&author, &post, json!({"PublishAt": in_seconds(3600)})).await.expect(200);
    let sql = service().sql().await;
    let due = "update job set due_at = clock_timestamp() where kind = 'post-schedule' and key = $1";
    sql.execute(due, &[&post]).await.unwrap();
    eventually("the job is scheduled again", async || {
        let later = "select due_at > now() + interval '50 minutes' from job where kind = 'post-schedule' and key = $1";
        let is_later: bool = sql.query_one(later, &[&post]).await.unwrap().get(0);
        is_later.then_some(())
    })
    .await;
    assert_eq!(author.read(&post).await["Status"], "Draft");
}

/// RULE-NWS-075: a move that is not possible at its time leaves the post as it is and
/// is reported with the code of the problem. A new schedule clears the report.
#[tokio::test]
async fn failed_move_is_reported_and_the_post_stays_a_draft() {
    let author = author();
    let post = author.create_post().await;
    let body = json!({"PublishAt": in_seconds(-1), "UnpublishAt": in_seconds(3600)});
    schedule(&author, &post, body).await.expect(200);

    let failed = wait_for_failure(&author, &post).await;

    assert_eq!(failed["Status"], "Draft");
    assert_eq!((&failed["PublishAt"], &failed["UnpublishAt"]), (&Value::Null, &Value::Null));
    let failure = &failed["ScheduleFailure"];
    assert_eq!(
        (&failure["Move"], &failure["Code"]),
        (&json!("Publish"), &json!("NEWS_POST_PUBLISH_INCOMPLETE"))
    );
    assert_eq!(service().published(&post).await.len(), 0);
    let list = author.news.get(&format!("{POSTS}?Editable=true")).await.expect(200);
    assert_eq!(list["Items"][0]["ScheduleFailure"], *failure);
    author.set_blocks(&post, [text_block("x")]).await.expect(200);
    assert_eq!(author.read(&post).await["ScheduleFailure"], *failure, "an edit keeps the report");
    let set = schedule(&author, &post, json!({"PublishAt": in_seconds(-1)})).await.expect(200);
    assert_eq!(set["ScheduleFailure"], Value::Null);
    wait_for_status(&author, &post, "Published").await;
}

/// RULE-NWS-075, RULE-NWS-080: a publication is not made if the time of unpublishing has passed
/// too. A schedule with both times in the past is refused.
#[tokio::test]
async fn post_past_its_unpublish_time_is_not_published() {
    let author = author();
    let post = author.create_post_of([text_block("x")]).await;
    let missed = json!({"PublishAt": in_seconds(-7200), "UnpublishAt": in_seconds(-3600)});
    schedule(&author, &post, missed).await.expect_problem(409, "NEWS_POST_SCHEDULE_MISSED");
    let body = json!({"PublishAt": in_seconds(3600), "UnpublishAt": in_seconds(7200)});
    schedule(&author, &post, body).await.expect(200);
    let sql = service().sql().await;
    sql.execute(
        "update post set publish_at = now() - interval '2 hours', unpublish_at = now() - interval '1 hour' \
         where id::text = $1",
        &[&post],
    )
    .await
    .unwrap();
    sql.execute("update job set due_at = now() where kind = 'post-schedule' and key = $1", &[&post])
        .await
        .unwrap();
    let failed = wait_for_failure(&author, &post).await;
    assert_eq!(failed["ScheduleFailure"]["Code"], "NEWS_POST_SCHEDULE_MISSED");
    assert_eq!((&failed["Status"], service().published(&post).await.len()), (&json!("Draft"), 0));
}

/// RULE-NWS-075: a publication by a user who lost access fails with `FORBIDDEN`. The access
/// was revoked after the token was issued, but before the schedule was set.
#[tokio::test]
async fn move_of_a_user_without_access_fails() {
    for of_company in [false, true] {
        let company = guid();
        let issued_at = runtime::clock::now().unix_timestamp() - 60;
        let mut author = author();
        let claims = Claims::user(author.id);
        let claims = claims.company(company).permission(MANAGE_OWN).permission(CREATE_COMPANY);
        author.news = service().bearer(&issuer().token_issued_at(&claims, issued_at).unwrap());
        let created = author.news.post(POSTS, json!({"Title": "x", "AuthorCompanyId": company})).await;
        let post = text(&created.expect(201)["Id"]).to_owned();
        author.set_blocks(&post, [text_block("x")]).await.expect(200);
        schedule(&author, &post, json!({"PublishAt": in_seconds(3600)})).await.expect(200);
        let sql = service().sql().await;
        let subject = if of_company { company } else { author.id }.to_string();
        let revoke = "insert into access_revocation values ($1::text::uuid, 'User', to_timestamp($2::bigint::float8) + interval '0.9 seconds')";
        sql.execute(revoke, &[&subject, &issued_at]).await.unwrap();
        make_schedule_due(service(), &post).await;
        let manager = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
        let failed = wait_for_failure(&manager, &post).await;
        assert_eq!(failed["ScheduleFailure"]["Code"], "FORBIDDEN");
        assert_eq!(failed["Status"], "Draft");
    }
}

/// RULE-NWS-075: a revocation does not prevent an unpublication.
#[tokio::test]
async fn post_of_a_user_without_access_is_unpublished() {
    let author = author();
    let post = author.publish_post().await;
    schedule(&author, &post, json!({"UnpublishAt": in_seconds(3600)})).await.expect(200);
    let sql = service().sql().await;
    let revoke = "insert into access_revocation values ($1::text::uuid, 'User', clock_timestamp())";
    sql.execute(revoke, &[&author.id.to_string()]).await.unwrap();
    make_schedule_due(service(), &post).await;
    let manager = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let moved = wait_for_status(&manager, &post, "Unpublished").await;
    assert_eq!(moved["ScheduleFailure"], Value::Null);
}

/// RULE-NWS-074: another user who sets the same times becomes the user of the moves.
#[tokio::test]
async fn same_times_of_another_user_are_a_new_schedule() {
    let author = author();
    let manager = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let post = author.create_post_of([text_block("x")]).await;
    let body = json!({"PublishAt": in_seconds(3600)});
    schedule(&author, &post, body.clone()).await.expect(200);
    let set = schedule(&manager, &post, body.clone()).await.expect(200);
    assert_eq!((&set["Version"], &set["UpdatedByUserId"]), (&json!(4), &json!(manager.id)));
    assert_eq!(schedule(&manager, &post, body).await.expect(200)["Version"], 4);
    make_schedule_due(service(), &post).await;
    let published = wait_for_status(&author, &post, "Published").await;
    assert_eq!(published["UpdatedByUserId"], json!(manager.id));
}

/// RULE-NWS-076: a schedule fits the status of the post, and its range is not empty.
#[tokio::test]
async fn impossible_schedule_is_refused() {
    let author = author();
    let (draft, published) = (author.create_post().await, author.publish_post().await);
    let later = in_seconds(3600);
    for (post, body) in [
        (&draft, json!({"UnpublishAt": later})),
        (&published, json!({"PublishAt": later})),
        (&published, json!({"PublishAt": later, "UnpublishAt": in_seconds(7200)})),
    ] {
        schedule(&author, post, body).await.expect_problem(409, "NEWS_POST_INVALID_TRANSITION");
    }
    let empty = json!({"PublishAt": later, "UnpublishAt": later});
    let refused = schedule(&author, &draft, empty).await;
    refused.expect_refusal("VALIDATION_FAILED", "/UnpublishAt", "empty_range");
    let refused = schedule(&author, &draft, json!({"PublishAt": "tomorrow"})).await;
    refused.expect_refusal("VALIDATION_FAILED", "/PublishAt", "invalid_type");
    let outdated = json!({"PublishAt": later, "Version": 9});
    schedule(&author, &draft, outdated).await.expect_problem(409, "CONCURRENCY_CONFLICT");
    author.change_status(&draft, "archive").await.expect(200);
    schedule(&author, &draft, json!({"PublishAt": later})).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    schedule(&author, &guid().to_string(), json!({})).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
}

/// RULE-NWS-076: a move by a request clears its time, and an archived or deleted post has no
/// schedule. Without a time the job is cancelled.
#[tokio::test]
async fn move_by_a_request_clears_its_time() {
    let author = author();
    let jobs = async |post: &str| {
        let sql = service().sql().await;
        let jobs = "select count(*) from job where kind = 'post-schedule' and key = $1";
        sql.query_one(jobs, &[&post]).await.unwrap().get::<_, i64>(0)
    };
    let both = json!({"PublishAt": in_seconds(3600), "UnpublishAt": in_seconds(7200)});
    let times = |post: &Value| (post["PublishAt"].is_string(), post["UnpublishAt"].is_string());
    let post = author.create_post_of([text_block("x")]).await;
    schedule(&author, &post, both.clone()).await.expect(200);
    let published = author.change_status(&post, "publish").await.expect(200);
    assert_eq!((times(&published), jobs(&post).await), ((false, true), 1));
    let unpublished = author.change_status(&post, "unpublish").await.expect(200);
    assert_eq!((times(&unpublished), jobs(&post).await), ((false, false), 0));
    schedule(&author, &post, both.clone()).await.expect(200);
    let cleared = schedule(&author, &post, json!({})).await.expect(200);
    assert_eq!((times(&cleared), jobs(&post).await), ((false, false), 0));
    schedule(&author, &post, both.clone()).await.expect(200);
    let archived = author.change_status(&post, "archive").await.expect(200);
    assert_eq!((times(&archived), jobs(&post).await), ((false, false), 0));
    let deleted = author.create_post().await;
    schedule(&author, &deleted, both).await.expect(200);
    author.news.delete(&path(&deleted)).await.expect(204);
    assert_eq!(jobs(&deleted).await, 0);
}
