//! Published events and their envelope.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::{
    CREATE_COMPANY, POSTS, PUBLISHED, author, author_of, embed, guid, path, service, text, text_block,
};

/// RULE-NWS-041, RULE-EVT-010: `post-published` of a personal post has every member.
#[tokio::test]
async fn publication_has_every_member() {
    let author = author();
    let body = json!({"Title": "Весна", "Summary": "Коротко", "CoverFileId": guid(), "Tags": ["дом"]});
    let post = author.news.post(POSTS, body.clone()).await.expect(201);
    let id = text(&post["Id"]);
    let (a, b) = (author.create_selection().await, author.create_selection().await);
    let saved = author.set_blocks(id, [embed(&b), text_block("x"), embed(&a), embed(&b)]).await.expect(200);
    let published = author.change_status(id, "publish").await.expect(200);

    let events = service().published(id).await;

    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0].payload,
        json!({
            "PostId": id, "TenantId": null, "AuthorUserId": author.id, "AuthorCompanyId": null,
            "Title": "Весна", "Summary": "Коротко", "CoverFileId": body["CoverFileId"],
            "BlocksCount": 4, "EmbedSnapshotIds": saved["EmbedSnapshotIds"],
            "PublishedAt": published["PublishedAt"], "IsFirstPublication": true, "Version": published["Version"],
        })
    );
    assert_eq!(saved["EmbedSnapshotIds"].as_array().unwrap().len(), 2);
}

/// RULE-NWS-041: the company is the tenant, and absent values are null.
#[tokio::test]
async fn publication_of_a_company_names_its_tenant() {
    let company = guid();
    let author = author_of(service(), guid(), &|claims| claims.company(company).permission(CREATE_COMPANY));
    let post = author.news.post(POSTS, json!({"Title": "x", "AuthorCompanyId": company})).await.expect(201);
    let id = text(&post["Id"]);
    author.set_blocks(id, [text_block("x")]).await.expect(200);
    author.change_status(id, "publish").await.expect(200);
    let payload = service().published(id).await.remove(0).payload;
    assert_eq!((&payload["TenantId"], &payload["AuthorCompanyId"]), (&json!(company), &json!(company)));
    for absent in ["Summary", "CoverFileId"] {
        assert_eq!(payload.get(absent), Some(&Value::Null), "{absent}");
    }
    assert_eq!(payload["EmbedSnapshotIds"], json!([]));
}

/// RULE-NWS-041, RULE-EVT-010: the event is a `CloudEvent` 1.0 in Kafka's binary content mode.
#[tokio::test]
async fn event_has_the_whole_envelope() {
    let before = runtime::clock::now();
    let author = author();
    let post = author.publish_post().await;
    let event = service().published(&post).await.remove(0);
    let header = |name: &str| event.headers.get(name).map(String::as_str);
    assert_eq!(header("ce_specversion"), Some("1.0"));
    assert_eq!(header("ce_type"), Some(PUBLISHED));
    assert_eq!(header("ce_source"), Some("/news"));
    assert_eq!(header("ce_subject"), Some(post.as_str()));
    assert_eq!(header("aggregatetype"), Some("Post"));
    assert_eq!(header("contractversion"), Some("1"));
    assert_eq!(header("content-type"), Some("application/json"));
    header("ce_id").unwrap().parse::<Uuid>().unwrap();
    assert!(event.sequence() > 0);
    let time = OffsetDateTime::parse(header("ce_time").unwrap(), &Rfc3339).unwrap();
    assert!(
        time >= before - time::Duration::seconds(1)
            && time <= runtime::clock::now() + time::Duration::seconds(1)
    );
    assert_eq!(header("traceparent").unwrap().split('-').count(), 4);
}

/// RULE-NWS-041, RULE-EVT-010: a later publication has its own event, with the time of the first
/// publication.
#[tokio::test]
async fn later_publication_is_not_marked_as_first() {
    let author = author();
    let post = author.publish_post().await;
    let first = author.read(&post).await;
    for to in ["unpublish", "publish"] {
        author.change_status(&post, to).await.expect(200);
    }
    let mut events = service().published(&post).await;
    events.retain(|event| event.topic == PUBLISHED);
    let members = |name: &str| events.iter().map(|event| event.payload[name].clone()).collect::<Vec<_>>();
    assert_eq!(members("IsFirstPublication"), [true, false]);
    assert_eq!(members("PublishedAt"), [first["PublishedAt"].clone(), first["PublishedAt"].clone()]);
    assert_eq!(members("Version"), [3, 5]);
    assert_ne!(events[0].headers["ce_id"], events[1].headers["ce_id"]);
}

/// RULE-NWS-014, RULE-NWS-041, RULE-EVT-010: edits of the blocks, changes of a draft, identical
/// metadata and refused publications publish nothing.
#[tokio::test]
async fn edits_and_refusals_publish_nothing() {
    let author = author();
    let post = author.create_post().await;
    author.change_status(&post, "publish").await.expect_problem(409, "NEWS_POST_PUBLISH_INCOMPLETE");
    author.set_blocks(&post, [text_block("x"), embed(&author.create_selection().await)]).await.expect(200);
    author.news.put(&path(&post), json!({"Title": "y"})).await.expect(200);
    author.change_status(&post, "publish").await.expect(200);
    author.set_blocks(&post, [text_block("z")]).await.expect(200);
    author.news.put(&path(&post), json!({"Title": "y"})).await.expect(200);
    author.change_status(&post, "publish").await.expect_problem(409, "NEWS_POST_INVALID_TRANSITION");
    let events = service().published(&post).await;
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0].payload["Title"], &events[0].payload["BlocksCount"]), (&json!("y"), &json!(2)));
}

/// RULE-NWS-041, RULE-ALL-039: an event belongs to the trace of its request.
#[tokio::test]
async fn event_carries_the_trace_of_its_request() {
    let author = author();
    let post = author.create_post_of([text_block("x")]).await;
    let trace = guid().simple().to_string();
    let request = author.news.request(Method::POST, &format!("{POSTS}/{post}/publish"));
    send(request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"))).await.expect(200);
    let events = service().published(&post).await;
    assert_eq!(events[0].headers["traceparent"].split('-').nth(1), Some(trace.as_str()));
}
