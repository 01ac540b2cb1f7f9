//! Deals of the house in each of their statuses, and what they earned their agent: made over HTTP, once each.

use anyhow::{Context, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use time::Duration;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::building::Flats;
use devkit::actors::{ANNA, Actor, BORIS, DMITRI, IGOR, OLGA, PAVEL};
use devkit::http;
use devkit::identity::Identity;
use devkit::stack::Stack;

/// How far each deal comes, by its flat.
const DEALS: [(u32, &Actor, Stage); 8] = [
    (14, &ANNA, Stage::Application),
    (27, &BORIS, Stage::Application),
    (18, &BORIS, Stage::Booking),
    (21, &ANNA, Stage::Booking),
    (31, &BORIS, Stage::Booking),
    (24, &ANNA, Stage::Sale),
    (16, &BORIS, Stage::Completed),
    (33, &BORIS, Stage::Completed),
];

/// Until CRM has heard of the flats, and agent of the sales.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
const POLL: std::time::Duration = std::time::Duration::from_millis(100);

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Stage {
    Application,
    Booking,
    Sale,
    Completed,
}

/// Those at work, with their tokens.
struct Work {
    base: String,
    client: Client,
    dmitri: String,
    pavel: String,
    olga: String,
    igor: String,
}

/// Makes what is missing, and leaves alone what is there, whatever has become of it.
pub(super) async fn plant(stack: &Stack, flats: &Flats) -> anyhow::Result<()> {
    let identity = Identity::of(stack)?;
    let work = Work {
        base: stack.base_url.clone(),
        client: http::client()?,
        dmitri: identity.token(&DMITRI).await?,
        pavel: identity.token(&PAVEL).await?,
        olga: identity.token(&OLGA).await?,
        igor: identity.token(&IGOR).await?,
    };
    let cards = format!("agent/commission-rates?AgentUserId={}", IGOR.user);
    let cards = work.ask(Method::GET, &work.platform(&cards), &work.olga, &Value::Null).await?.1;
    if cards["TotalCount"] != 0 {
        return Ok(());
    }
    let mut earned = false;
    for (flat, client, stage) in DEALS {
        let made = work.deal(flats.id(flat), client, stage).await.with_context(|| format!("flat {flat}"))?;
        earned |= made && stage == Stage::Completed;
    }
    // Last, since it says that all is there: what was sold before waits for it.
    let card =
        json!({"AgentUserId": IGOR.user, "Rates": [{"RateBps": 300, "ValidFrom": "2020-01-01T00:00:00Z"}]});
    work.ask(Method::PUT, &work.platform("agent/commission-rates"), &work.olga, &card).await?;
    if earned { work.pay().await } else { Ok(()) }
}

impl Work {
    fn platform(&self, path: &str) -> String {
        format!("{}/api/platform-manager/{path}", self.base)
    }

    /// Makes one deal and takes it on; answers whether it was not there.
    async fn deal(&self, flat: Uuid, client: &Actor, stage: Stage) -> anyhow::Result<bool> {
        let deals = format!("{}/api/v1/crm/deals", self.base);
        let body = json!({
            "PropertyObjectId": flat, "ClientUserId": client.user, "AgentUserId": IGOR.user, "RequestId": flat,
        });
        let (status, made) = self.patiently(Method::POST, &deals, &self.dmitri, &body, |_| true).await?;
        if status != 201 {
            return Ok(false);
        }
        let id = made["DealId"].as_str().context("a deal without an id")?;
        let deal = format!("{deals}/{id}");
        if stage >= Stage::Booking {
            self.ask(Method::POST, &format!("{deal}/booking"), &self.dmitri, &json!({})).await?;
        }
        if stage >= Stage::Sale {
            let contract = json!({"ContractType": "Ddu", "PaymentMethod": "Mortgage"});
            self.ask(Method::PUT, &format!("{deal}/contract"), &self.dmitri, &contract).await?;
            let sale = json!({"TargetStatus": "Sale", "Comment": "Both sides have signed"});
            let path = self.platform(&format!("crm/deals/{id}/override-status"));
            self.ask(Method::POST, &path, &self.pavel, &sale).await?;
        }
        if stage >= Stage::Completed {
            let entry = json!({"RegistryRecordNumber": "77:01:0001001:1234-77/001/2026-1"});
            self.ask(Method::POST, &format!("{deal}/complete"), &self.dmitri, &entry).await?;
        }
        Ok(true)
    }

    /// Has a run pay Igor, once his commissions are approved.
    async fn pay(&self) -> anyhow::Result<()> {
        let accruals = format!("{}/api/v1/my/commission-accruals?Status=Approved", self.base);
        let completed = DEALS.iter().filter(|(.., stage)| *stage == Stage::Completed).count();
        let is_approved = |page: &Value| page["TotalCount"] == completed;
        self.patiently(Method::GET, &accruals, &self.igor, &Value::Null, is_approved).await?;
        let now = runtime::clock::now();
        let body = json!({
            "RunKey": "first",
            "PeriodFrom": (now - Duration::days(30)).format(&Rfc3339)?,
            "PeriodTo": now.format(&Rfc3339)?,
            "AgentUserIds": [IGOR.user],
            "WithholdingBps": 1300,
        });
        self.ask(Method::POST, &self.platform("agent/payouts"), &self.olga, &body).await?;
        let payouts = format!("{}/api/v1/my/payouts", self.base);
        let is_there = |page: &Value| page["TotalCount"] == 1;
        let page = self.patiently(Method::GET, &payouts, &self.igor, &Value::Null, is_there).await?.1;
        let payout = page["Items"][0]["Id"].as_str().context("a payout without an id")?;
        for (step, body) in [("send", json!({"Reference": "Order 1"})), ("confirm", json!({}))] {
            let path = self.platform(&format!("agent/payouts/{payout}/{step}"));
            self.ask(Method::POST, &path, &self.olga, &body).await?;
        }
        Ok(())
    }

    /// The same until it succeeds and shows this, which others hear of by Kafka.
    async fn patiently(
        &self,
        method: Method,
        url: &str,
        token: &str,
        body: &Value,
        shows: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<(u16, Value)> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            match self.ask(method.clone(), url, token, body).await {
                Ok((status, answer)) if shows(&answer) => return Ok((status, answer)),
                answer if tokio::time::Instant::now() >= deadline => {
                    answer?;
                    anyhow::bail!("{method} {url} does not show what it should");
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    async fn ask(
        &self,
        method: Method,
        url: &str,
        token: &str,
        body: &Value,
    ) -> anyhow::Result<(u16, Value)> {
        let request = self.client.request(method.clone(), url).bearer_auth(token);
        let request = if body.is_null() { request } else { request.json(body) };
        let answer = request.send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{method} {url}: {status} {text}");
        Ok((status.as_u16(), serde_json::from_str(&text)?))
    }
}
