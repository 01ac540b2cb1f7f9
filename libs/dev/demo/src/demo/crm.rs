//! The third chapter: a deal from application to booking, and its arbitration.

mod office;

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::scene::Scene;
use super::story::{Story, expected};
use super::{EVENT_TIMEOUT, next_event};
use devkit::actors::{ANNA, DMITRI, IGOR, PAVEL};
use devkit::events::Follower;

const CREATED: &str = "platform.crm.deal-created.v1";
const BOOKED: &str = "platform.crm.booking-created.v1";
const STAGE_CHANGED: &str = "platform.crm.deal-stage-changed.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";

/// The flat of the deal. No other chapter uses it.
const FLAT: u32 = 11;

/// A deal with its URLs for the developer and the platform.
struct Deal {
    key: String,
    /// URL for the developer's employees.
    own: String,
    /// URL for the platform's employees.
    platform: String,
    /// URL of the flat in the catalog.
    flat: String,
    dmitri: String,
    pavel: String,
}

pub(super) async fn play(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let topics = [CREATED, BOOKED, STAGE_CHANGED, CANCELLED].map(str::to_owned).to_vec();
    let mut bus = Follower::open(&scene.stack.brokers, topics, false)?;
    let deal = apply(story, scene, &mut bus).await?;
    book(story, &deal, &mut bus).await?;
    sell(story, &deal, &mut bus).await?;
    cancel(story, &deal, &mut bus).await?;
    revive(story, &deal, &mut bus).await?;
    office::play(story, scene, &deal).await
}

async fn apply(story: &mut Story, scene: &mut Scene<'_>, bus: &mut Follower) -> anyhow::Result<Deal> {
    let (dmitri, pavel) = (scene.sign_in(&DMITRI).await?, scene.sign_in(&PAVEL).await?);
    let (deals, flat) = (scene.public("crm/deals"), scene.flats.id(FLAT));

    story.step("Dmitri, who sells for the developer, takes an application: Anna wants a flat, and Igor is her agent.");
    let body = json!({
        "PropertyObjectId": flat,
        "ClientUserId": ANNA.user,
        "AgentUserId": IGOR.user,
        "RequestId": Uuid::from_u128(rand::random()),
    });
    // CRM replicates the flat by Kafka.
    let made = story.post(&deals, Some(&dmitri), &body, expected(201).within(EVENT_TIMEOUT)).await?;
    story.check(made["Status"] == "Application", &format!("{} at {}", made["StepName"], made["Amount"]));
    let key = made["DealId"].as_str().unwrap_or_default().to_owned();
    let deal = Deal {
        own: format!("{deals}/{key}"),
        platform: format!("{}/api/platform-manager/crm/deals/{key}", scene.stack.base_url),
        flat: scene.public(&format!("public/property-objects/{flat}")),
        key,
        dmitri,
        pavel,
    };
    let reason = json!({"Reason": "The story is over"});
    scene.undo_with_body(Method::POST, format!("{}/cancel", deal.own), reason, &deal.dmitri);
    deal.event(bus, CREATED).await?;
    deal.timeline(story, &["DealCreated"]).await?;

    story.step("He sends the same again, as after a lost response: it is the same deal.");
    let again = story.post(&deals, Some(&deal.dmitri), &body, expected(200)).await?;
    story.check(again["DealId"] == *deal.key, "there is one deal");
    Ok(deal)
}

async fn book(story: &mut Story, deal: &Deal, bus: &mut Follower) -> anyhow::Result<()> {
    story.step("He books the flat for her. The catalog consumes the event.");
    let booking = format!("{}/booking", deal.own);
    let booked = story.post(&booking, Some(&deal.dmitri), &json!({}), expected(201)).await?;
    story.check(booked["Deal"]["Status"] == "Booking", &format!("until {}", booked["ExpiresAt"]));
    let shown = expected(200).within(EVENT_TIMEOUT).showing(|flat| flat["Status"] == "Booked");
    story.get(&deal.flat, None, shown).await?;
    deal.event(bus, BOOKED).await?;
    deal.timeline(story, &["StatusChanged", "BookingCreated"]).await
}

