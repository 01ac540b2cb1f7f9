//! Tests of the order of the messages of one key.

use db::Db;
use runtime::Env;
use serde_json::json;

use super::{Receipt, receive};
use crate::contract::message::{KafkaPosition, Message};
use crate::{MIGRATIONS, history};

const NEW: Receipt = Receipt::New { is_blocked: false, went_back: false };

async fn database() -> Db {
    let url = testkit::database::create().await.unwrap();
    let mut env = Env::new(move |name| (name == "DATABASE_URL").then(|| url.clone()));
    let config = db::Config::read(&mut env, "shop");
    let config = env.finish(config).unwrap();
    db::migrate(&config, [MIGRATIONS]).await.unwrap();
    Db::new(&config).unwrap()
}

/// Returns a message of one key. `time` is in microseconds after 12:00:00.
fn message(sequence: i64, time: Option<u32>) -> Message {
    let id = format!("{sequence} {time:?}");
    let mut headers = json!({"ce_id": id, "ce_sequence": sequence.to_string()});
    if let Some(time) = time {
        headers["ce_time"] = json!(format!("2026-05-01T12:00:00.{time:06}Z"));
    }
    let published_at = Some(std::time::SystemTime::now().into());
    let position = KafkaPosition { partition: 0, offset: sequence, published_at };
    let headers = headers.as_object().unwrap().clone();
    Message::new("platform.shop.order-placed.v1".to_owned(), position, "key".to_owned(), headers, None)
}

/// Receives a message. The transaction is rolled back if the history has changed.
async fn received(db: &Db, message: &Message, history: &str) -> Receipt {
    let received = db.tx(async |tx| {
        let receipts = receive(tx, "test", std::slice::from_ref(message), history).await.unwrap();
        match receipts[0] {
            Receipt::HistoryChanged => Err(db::Error::Unavailable("another history".to_owned())),
            receipt => Ok(receipt),
        }
    });
    received.await.unwrap_or(Receipt::HistoryChanged)
}

/// RULE-EVT-044: a message with a sequence that is not above the last one is a new event if its
/// time is later. Otherwise it is a duplicate.
#[tokio::test]
async fn repeated_sequence_is_new_only_under_a_later_time() {
    let db = database().await;
    let history = history::current(&db).await.unwrap();
    for (sequence, time, expected) in [
        (5, Some(10), NEW),
        (5, Some(10), Receipt::Duplicate),
        (5, None, Receipt::Duplicate),
        // The clock of the publisher has stepped back.
        (6, Some(8), NEW),
        (5, Some(10), Receipt::Duplicate),
        (6, Some(8), Receipt::Duplicate),
        // A later event has a sequence that is not above the last one.
        (6, Some(11), Receipt::New { is_blocked: false, went_back: true }),
        (6, Some(11), Receipt::Duplicate),
        (2, Some(12), Receipt::New { is_blocked: false, went_back: true }),
        (3, Some(13), NEW),
        (2, Some(12), Receipt::Duplicate),
        // Without a time, only the sequence counts.
        (4, None, NEW),
        (4, None, Receipt::Duplicate),
        (4, Some(13), Receipt::Duplicate),
    ] {
        assert_eq!(received(&db, &message(sequence, time), &history).await, expected, "{sequence} {time:?}");
    }
}

/// RULE-EVT-044: an event that its producer sends again is a duplicate, even with a later time.
#[tokio::test]
async fn last_event_is_a_duplicate_under_a_later_time() {
    let db = database().await;
    let history = history::current(&db).await.unwrap();
    let first = message(5, Some(10));
    let again = Message { event_time: message(5, Some(11)).event_time, ..message(5, Some(10)) };
    assert_eq!(received(&db, &first, &history).await, NEW);
    assert_eq!(received(&db, &again, &history).await, Receipt::Duplicate);
}

/// RULE-EVT-045: a new message is not applied in another history of the database.
#[tokio::test]
async fn new_message_is_not_applied_in_another_history() {
    let db = database().await;
    let history = history::current(&db).await.unwrap();
    let unsequenced = Message { sequence: None, ..message(1, Some(1)) };
    for message in [message(1, Some(1)), unsequenced] {
        assert_eq!(received(&db, &message, "another").await, Receipt::HistoryChanged);
        assert_eq!(received(&db, &message, &history).await, NEW);
        // The receipt exists, so the message is a duplicate in any history.
        assert_eq!(received(&db, &message, "another").await, Receipt::Duplicate);
    }
}

/// RULE-EVT-047: a batch gets the same receipts as its messages one by one, even if some have one
/// key.
#[tokio::test]
async fn receipts_of_a_batch_are_those_of_single_messages() {
    let db = database().await;
    let history = history::current(&db).await.unwrap();
    let of_key = |key: &str, message| Message { key: key.to_owned(), ..message };
    let unsequenced = |id: &str| Message { sequence: None, id: id.to_owned(), ..message(1, Some(1)) };
    let batch = [
        (of_key("b", message(1, Some(1))), NEW),
        (of_key("a", message(7, Some(1))), NEW),
        (of_key("b", message(2, Some(2))), NEW),
        (of_key("b", message(1, Some(1))), Receipt::Duplicate),
        (of_key("a", message(3, Some(4))), Receipt::New { is_blocked: false, went_back: true }),
        (unsequenced("first"), NEW),
        (unsequenced("first"), Receipt::Duplicate),
        (Message { key: String::new(), ..unsequenced("second") }, NEW),
    ];
    let (messages, expected): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    let receive_as = async |consumer: &str, messages: &[Message]| {
        db.tx(async |tx| receive(tx, consumer, messages, &history).await).await.unwrap()
    };
    assert_eq!(receive_as("batch", &messages).await, expected);
    for (message, expected) in messages.iter().zip(expected) {
        assert_eq!(receive_as("single", std::slice::from_ref(message)).await, [expected], "{message:?}");
    }
}
