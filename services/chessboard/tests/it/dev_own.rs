//! What needs a service of its own: settings, and telling anew.

use std::process::Stdio;

use chessboard::Service;
use serde_json::json;
use testkit::client::Client;
use testkit::service::{Running, issuer};
use tokio::process::Command;
use uuid::Uuid;

use crate::objects::{flat, flats, house_of};
use crate::{MANAGE, MANAGE_ALL, company, eventually, guid, holder, path, profile, tell_company, told, with};

/// A developer of this service, which hears of the company beside the one that other tests share.
async fn create_developer(own: &Running) -> (Uuid, Client) {
    let (id, by) = (guid(), own.caller(&holder(None, &[MANAGE_ALL])));
    tell_company(&company(id, "Active", 1)).await;
    let is_there = async || (by.get(&path(id, "")).await.status == 200).then_some(());
    eventually("the developer", is_there).await;
    (id, by)
}

/// Section 1: phone numbers without a country are read in `PHONE_DEFAULT_REGION`.
#[tokio::test]
async fn phone_numbers_are_of_the_default_region() {
    let own = Running::start::<Service>(&[("PHONE_DEFAULT_REGION", "US")]);
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
    let own = Running::start::<Service>(&[("CATALOG_CURRENCY", "USD")]);
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

/// `republish Developer`: each developer is told anew as they are, under their version.
#[tokio::test]
async fn developers_are_told_anew() {
    let own = Running::start::<Service>(&[]);
    let (id, _) = create_developer(&own).await;
    // Of both services.
    let before = told(id, 2).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_chessboard"));
    command.args(["republish", "Developer"]).env("DATABASE_URL", &own.database_url).env("LOG", "off");
    command.env("AUTH_ISSUER", issuer().url());
    command.env("KAFKA_BROKERS", testkit::required("KAFKA_BROKERS").unwrap());
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let after = told(id, before.len() + 1).await;
    for event in &after {
        assert_eq!(event.payload, before[0].payload);
    }
    assert_eq!(before[0].payload["Version"], json!(1));
}
