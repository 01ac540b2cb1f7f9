//! The fifth chapter: the commission of a sale, its payout and its reversal.

use anyhow::Context;
use serde_json::{Value, json};
use testkit::issuer::Claims;
use time::Duration;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::scene::Scene;
use super::story::{Story, expected};
use super::{ACCESS_END_TIMEOUT, EVENT_TIMEOUT, next_event};
use devkit::actors::{ANNA, DMITRI, GALINA, MARIA, OLGA, PAVEL, VERA};
use devkit::events::Follower;

const ACCRUAL: &str = "platform.agent.accrual-changed.v1";
const PAYOUT: &str = "platform.agent.payout-status-changed.v1";

/// Amounts in minor units: the price of the flat, 3 per cent of it, and the amount after the
/// adjustment.
const PRICE: u64 = 1_000_000_000;
const EARNED: u64 = 30_000_000;
const GRANTED: u64 = 35_000_000;

/// A sold deal, with the tokens and the URLs for its commission.
struct SoldDeal {
    /// Sonya is a new agent without a balance.
    user: Uuid,
    sonya: String,
    olga: String,
    galina: String,
    /// URL of Sonya's own resources.
    my: String,
    /// URL of the platform's operations.
    platform: String,
    deal: String,
}

pub(super) async fn play(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let topics = [ACCRUAL, PAYOUT].map(str::to_owned).to_vec();
    let mut bus = Follower::open(&scene.stack.brokers, topics, false)?;
    let sold = sell(story, scene, &mut bus).await?;
    let accrual = complete(story, scene, &sold, &mut bus).await?;
    adjust(story, &sold, &accrual).await?;
    pay(story, &sold, &mut bus).await?;
    reverse(story, &sold, &accrual).await?;
    leave(story, scene, &sold).await
}

async fn sell(story: &mut Story, scene: &mut Scene<'_>, bus: &mut Follower) -> anyhow::Result<SoldDeal> {
    let user = hire(story, scene).await?;
    let mut sold = SoldDeal {
        user,
        sonya: scene.token(&Claims::user(user).permission("agent.cabinet.use"))?,
        olga: scene.sign_in(&OLGA).await?,
        galina: scene.sign_in(&GALINA).await?,
        my: scene.public("my"),
        platform: format!("{}/api/platform-manager/agent", scene.stack.base_url),
        deal: String::new(),
    };
    let (dmitri, pavel) = (scene.sign_in(&DMITRI).await?, scene.sign_in(&PAVEL).await?);

    story.step("Olga sets Sonya's rate: 3 per cent.");
    let card = json!({"AgentUserId": user, "Rates": [{"RateBps": 300, "ValidFrom": "2026-01-01T00:00:00Z"}]});
    let cards = format!("{}/commission-rates", sold.platform);
    story.put(&cards, Some(&sold.olga), &card, expected(200)).await?;

    story.step("Sonya brings Anna to a flat. Dmitri creates the deal and records the contract.");
    let maria = scene.sign_in(&MARIA).await?;
    let flat = build(story, scene, &maria).await?;
    let deals = scene.public("crm/deals");
    let body = json!({"PropertyObjectId": flat, "ClientUserId": ANNA.user, "AgentUserId": user});
    let made = story.post(&deals, Some(&dmitri), &body, expected(201).within(EVENT_TIMEOUT)).await?;
    made["DealId"].as_str().context("a deal without an id")?.clone_into(&mut sold.deal);
    let contract = json!({"ContractType": "Ddu", "PaymentMethod": "Cash"});
    let path = format!("{deals}/{}/contract", sold.deal);
    story.put(&path, Some(&dmitri), &contract, expected(200)).await?;

    story.step(
        "It is sold. Agent consumes the sale from Kafka: 3 per cent are pending until the deal completes.",
    );
    let sale = json!({"TargetStatus": "Sale", "Comment": "Both sides have signed"});
    let override_status =
        format!("{}/api/platform-manager/crm/deals/{}/override-status", scene.stack.base_url, sold.deal);
    story.post(&override_status, Some(&pavel), &sale, expected(200)).await?;
    let is_pending = |page: &Value| page["Items"][0]["Status"] == "Pending";
    let shown = expected(200).within(EVENT_TIMEOUT).showing(is_pending);
    let page = story.get(&sold.accruals(), Some(&sold.sonya), shown).await?;
    let amount = &page["Items"][0]["Amount"];
    story.check(amount["AmountMinor"] == EARNED, &format!("of {PRICE} it is {amount}"));
    sold.wait_for_event(bus, "Pending").await?;
    Ok(sold)
}

