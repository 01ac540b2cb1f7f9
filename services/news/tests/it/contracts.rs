//! The contract between news and selections.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::Response;
use testkit::contract::Contract;
use testkit::faults::Fault;

use crate::detach::{detach_path, wait_until_settled};
use crate::selections_down::Fixture;
use crate::{
    Author, Service, author, embed, embed_snapshot, guid, path, proxy, snapshot_path, take_path, text,
    wait_until_detached,
};

const TAKE: &str = "/api/v1/internal/selections/{selection_id}/snapshots";
const DETACH: &str = "/api/v1/internal/snapshots/{snapshot_id}/detach";
const READ: &str = "/api/v1/internal/snapshots/{snapshot_id}";

fn provider() -> Contract {
    Contract::read(&service::contracts::<selections::Service>().unwrap().openapi).unwrap()
}

/// RULE-ALL-066: the OpenAPI document of selections allows each request of news.
#[tokio::test]
async fn requests_to_selections_match_its_document() {
    let (provider, author) = (provider(), author());
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    author.set_blocks(&post, [embed_snapshot(&snapshot)]).await.expect(200);
    author.read(&post).await;
    author.set_blocks(&post, []).await.expect(200);
    wait_until_detached(&snapshot).await;
    let calls = [proxy().calls(take_path(&selection)), proxy().calls(snapshot_path(&snapshot))].concat();
    let mut kinds: Vec<_> =
        calls.iter().map(|call| (&call.method[..], call.path.ends_with("/detach"))).collect();
    kinds.dedup();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, [("GET", false), ("POST", false), ("POST", true)], "taking, reading, detaching");
    for call in &calls {
        provider.check_request(&call.method, &call.path, &call.body).unwrap();
    }
}

/// Expects the code of a known refusal, or 503 for an unknown one.
#[track_caller]
fn expect_refusal(response: Response, code: &str, known: &[(&str, u16, &str)]) {
    let (_, status, news_code) =
        known.iter().find(|(known, ..)| *known == code).unwrap_or(&("", 503, "NEWS_SELECTIONS_UNAVAILABLE"));
    response.expect_problem(*status, news_code);
}

/// Checks that selections documents each refusal that news knows.
fn assert_documented(known: &[(&str, u16, &str)], responses: &[(u16, Value)]) {
    for (code, ..) in known {
        assert!(
            responses.iter().any(|(_, example)| example["code"] == *code),
            "selections does not document {code}"
        );
    }
}

/// RULE-ALL-066: news maps each documented response to taking a snapshot.
#[tokio::test]
async fn documented_responses_to_taking_a_snapshot_are_understood() {
    let known = [
        ("SELECTIONS_NOT_FOUND", 400, "NEWS_SELECTION_SOURCE_DELETED"),
        ("SELECTIONS_SOURCE_DELETED", 400, "NEWS_SELECTION_SOURCE_DELETED"),
        ("SELECTIONS_SOURCE_EMPTY", 400, "NEWS_SELECTION_SOURCE_EMPTY"),
    ];
    let responses = provider().examples("POST", TAKE);
    assert_documented(&known, &responses);
    let fixture = Fixture::new().await;
    for (status, example) in responses.into_iter().chain(provider().success_samples("POST", TAKE)) {
        fixture.proxy.remove_faults();
        fixture.proxy.inject(take_path(&fixture.selection), Fault::Respond(status, example.to_string()));
        let post = fixture.author.create_post().await;
        let response = fixture.author.set_blocks(&post, [embed(&fixture.selection)]).await;
        match example["code"].as_str() {
            Some(code) => expect_refusal(response, code, &known),
            None => assert_eq!(response.expect(200)["EmbedSnapshotIds"], json!([example["SnapshotId"]])),
        }
    }
}

