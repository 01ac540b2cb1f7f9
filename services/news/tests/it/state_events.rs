//! Events with which a subscriber follows the posts that are published.

use std::process::{Output, Stdio};

use news::Service;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::dedicated::DedicatedService;
use testkit::issuer::CLIENTS;
use testkit::service::issuer;
use tokio::process::Command;

use crate::{
    ARCHIVED, Author, CREATE_COMPANY, DELETED, POSTS, PUBLISHED, UNPUBLISHED, UPDATED, author, author_at,
    author_of, embed, guid, path, service, text, text_block,
};

fn topics(events: &[Published]) -> Vec<&str> {
    events.iter().map(|event| event.topic.as_str()).collect()
}

fn versions(events: &[Published]) -> Vec<i64> {
    events.iter().map(|event| event.payload["Version"].as_i64().unwrap()).collect()
}

/// RULE-NWS-070, RULE-EVT-001: each change of the state of a post has one event, and the versions
/// of a post order them.
#[tokio::test]
async fn every_change_of_the_state_has_an_event() {
    let author = author();
    let post = author.create_post_of([text_block("x")]).await;
    for step in ["publish", "rename", "edit", "unpublish", "rename", "publish", "unpublish", "archive"] {
        match step {
            "rename" => {
                let renamed = json!({"Title": guid().to_string()});
                author.news.put(&path(&post), renamed).await.expect(200);
            }
            "edit" => _ = author.set_blocks(&post, [text_block("y")]).await.expect(200),
            _ => _ = author.change_status(&post, step).await.expect(200),
        }
    }
    author.news.delete(&path(&post)).await.expect(204);

    let mut events = service().published(&post).await;

    events.sort_by_key(Published::sequence);
    let expected = [PUBLISHED, UPDATED, UNPUBLISHED, PUBLISHED, UNPUBLISHED, ARCHIVED, DELETED];
    assert_eq!(topics(&events), expected);
    assert_eq!(versions(&events), [3, 4, 6, 8, 9, 10, 11]);
    assert!(events.iter().all(|event| event.headers["aggregatetype"] == "Post"));
}

/// RULE-NWS-070: each event has every member.
#[tokio::test]
async fn events_have_every_member() {
    let company = guid();
    let author = author_of(service(), guid(), &|claims| claims.company(company).permission(CREATE_COMPANY));
    let body = json!({"Title": "Весна", "Tags": ["дом"], "AuthorCompanyId": company});
    let created = author.news.post(POSTS, body).await.expect(201);
    let id = text(&created["Id"]);
    let saved = author.set_blocks(id, [embed(&author.create_selection().await)]).await.expect(200);
    let published_at = author.change_status(id, "publish").await.expect(200)["PublishedAt"].take();
    let cover = guid();
    let renamed = json!({"Title": "Лето", "Summary": "Коротко", "CoverFileId": cover});
    let updated = author.news.put(&path(id), renamed).await.expect(200);
    let unpublished = author.change_status(id, "unpublish").await.expect(200);
    let archived = author.change_status(id, "archive").await.expect(200);
    author.news.delete(&path(id)).await.expect(204);

    let events = service().published(id).await;

    let payload = |topic: &str| &events.iter().find(|event| event.topic == topic).unwrap().payload;
    assert_eq!(
        payload(UPDATED),
        &json!({
            "PostId": id, "TenantId": company, "AuthorUserId": author.id, "AuthorCompanyId": company,
            "Title": "Лето", "Summary": "Коротко", "CoverFileId": cover, "Tags": ["дом"], "BlocksCount": 1,
            "EmbedSnapshotIds": saved["EmbedSnapshotIds"], "PublishedAt": published_at,
            "UpdatedAt": updated["UpdatedAt"], "Version": 4,
        })
    );
    let deleted_at = payload(DELETED)["DeletedAt"].clone();
    for (topic, member, at, version) in [
        (UNPUBLISHED, "UnpublishedAt", &unpublished["UpdatedAt"], 5),
        (ARCHIVED, "ArchivedAt", &archived["UpdatedAt"], 6),
        (DELETED, "DeletedAt", &deleted_at, 7),
    ] {
        let expected = json!({
            "PostId": id, "TenantId": company, "AuthorUserId": author.id, "AuthorCompanyId": company,
            "PublishedAt": published_at, member: at, "Version": version,
        });
        assert_eq!(payload(topic), &expected, "{topic}");
    }
}