async fn sell(story: &mut Story, deal: &Deal, bus: &mut Follower) -> anyhow::Result<()> {
    let override_status = format!("{}/override-status", deal.platform);
    let sale =
        json!({"TargetStatus": "Sale", "Comment": "Both sides have signed, but the board was not updated"});

    story.step("Pavel, the platform's arbiter, sets it to Sale: the contract is missing.");
    let refused = expected(409).code("CRM_DEAL_CONTRACT_TYPE_REQUIRED");
    story.post(&override_status, Some(&deal.pavel), &sale, refused).await?;

    story.step("Dmitri records the contract; the card shows neither the account nor the fixation.");
    let contract = json!({
        "ContractType": "Ddu",
        "PaymentMethod": "Mortgage",
        "EscrowAccountNumber": "40817810099910004312",
        "FixationData": "The price holds until the end of the month",
    });
    let path = format!("{}/contract", deal.own);
    let card = story.put(&path, Some(&deal.dmitri), &contract, expected(200)).await?;
    story.check(card.as_object().is_some_and(|card| card.len() == 6), "the card has six members");
    deal.timeline(story, &["ContractChanged"]).await?;

    story.step("Pavel previews the override, which changes nothing.");
    let preview = format!("{override_status}/preview");
    let seen =
        story.post(&preview, Some(&deal.pavel), &json!({"TargetStatus": "Sale"}), expected(200)).await?;
    story.check(
        seen["NoOp"] == false && seen["Events"] == json!(["deal-stage-changed"]),
        &format!("{} would become {}", seen["From"]["Status"], seen["To"]["Status"]),
    );

    story.step("Now he overrides it with a reason.");
    let card = story.post(&override_status, Some(&deal.pavel), &sale, expected(200)).await?;
    story.check(card["StepGroup"] == "Contract", &format!("it is in {} now", card["StepGroup"]));
    deal.wait_for_status(bus, "Sale").await?;
    deal.timeline(story, &["ManualNote", "StatusChanged"]).await?;

    story.step("He sends it twice: nothing changes.");
    let again = story.post(&override_status, Some(&deal.pavel), &sale, expected(200)).await?;
    story.check(again == card, &format!("RowVersion is still {}", card["RowVersion"]));
    Ok(())
}

async fn cancel(story: &mut Story, deal: &Deal, bus: &mut Follower) -> anyhow::Result<()> {
    story.step(
        "The bank says no, and Pavel cancels the deal: its booking ends with it, and the flat is free again.",
    );
    let body = json!({"TargetStatus": "Cancelled", "Comment": "The bank has refused the mortgage"});
    let override_status = format!("{}/override-status", deal.platform);
    story.post(&override_status, Some(&deal.pavel), &body, expected(200)).await?;
    let shown = expected(200).within(EVENT_TIMEOUT).showing(|flat| flat["Status"] == "Available");
    story.get(&deal.flat, None, shown).await?;
    let event = deal.event(bus, CANCELLED).await?;
    story.check(event["CancelReason"] == body["Comment"], "the event has the reason");
    deal.timeline(story, &["ManualNote", "DealCancelled"]).await
}

async fn revive(story: &mut Story, deal: &Deal, bus: &mut Follower) -> anyhow::Result<()> {
    story.step("Another bank says yes: Pavel revives it. The flat stays free until the next booking.");
    let body = json!({"TargetStatus": "Application", "Comment": "Another bank gives the mortgage"});
    let override_status = format!("{}/override-status", deal.platform);
    story.post(&override_status, Some(&deal.pavel), &body, expected(200)).await?;
    deal.wait_for_status(bus, "Application").await?;
    let view = story.get(&deal.platform, Some(&deal.pavel), expected(200)).await?;
    story.check(
        view["CancelledAt"].is_null() && view["BookingExpiresAt"].is_null(),
        "it is neither cancelled nor booked",
    );
    let flat = story.get(&deal.flat, None, expected(200)).await?;
    story.check(flat["Status"] == "Available", &format!("the flat is {}", flat["Status"]));
    deal.timeline(story, &["ManualNote", "StatusChanged", "ManualNote", "DealCancelled"]).await
}

impl Deal {
    /// Waits for the next event of this topic and returns its payload.
    async fn event(&self, bus: &mut Follower, topic: &str) -> anyhow::Result<Value> {
        Ok(next_event(bus, |record| record.topic == topic && record.key == self.key).await?.payload)
    }

    /// Waits for the event that the deal has reached this status.
    async fn wait_for_status(&self, bus: &mut Follower, status: &str) -> anyhow::Result<()> {
        let is_it = |payload: &Value| payload["ToStatus"] == status;
        next_event(bus, |record| {
            record.topic == STAGE_CHANGED && record.key == self.key && is_it(&record.payload)
        })
        .await?;
        Ok(())
    }

    /// Checks the newest entries of the timeline, newest first.
    async fn timeline(&self, story: &mut Story, newest: &[&str]) -> anyhow::Result<()> {
        let url = format!("{}/timeline?PageSize={}", self.platform, newest.len());
        let page = story.get(&url, Some(&self.pavel), expected(200)).await?;
        let rows = page["Items"].as_array().map_or(&[][..], Vec::as_slice);
        let kinds: Vec<_> = rows.iter().filter_map(|row| row["Kind"].as_str()).collect();
        story.check(kinds == newest, &format!("its timeline: {}", kinds.join(", ")));
        Ok(())
    }
}
