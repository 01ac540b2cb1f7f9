//! What news relies on selections for is what selections documents.

use serde_json::{Value, json};
use testkit::client::Answer;
use testkit::contract::Contract;
use testkit::faults::Fault;

use crate::detach::{detaching, settled};
use crate::selections_down::Scene;
use crate::{author, between, detached, embed, embed_snapshot, guid, snapshot_path, taking, text};

const TAKE: &str = "/api/v1/internal/selections/{selection_id}/snapshots";
const DETACH: &str = "/api/v1/internal/snapshots/{snapshot_id}/detach";
const READ: &str = "/api/v1/internal/snapshots/{snapshot_id}";

fn provider() -> Contract {
    Contract::read(&service::contracts::<selections::Service>().unwrap().openapi).unwrap()
}

#[tokio::test]
async fn every_request_to_selections_is_one_that_it_documents() {
    let (provider, author) = (provider(), author());
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    author.set_blocks(&post, [embed_snapshot(&snapshot)]).await.expect(200);
    author.read(&post).await;
    author.set_blocks(&post, []).await.expect(200);
    detached(&snapshot).await;
    let calls = [between().calls(taking(&selection)), between().calls(snapshot_path(&snapshot))].concat();
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

/// A refusal that news has no words for makes selections unavailable to it.
#[track_caller]
fn expect_refusal(answer: Answer, code: &str, known: &[(&str, u16, &str)]) {
    let (_, status, news_code) =
        known.iter().find(|(known, ..)| *known == code).unwrap_or(&("", 503, "NEWS_SELECTIONS_UNAVAILABLE"));
    answer.expect_problem(*status, news_code);
}

/// Each refusal that news has words for is one that selections documents: none is called otherwise there.
fn assert_documented(known: &[(&str, u16, &str)], answers: &[(u16, Value)]) {
    for (code, ..) in known {
        assert!(
            answers.iter().any(|(_, example)| example["code"] == *code),
            "selections never answers {code}"
        );
    }
}

#[tokio::test]
async fn every_documented_answer_to_taking_a_snapshot_is_understood() {
    let known = [
        ("SELECTIONS_NOT_FOUND", 400, "NEWS_SELECTION_SOURCE_DELETED"),
        ("SELECTIONS_SOURCE_DELETED", 400, "NEWS_SELECTION_SOURCE_DELETED"),
        ("SELECTIONS_SOURCE_EMPTY", 400, "NEWS_SELECTION_SOURCE_EMPTY"),
    ];
    let answers = provider().examples("POST", TAKE);
    assert_documented(&known, &answers);
    let scene = Scene::new().await;
    for (status, example) in answers.into_iter().chain(provider().successes("POST", TAKE)) {
        scene.between.heal();
        scene.between.on(taking(&scene.selection), Fault::Answer(status, example.to_string()));
        let post = scene.author.create_post().await;
        let answer = scene.author.set_blocks(&post, [embed(&scene.selection)]).await;
        match example["code"].as_str() {
            Some(code) => expect_refusal(answer, code, &known),
            None => assert_eq!(answer.expect(200)["EmbedSnapshotIds"], json!([example["SnapshotId"]])),
        }
    }
}

#[tokio::test]
async fn every_documented_answer_to_reading_a_snapshot_is_understood() {
    let known = [("SELECTIONS_SNAPSHOT_NOT_FOUND", 422, "NEWS_SNAPSHOT_INVALID")];
    let answers = provider().examples("GET", READ);
    assert_documented(&known, &answers);
    let snapshot = answers[0].1["SnapshotId"].clone();
    let scene = Scene::new().await;
    for (status, mut example) in answers {
        let post = scene.author.create_post().await;
        if example.get("PostId").is_some() {
            example["PostId"] = json!(post);
        }
        scene.between.heal();
        scene.between.on(snapshot_path(text(&snapshot)), Fault::Answer(status, example.to_string()));
        let answer = scene.author.set_blocks(&post, [embed_snapshot(text(&snapshot))]).await;
        if let Some(code) = example["code"].as_str() {
            expect_refusal(answer, code, &known);
        } else {
            answer.expect(200);
            assert_eq!(scene.author.read(&post).await["Blocks"][0]["Items"], example["Items"]);
        }
    }
}

/// Each member of a snapshot at each of its edges, and members that are added later.
#[tokio::test]
async fn whatever_selections_may_answer_of_a_snapshot_is_understood() {
    let answers = provider().successes("GET", READ);
    assert!(answers.iter().any(|(_, answer)| answer["Status"] == "Detached"));
    let scene = Scene::new().await;
    for (status, mut example) in answers {
        let (post, snapshot) = (scene.author.create_post().await, guid().to_string());
        (example["SnapshotId"], example["PostId"]) = (json!(snapshot), json!(post));
        scene.between.on(snapshot_path(&snapshot), Fault::Answer(status, example.to_string()));
        let answer = scene.author.set_blocks(&post, [embed_snapshot(&snapshot)]).await;
        if example["Status"] == "Detached" {
            answer.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
        } else {
            answer.expect(200);
            assert_eq!(scene.author.read(&post).await["Blocks"][0]["Items"], example["Items"]);
        }
    }
}

/// A detachment that is done, or whose snapshot is gone, is not asked for again; any other is, until it is done.
#[tokio::test]
async fn every_answer_to_detaching_a_snapshot_is_understood() {
    let gone = "SELECTIONS_SNAPSHOT_NOT_FOUND";
    let answers = provider().examples("POST", DETACH);
    assert_documented(&[(gone, 404, gone)], &answers);
    let scene = Scene::new().await;
    let mut detachments = Vec::new();
    for (status, example) in answers.into_iter().chain(provider().successes("POST", DETACH)) {
        let (post, snapshot) = scene.author.embed(&scene.author.create_selection().await).await;
        scene.between.next(1, detaching(&snapshot), Fault::Answer(status, example.to_string()));
        scene.author.set_blocks(&post, []).await.expect(200);
        detachments.push((post, snapshot, status, example));
    }
    for (post, snapshot, status, example) in detachments {
        settled(&scene.news, &post).await;
        let is_done = status == 200 || example["code"] == gone;
        let calls = scene.between.calls(detaching(&snapshot)).len();
        assert_eq!(calls == 1, is_done, "{status} {example}: {calls} calls");
        if !is_done {
            assert_eq!(detached(&snapshot).await, "BlockReplaced");
        }
    }
}