/// RULE-NWS-070: a post that was never published has a null `PublishedAt` in its events.
#[tokio::test]
async fn events_of_a_draft_name_no_publication() {
    let author = author();
    let (archived, deleted) = (author.create_post().await, author.create_post().await);
    author.change_status(&archived, "archive").await.expect(200);
    author.news.delete(&path(&deleted)).await.expect(204);
    for (post, topic) in [(archived, ARCHIVED), (deleted, DELETED)] {
        let events = service().published(&post).await;
        assert_eq!(topics(&events), [topic]);
        assert_eq!(events[0].payload["PublishedAt"], Value::Null);
    }
}

/// An instance of news with its own broker, on which a test runs commands.
struct DedicatedNews {
    news: DedicatedService,
    author: Author,
}

impl DedicatedNews {
    fn start() -> Self {
        let settings = [("SELECTIONS_URL", "http://127.0.0.1:1"), ("CLIENT_SECRET", CLIENTS[0].1)];
        let news = DedicatedService::start::<Service>(&settings);
        let author = author_at(&news);
        Self { news, author }
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_news"));
        command.args(arguments).env("DATABASE_URL", &self.news.database_url);
        command.env("AUTH_ISSUER", issuer().url()).env("KAFKA_BROKERS", self.news.broker().servers());
        command.env("SELECTIONS_URL", "http://127.0.0.1:1").env("CLIENT_SECRET", CLIENTS[0].1);
        command.env("LOG", "off").stdin(Stdio::null()).output().await.unwrap()
    }

    async fn events(&self, post: &str) -> Vec<Published> {
        let mut events = self.news.published(post).await;
        events.sort_by_key(Published::sequence);
        events
    }
}

/// RULE-NWS-071, RULE-EVT-027: `republish Post` publishes the present state of each post under its
/// version.
#[tokio::test]
async fn republish_publishes_the_state_of_each_post() {
    let dedicated = DedicatedNews::start();
    let author = &dedicated.author;
    let published = author.publish_post().await;
    author.set_blocks(&published, [text_block("x"), text_block("y")]).await.expect(200);
    let (unpublished, archived) = (author.publish_post().await, author.create_post().await);
    author.change_status(&unpublished, "unpublish").await.expect(200);
    author.change_status(&archived, "archive").await.expect(200);
    let (draft, deleted) = (author.create_post().await, author.publish_post().await);
    author.news.delete(&path(&deleted)).await.expect(204);

    let output = dedicated.run(&["republish", "Post"]).await;

    assert!(output.status.success(), "{output:?}");
    for (post, topic, version) in [
        (&published, UPDATED, 4),
        (&unpublished, UNPUBLISHED, 4),
        (&archived, ARCHIVED, 2),
        (&draft, UNPUBLISHED, 1),
        (&deleted, DELETED, 4),
    ] {
        let last = dedicated.events(post).await.pop().unwrap();
        assert_eq!((last.topic.as_str(), &last.payload["Version"]), (topic, &json!(version)));
        if topic == UPDATED {
            assert_eq!(last.payload["BlocksCount"], 2, "the event has the present content");
        }
    }
}

/// RULE-NWS-071, RULE-EVT-048: after a restore, a lost post is published as deleted, and a lost
/// publication as unpublished, with versions above every one that subscribers know.
#[tokio::test]
async fn restore_unpublishes_lost_publications() {
    let dedicated = DedicatedNews::start();
    let author = &dedicated.author;
    let (lost, draft) = (author.publish_post().await, author.create_post_of([text_block("x")]).await);
    let sql = dedicated.news.sql().await;
    sql.batch_execute("create table kept_post as select * from post where status = 'Draft'").await.unwrap();
    author.change_status(&draft, "publish").await.expect(200);
    let known = [dedicated.events(&lost).await.len(), dedicated.events(&draft).await.len()];
    assert_eq!(known, [1, 1]);
    sql.batch_execute(
        "truncate post_search; truncate post_revision; \
         alter table post_log disable trigger user; delete from post_log; delete from post where status = 'Published' \
         and id not in (select id from kept_post); \
         update post set status = kept.status, published_at = null, version = kept.version \
         from kept_post as kept where kept.id = post.id",
    )
    .await
    .unwrap();

    let output = dedicated.run(&["restored", "--since", "2020-01-01T00:00:00Z"]).await;

    assert!(output.status.success(), "{output:?}");
    let end = dedicated.events(&lost).await.pop().unwrap();
    assert_eq!((end.topic.as_str(), &end.payload["Version"]), (DELETED, &json!(4)));
    assert_eq!(end.payload["AuthorUserId"], author.id.to_string());
    let end = dedicated.events(&draft).await.pop().unwrap();
    assert_eq!((end.topic.as_str(), &end.payload["Version"]), (UNPUBLISHED, &json!(4)));
    assert_eq!(author.read(&draft).await["Version"], 4);
}
