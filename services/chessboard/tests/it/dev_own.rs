//! Settings, and the `republish` command, which need a service that one test uses.

use std::process::Stdio;

use serde_json::json;
use testkit::client::Client;
use testkit::service::issuer;
use tokio::process::Command;
use uuid::Uuid;

use crate::objects::{flat, flats, house_of};
use crate::own::{Own, payloads};
use crate::{
    COMPANY_UPSERTED, DEVELOPER_UPSERTED, MANAGE, MANAGE_ALL, company, eventually, guid, holder, next, path,
    profile, with,
};

/// Creates a developer of this service.
async fn create_developer(own: &Own) -> (Uuid, Client) {
    let (id, by) = (guid(), own.caller(&holder(None, &[MANAGE_ALL])));
    own.bus().publish(COMPANY_UPSERTED, id, next(), &company(id, "Active", 1)).await;
    let is_there = async || (by.get(&path(id, "")).await.status == 200).then_some(());
    eventually("the developer", is_there).await;
    (id, by)
}

/// Section 1: phone numbers without a country are read in `PHONE_DEFAULT_REGION`.
#[tokio::test]
async fn phone_numbers_are_of_the_default_region() {
    let own = Own::start(&[("PHONE_DEFAULT_REGION", "US")]);
    let (id, by) = create_developer(&own).await;
    for (dialled, number) in [("(202) 555-0123", "+12025550123"), ("+7 495 123-45-67", "+74951234567")] {
        let written = by.put(&path(id, ""), with(profile(), "ContactPhone", dialled)).await.expect(200);
        assert_eq!(written["ContactPhone"], number);
    }
    let refused = by.put(&path(id, ""), with(profile(), "ContactPhone", "8 (495) 123-45-67")).await;
    refused.expect_refusal("VALIDATION_FAILED", "/ContactPhone", "bad_phone");
}

/// Section 1: `Price.Currency` must be `CATALOG_CURRENCY`, and the catalog adds up in it.
#[tokio::test]
async fn prices_are_in_the_currency_of_the_catalog() {
    let own = Own::start(&[("CATALOG_CURRENCY", "USD")]);
    let (id, by) = create_developer(&own).await;
    let house = house_of(id, own.caller(&holder(Some(id), &[MANAGE]))).await;
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

/// `republish Developer` publishes one event of each developer, with the same payload and version as before.
#[tokio::test]
async fn republish_publishes_each_developer_again_under_its_version() {
    let own = Own::start(&[]);
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