/// Employs Sonya at the agency and returns her id. CRM accepts only agents whom an agency employs.
async fn hire(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<Uuid> {
    story.step("Vera, who administers the agency, employs Sonya.");
    let (vera, employees) = (scene.sign_in(&VERA).await?, scene.identity("employees"));
    let body = json!({"Name": "Sonya Belova", "Email": "sonya@example.com"});
    let made = story.post(&employees, Some(&vera), &body, expected(201)).await?;
    scene.record_created(&employees, &made, &vera)
}

/// Creates a flat in an unpublished project as this employee of a developer. The flat stays when
/// the story is over, since it is in a deal.
pub(super) async fn build(story: &mut Story, scene: &Scene<'_>, employee: &str) -> anyhow::Result<String> {
    let projects = scene.public("developers/projects");
    let body = json!({"Name": "Sold", "Class": "Comfort", "City": "Moscow", "Address": "Main Street, 1"});
    let project = story.post(&projects, Some(employee), &body, expected(201)).await?;
    let buildings = format!("{projects}/{}/buildings", project["Id"].as_str().unwrap_or_default());
    let body = json!({"Name": "1", "SectionsCount": 1, "FloorsTotal": 1, "State": "Commissioned"});
    let building = story.post(&buildings, Some(employee), &body, expected(201)).await?;
    let building = format!("{buildings}/{}", building["Id"].as_str().unwrap_or_default());
    let flat = json!({
        "Number": "1", "Kind": "Flat", "Section": 1, "Floor": 1, "PositionOnFloor": 1, "Rooms": 2,
        "AreaTotal": 54, "Finishing": "Finished", "Price": {"AmountMinor": PRICE, "Currency": "RUB"},
    });
    let grid = format!("{building}/property-objects");
    story.put(&grid, Some(employee), &json!({"Objects": [flat]}), expected(200)).await?;
    let building = story.get(&building, Some(employee), expected(200)).await?;
    let flat = &building["Grid"][0]["Floors"][0]["Objects"][0];
    Ok(flat["Id"].as_str().context("no flat was made")?.to_owned())
}

/// Completes the deal and returns the id of its accrual.
async fn complete(
    story: &mut Story,
    scene: &Scene<'_>,
    sold: &SoldDeal,
    bus: &mut Follower,
) -> anyhow::Result<String> {
    story.step("The sale is registered, and Dmitri completes the deal: Sonya's commission is approved.");
    let dmitri = scene.sign_in(&DMITRI).await?;
    let path = scene.public(&format!("crm/deals/{}/complete", sold.deal));
    let body = json!({"RegistryRecordNumber": "77:01:0001001:1234-77/001/2026-1"});
    story.post(&path, Some(&dmitri), &body, expected(200)).await?;
    sold.wait_for_event(bus, "Approved").await?;
    let page = story.get(&sold.accruals(), Some(&sold.sonya), expected(200)).await?;
    let accrual = page["Items"][0]["Id"].as_str().context("an accrual without an id")?;

    story.step("Another agent cannot see the commission.");
    let other = scene.token(&Claims::user(ANNA.user).permission("agent.cabinet.use"))?;
    let path = format!("{}/commission-accruals/{accrual}/adjustment-requests", sold.my);
    let body = json!({"Reason": "Other", "Comment": "It is mine"});
    story.post(&path, Some(&other), &body, expected(404).code("AGENT_ACCRUAL_NOT_FOUND")).await?;
    Ok(accrual.to_owned())
}

async fn adjust(story: &mut Story, sold: &SoldDeal, accrual: &str) -> anyhow::Result<()> {
    story.step("A bonus is missing: Sonya asks for the whole amount.");
    let path = format!("{}/commission-accruals/{accrual}/adjustment-requests", sold.my);
    let body = json!({
        "Reason": "MissingBonus",
        "RequestedAmount": {"AmountMinor": GRANTED, "Currency": "RUB"},
        "Comment": "A bonus was promised for the first sale",
    });
    let adjustment_request = story.post(&path, Some(&sold.sonya), &body, expected(201)).await?;

    story.step("Olga grants it: the commission stays as it is, and the difference becomes a bonus.");
    let path = format!(
        "{}/adjustment-requests/{}/approve",
        sold.platform,
        adjustment_request["Id"].as_str().unwrap_or_default()
    );
    story.post(&path, Some(&sold.olga), &json!({}), expected(200)).await?;
    let page = story.get(&sold.accruals(), Some(&sold.sonya), expected(200)).await?;
    let bonus = &page["Items"][0];
    story.check(
        bonus["Kind"] == "Bonus" && bonus["Amount"]["AmountMinor"] == GRANTED - EARNED,
        &format!("{} of {}", bonus["Kind"], bonus["Amount"]),
    );
    Ok(())
}

async fn pay(story: &mut Story, sold: &SoldDeal, bus: &mut Follower) -> anyhow::Result<()> {
    story.step("Galina starts a payout run of the approved amount, less 13 per cent.");
    let run = sold.run(story).await?;
    story.check(run["PayoutsCount"] == 1, &format!("{}", run["Totals"]));
    let payouts = format!("{}/payouts", sold.my);
    let page = story.get(&payouts, Some(&sold.sonya), expected(200)).await?;
    let payout = page["Items"][0]["Id"].as_str().context("a payout without an id")?.to_owned();

    story.step("Sonya reads her statement, whose lines never change.");
    let path = format!("{payouts}/{payout}/statement");
    let statement = story.get(&path, Some(&sold.sonya), expected(200)).await?;
    let lines = statement["Lines"].as_array().map_or(0, Vec::len);
    let net = &statement["Payout"]["Net"]["AmountMinor"];
    // `GRANTED` less 13 per cent.
    story.check(lines == 2 && net == 30_450_000, &format!("{lines} lines, {net} net"));

    story.step("The bank receives and pays it.");
    for (step, body) in [("send", json!({"Reference": "Order 17"})), ("confirm", json!({}))] {
        let path = format!("{}/payouts/{payout}/{step}", sold.platform);
        story.post(&path, Some(&sold.galina), &body, expected(200)).await?;
    }
    let is_paid = |payload: &Value| payload["To"] == "Paid";
    next_event(bus, |record| record.topic == PAYOUT && record.key == payout && is_paid(&record.payload))
        .await?;
    Ok(())
}

async fn reverse(story: &mut Story, sold: &SoldDeal, accrual: &str) -> anyhow::Result<()> {
    story.step(
        "The sale turns out to be Sonya's own purchase. The paid accrual never changes: a Reversal is added.",
    );
    let path = format!("{}/commission-accruals/{accrual}/reverse", sold.platform);
    let body = json!({"Comment": "Agent and client are one"});
    let reversal = story.post(&path, Some(&sold.olga), &body, expected(200)).await?;
    story.check(reversal["Kind"] == "Reversal", &format!("{}", reversal["Amount"]));
    let summary = format!("{}/commission-summary", sold.my);
    let summary = story.get(&summary, Some(&sold.sonya), expected(200)).await?;
    let owed = &summary["Balances"][0]["Outstanding"]["AmountMinor"];
    // The reversal also undoes the bonus, and `GRANTED` is paid.
    story.check(owed == -35_000_000, &format!("outstanding: {owed}"));

    story.step("The next run pays her nothing: the debt is carried over until she has earned more.");
    let run = sold.run(story).await?;
    story.check(run["PayoutsCount"] == 0, "no payout was made");
    Ok(())
}

async fn leave(story: &mut Story, scene: &Scene<'_>, sold: &SoldDeal) -> anyhow::Result<()> {
    story.step("Vera removes Sonya: her token ends within a minute.");
    let vera = scene.sign_in(&VERA).await?;
    let employee = scene.identity(&format!("employees/{}", sold.user));
    story.delete(&employee, Some(&vera), expected(204)).await?;
    let payouts = format!("{}/payouts", sold.my);
    story.get(&payouts, Some(&sold.sonya), expected(401).within(ACCESS_END_TIMEOUT)).await?;

    story.step("Her next token opens no payouts, since nothing is owed to her.");
    let fresh = scene.token_after_revocation(sold.user).await?;
    story.get(&payouts, Some(&fresh), expected(403).code("FORBIDDEN")).await?;
    Ok(())
}

impl SoldDeal {
    /// Returns the URL of the deal's accruals, newest first.
    fn accruals(&self) -> String {
        format!("{}/commission-accruals?DealId={}", self.my, self.deal)
    }

    /// Waits for the event that an accrual of the deal has reached this status.
    async fn wait_for_event(&self, bus: &mut Follower, status: &str) -> anyhow::Result<()> {
        let is_it = |payload: &Value| payload["DealId"] == *self.deal && payload["To"] == status;
        next_event(bus, |record| record.topic == ACCRUAL && is_it(&record.payload)).await.map(drop)
    }

    /// Creates a payout run for Sonya and waits until it is done.
    async fn run(&self, story: &mut Story) -> anyhow::Result<Value> {
        let now = runtime::clock::now();
        let body = json!({
            "RunKey": format!("story-{}", Uuid::from_u128(rand::random())),
            "PeriodFrom": (now - Duration::days(30)).format(&Rfc3339)?,
            "PeriodTo": now.format(&Rfc3339)?,
            "AgentUserIds": [self.user],
            "WithholdingBps": 1300,
        });
        let payouts = format!("{}/payouts", self.platform);
        let run = story.post(&payouts, Some(&self.galina), &body, expected(201)).await?;
        let path = format!("{}/payout-runs/{}", self.platform, run["Id"].as_str().unwrap_or_default());
        let is_done = |run: &Value| run["Status"] == "Completed";
        story.get(&path, Some(&self.galina), expected(200).within(EVENT_TIMEOUT).showing(is_done)).await
    }
}