/// RULE-ALL-066: news maps each documented response to reading a snapshot.
#[tokio::test]
async fn documented_responses_to_reading_a_snapshot_are_understood() {
    let known = [("SELECTIONS_SNAPSHOT_NOT_FOUND", 422, "NEWS_SNAPSHOT_INVALID")];
    let responses = provider().examples("GET", READ);
    assert_documented(&known, &responses);
    let snapshot = responses[0].1["SnapshotId"].clone();
    let fixture = Fixture::new().await;
    for (status, mut example) in responses {
        let post = fixture.author.create_post().await;
        if example.get("PostId").is_some() {
            example["PostId"] = json!(post);
        }
        fixture.proxy.remove_faults();
        fixture.proxy.inject(snapshot_path(text(&snapshot)), Fault::Respond(status, example.to_string()));
        let response = fixture.author.set_blocks(&post, [embed_snapshot(text(&snapshot))]).await;
        if let Some(code) = example["code"].as_str() {
            expect_refusal(response, code, &known);
        } else {
            response.expect(200);
            assert_eq!(read_items(&fixture.author, &post).await, example["Items"]);
        }
    }
}

/// RULE-ALL-066: news accepts each member of a snapshot at each of its limits, and ignores members
/// that are added later.
#[tokio::test]
async fn snapshot_with_any_documented_value_is_understood() {
    let responses = provider().success_samples("GET", READ);
    assert!(responses.iter().any(|(_, response)| response["Status"] == "Detached"));
    let fixture = Fixture::new().await;
    for (status, mut example) in responses {
        let (post, snapshot) = (fixture.author.create_post().await, guid().to_string());
        (example["SnapshotId"], example["PostId"]) = (json!(snapshot), json!(post));
        fixture.proxy.inject(snapshot_path(&snapshot), Fault::Respond(status, example.to_string()));
        let response = fixture.author.set_blocks(&post, [embed_snapshot(&snapshot)]).await;
        if example["Status"] == "Detached" {
            response.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
        } else {
            response.expect(200);
            assert_eq!(read_items(&fixture.author, &post).await, example["Items"]);
        }
    }
}

/// Returns the items of the first block. They may have members that selections has added, and that
/// the document of news does not describe yet.
async fn read_items(author: &Author, post: &str) -> Value {
    let response = author.news.request(Method::GET, &path(post)).send().await.unwrap();
    let mut post: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    post["Blocks"][0]["Items"].take()
}

/// RULE-ALL-066: the items of an embed are described as selections describes them.
#[test]
fn items_of_an_embed_have_the_members_of_selections() {
    let news = Contract::read(&service::contracts::<Service>().unwrap().openapi).unwrap();
    for (own, of_selections) in [("EmbedItem", "SnapshotItemView"), ("EmbeddedObject", "ShownObject")] {
        let members = provider().members(of_selections);
        assert!(!members.is_empty());
        assert_eq!(news.members(own), members, "{own}");
    }
}

/// RULE-ALL-066: a finished detachment and a missing snapshot end the job, and every other response
/// is retried.
#[tokio::test]
async fn documented_responses_to_detaching_a_snapshot_are_understood() {
    let gone = "SELECTIONS_SNAPSHOT_NOT_FOUND";
    let responses = provider().examples("POST", DETACH);
    assert_documented(&[(gone, 404, gone)], &responses);
    let fixture = Fixture::new().await;
    let mut detachments = Vec::new();
    for (status, example) in responses.into_iter().chain(provider().success_samples("POST", DETACH)) {
        let (post, snapshot) = fixture.author.embed(&fixture.author.create_selection().await).await;
        fixture.proxy.inject_next(1, detach_path(&snapshot), Fault::Respond(status, example.to_string()));
        fixture.author.set_blocks(&post, []).await.expect(200);
        detachments.push((post, snapshot, status, example));
    }
    for (post, snapshot, status, example) in detachments {
        wait_until_settled(&fixture.news, &post).await;
        let is_done = status == 200 || example["code"] == gone;
        let calls = fixture.proxy.calls(detach_path(&snapshot)).len();
        assert_eq!(calls == 1, is_done, "{status} {example}: {calls} calls");
        if !is_done {
            assert_eq!(wait_until_detached(&snapshot).await, "BlockReplaced");
        }
    }
}
