//! Settings and the command `republish`, each with a dedicated service.

use std::process::Stdio;

use chessboard::Service;
use serde_json::{Value, json};
use testkit::bus::payloads;
use testkit::client::Client;
use testkit::dedicated::DedicatedService;
use testkit::service::issuer;
use tokio::process::Command;
use uuid::Uuid;

use crate::objects::{create_house, flat, flats};
use crate::{
    COMPANY_UPSERTED, DEVELOPER_UPSERTED, MANAGE, MANAGE_ALL, company_event, eventually, guid, next_sequence,
    path, profile, user_claims, with,
};

/// Creates a developer in this service, and returns the client of an administrator.
async fn create_developer(own: &DedicatedService) -> (Uuid, Client) {
    let (id, by) = (guid(), own.caller(&user_claims(None, &[MANAGE_ALL])));
    own.bus().publish(COMPANY_UPSERTED, id, next_sequence(), &company_event(id, "Active", 1)).await;
    let exists = async || (by.get(&path(id, "")).await.status == 200).then_some(());
    eventually("the developer", exists).await;
    (id, by)
}

/// RULE-CHS-002, RULE-CHS-056: `PHONE_DEFAULT_REGION` is the region of a phone number without a
/// country code, in contacts and in award titles.
#[tokio::test]
async fn phone_number_is_read_in_default_region() {
    let own = DedicatedService::start::<Service>(&[("PHONE_DEFAULT_REGION", "US")]);
    let (id, by) = create_developer(&own).await;
    for (dialled, number) in [("(202) 555-0123", "+12025550123"), ("+7 495 123-45-67", "+74951234567")] {
        let written = by.put(&path(id, ""), with(profile(), "ContactPhone", dialled)).await.expect(200);
        assert_eq!(written["ContactPhone"], number);
    }
    let refused = by.put(&path(id, ""), with(profile(), "ContactPhone", "8 (495) 123-45-67")).await;
    refused.expect_refusal("VALIDATION_FAILED", "/ContactPhone", "bad_phone");
    for (title, status) in [("Call (202) 555-0123", 400), ("Звоните 8 (495) 123-45-67", 200)] {
        let highlights = with(crate::highlights(), "AwardTitles", json!([title]));
        let body = with(with(profile(), "Highlights", highlights), "ContactPhone", Value::Null);
        by.put(&path(id, ""), body).await.expect(status);
    }
}

/// RULE-CHS-026: a price must be in `CATALOG_CURRENCY`, and the catalog uses this currency.
#[tokio::test]
async fn price_in_other_currency_is_rejected() {
    let own = DedicatedService::start::<Service>(&[("CATALOG_CURRENCY", "USD")]);
    let (id, by) = create_developer(&own).await;
    let house = create_house(id, own.caller(&user_claims(Some(id), &[MANAGE]))).await;
    let refused = house.send_grid(&flats(1), None).await;
    refused.expect_refusal("VALIDATION_FAILED", "/Objects/0/Price/Currency", "unknown_value");
    let price = json!({"AmountMinor": 5, "Currency": "USD"});
    house.grid(&[with(flat("1"), "Price", price.clone())]).await;
    by.put(&path(id, ""), profile()).await.expect(200);
    by.post(&path(id, "/publish"), json!({})).await.expect(200);
    house.manager.post(&house.project_path("/publish"), json!({})).await.expect(200);
    let shown = own.guest().get(&format!("/api/v1/public/projects/{}", house.project)).await.expect(200);
    assert_eq!((&shown["PriceFrom"], &shown["Buildings"][0]["PriceFrom"]), (&price, &price));
}

/// RULE-EVT-007, RULE-EVT-027: `republish Developer` publishes one event of each developer with the
/// present payload and version.
#[tokio::test]
async fn republish_repeats_developers_under_their_versions() {
    let own = DedicatedService::start::<Service>(&[]);
    let (id, _) = create_developer(&own).await;
    let events = async || payloads(own.published(id).await, DEVELOPER_UPSERTED);
    let before = events().await;
    assert_eq!((before.len(), &before[0]["Version"]), (1, &json!(1)));
    let mut command = Command::new(env!("CARGO_BIN_EXE_chessboard"));
    command.args(["republish", "Developer"]).env("DATABASE_URL", &own.database_url).env("LOG", "off");
    command.env("AUTH_ISSUER", issuer().url());
    command.env("KAFKA_BROKERS", own.broker().servers());
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(events().await, [before[0].clone(), before[0].clone()]);
}
