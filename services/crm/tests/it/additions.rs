//! The limits of deals and notes that users add to the deals of a developer.

use std::sync::OnceLock;

use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::client::{Client, Response};
use testkit::languages::code_in_each_language;
use testkit::service::Running;
use uuid::Uuid;

use crate::{
    DEVELOPER_UPSERTED, MANAGE, MANAGE_OWN, OBJECT_UPSERTED, OWN, PLATFORM, developer, guid, object, publish,
    start, text, user_with, with,
};

/// Returns a service with the limits of four deals of a creator, two deals of a client and two
/// notes.
fn limited_service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| {
        start(&[
            ("CRM_MAX_DEALS_PER_PERSON_PER_HOUR", "4"),
            ("CRM_MAX_DEALS_PER_CLIENT_PER_DAY", "2"),
            ("CRM_MAX_NOTES_PER_PERSON_PER_HOUR", "2"),
        ])
    })
}

/// A developer with an object.
struct Fixture {
    developer: Uuid,
    object: Uuid,
}

impl Fixture {
    async fn new() -> Self {
        let (tenant, flat) = (guid(), guid());
        publish(limited_service(), DEVELOPER_UPSERTED, "Id", &developer(tenant)).await;
        publish(limited_service(), OBJECT_UPSERTED, "Id", &object(flat, tenant, "Available")).await;
        Self { developer: tenant, object: flat }
    }

    fn manager(&self) -> Client {
        limited_service().caller(&user_with(Some(self.developer), &[MANAGE_OWN]))
    }

    fn body(&self, client: Uuid) -> Value {
        json!({"PropertyObjectId": self.object, "ClientUserId": client})
    }

    async fn create(&self, by: &Client, client: Uuid) -> Response {
        by.post(&format!("{OWN}/deals"), self.body(client)).await
    }
}

/// Checks a refusal with the rest of a period as `Retry-After`.
#[track_caller]
fn check_refusal(refused: Response, code: &str, max: &str, period: u64) {
    let wait = refused.header("retry-after").parse::<u64>().unwrap();
    assert!((period - 100..=period + 1).contains(&wait), "{wait}");
    assert!(text(&refused.body["detail"]).contains(max), "{}", refused.text);
    refused.expect_problem(429, code);
}

/// RULE-CRM-086: a client gets no deal above the limit of a day, from any creator, also after a
/// cancellation. Another developer and another client have limits of their own.
#[tokio::test]
async fn client_at_the_limit_gets_no_deal() {
    let (fixture, other) = (Fixture::new().await, Fixture::new().await);
    let (by, colleague, client) = (fixture.manager(), fixture.manager(), guid());
    let deal = fixture.create(&by, client).await.expect(201);
    let cancel = format!("{OWN}/deals/{}/cancel", text(&deal["DealId"]));
    by.post(&cancel, json!({"Reason": "x"})).await.expect(200);
    let request = with(fixture.body(client), "RequestId", json!(guid()));
    let path = format!("{OWN}/deals");
    by.post(&path, request.clone()).await.expect(201);
    // `Retry-After` has at most 65,535 seconds.
    let refused = fixture.create(&colleague, client).await;
    check_refusal(refused, "CRM_CLIENT_DEALS_LIMIT_EXCEEDED", "at most 2 deals", 65_535);
    by.post(&path, request).await.expect(200);
    let deals = by.get(&format!("{OWN}/deals?ClientUserId={client}")).await.expect(200);
    assert_eq!(deals["TotalCount"], 2, "a refusal creates no deal");
    fixture.create(&by, guid()).await.expect(201);
    other.create(&other.manager(), client).await.expect(201);
}

/// RULE-CRM-086: a user creates no deal above the limit of an hour, also with concurrent requests.
#[tokio::test]
async fn creator_at_the_limit_creates_no_deal() {
    let fixture = Fixture::new().await;
    let by = fixture.manager();
    let created = join_all((0..9).map(|_| fixture.create(&by, guid()))).await;
    assert_eq!(created.iter().filter(|response| response.status == 201).count(), 4);
    check_refusal(fixture.create(&by, guid()).await, "CRM_DEALS_LIMIT_EXCEEDED", "at most 4 deals", 3_600);
    fixture.create(&fixture.manager(), guid()).await.expect(201);
    let sql = limited_service().sql().await;
    let later = "update addition set period_began_at = period_began_at - interval '1 hour' where tenant_id::text = $1";
    sql.execute(later, &[&fixture.developer.to_string()]).await.unwrap();
    fixture.create(&by, guid()).await.expect(201);
}

/// RULE-CRM-086: a user writes no note above the limit of an hour, on platform and on company
/// routes.
#[tokio::test]
async fn author_at_the_limit_writes_no_note() {
    let fixture = Fixture::new().await;
    let by = fixture.manager();
    let deal = fixture.create(&by, guid()).await.expect(201);
    let platform = limited_service().caller(&user_with(None, &[MANAGE]));
    for (by, family) in [(&by, OWN), (&platform, PLATFORM)] {
        let notes = format!("{family}/deals/{}/notes", text(&deal["DealId"]));
        for _ in 0..2 {
            by.post(&notes, json!({"Text": "x"})).await.expect(201);
        }
        let refused = by.post(&notes, json!({"Text": "x"})).await;
        check_refusal(refused, "CRM_NOTES_LIMIT_EXCEEDED", "at most 2 notes", 3_600);
    }
    let timeline = format!("{PLATFORM}/deals/{}/timeline", text(&deal["DealId"]));
    let rows = platform.get(&timeline).await.expect(200);
    assert_eq!(rows["Items"].as_array().unwrap().len(), 1 + 4);
}

/// RULE-ALL-010: the refusals are in the caller's language.
#[tokio::test]
async fn refusal_of_an_addition_is_in_the_callers_language() {
    let fixture = Fixture::new().await;
    let (creator, author, client) = (fixture.manager(), fixture.manager(), guid());
    let deal = fixture.create(&author, client).await.expect(201);
    fixture.create(&author, client).await.expect(201);
    for _ in 0..4 {
        fixture.create(&creator, guid()).await.expect(201);
    }
    let deals = format!("{OWN}/deals");
    let notes = format!("{deals}/{}/notes", text(&deal["DealId"]));
    for _ in 0..2 {
        author.post(&notes, json!({"Text": "x"})).await.expect(201);
    }
    let post = |by: &Client, path: &str, body: Value| by.request(Method::POST, path).json(&body);
    let requests: [(&dyn Fn() -> RequestBuilder, &str); 3] = [
        (&|| post(&creator, &deals, fixture.body(guid())), "CRM_DEALS_LIMIT_EXCEEDED"),
        (&|| post(&author, &deals, fixture.body(client)), "CRM_CLIENT_DEALS_LIMIT_EXCEEDED"),
        (&|| post(&author, &notes, json!({"Text": "x"})), "CRM_NOTES_LIMIT_EXCEEDED"),
    ];
    for (request, code) in requests {
        assert_eq!(code_in_each_language(request).await, code);
    }
}
