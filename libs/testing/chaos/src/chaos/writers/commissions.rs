//! Agents who earn commissions and ask for adjustments, and employees of the platform who set
//! rates, decide, pay and reverse.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::issuer::Claims;
use time::Duration;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::{Writer, guid};

const MY_ACCRUALS: &str = "v1/my/commission-accruals";
const PLATFORM: &str = "platform-manager/agent";
/// A rate at which commissions are rarely whole numbers.
const RATE_BPS: u32 = 333;
/// Maximum number of deals of a flat. After a completed sale, CRM rejects the others.
const DEALS_OF_FLAT: usize = 3;

impl Writer {
    /// Creates developers whose flats an agent sells, while the agent asks for adjustments and is
    /// paid, until the load stops.
    pub(super) async fn earn(self, chessboard: String, crm: String, agent: String) {
        let platform = Claims::user(guid())
            .permission("agent.commissions.manage@platform")
            .permission("agent.payouts.manage@platform");
        let Some(platform) = self.with_claims(&platform, &agent) else { return };
        while let Some(flats) = self.house(&chessboard).await {
            let user = guid();
            let own = Claims::user(user).permission("agent.cabinet.use");
            let Some(own) = self.with_claims(&own, &agent) else { return };
            // Some agents have a rate before their first sale. The sales of others wait for a rate.
            let has_rate: bool = rand::random();
            while has_rate
                && !self.stopping.is_cancelled()
                && platform.set_rate(json!({"AgentUserId": user})).await.is_none()
            {}
            let seller = Self { base: crm.clone(), ..self.clone() };
            for flat in flats.iter().cycle().take(flats.len() * DEALS_OF_FLAT) {
                if self.stopping.is_cancelled() {
                    return;
                }
                tokio::join!(
                    seller.sell_flat(user, flat),
                    own.request_adjustments(),
                    platform.rate_unrated_deals(),
                    platform.decide(user),
                    platform.pay(user),
                );
            }
        }
    }

    /// Returns a user with these claims at a service.
    fn with_claims(&self, claims: &Claims, base: &str) -> Option<Self> {
        Some(Self { token: self.issuer.token(claims).ok()?, base: base.to_owned(), ..self.clone() })
    }

    /// Makes a deal of an agent, which is sold twice and then completed, cancelled or left as it
    /// is.
    async fn sell_flat(&self, agent: Uuid, flat: &str) -> Option<()> {
        let deals = "platform-manager/crm/deals";
        let body = json!({
            "PropertyObjectId": flat, "ClientUserId": guid(), "AgentUserId": agent, "RequestId": guid(),
        });
        let made = self.send(Method::POST, deals, body).await?;
        let id = made["DealId"].as_str()?;
        let developer: Uuid = made["TenantId"].as_str()?.parse().ok()?;
        let deal = format!("{deals}/{id}");
        let mut contract = json!({"ContractType": "Ddu", "PaymentMethod": "Cash"});
        self.send(Method::PUT, &format!("{deal}/contract"), contract.clone()).await;
        for target in ["Sale", "Booking", "Sale"] {
            let body = json!({"TargetStatus": target, "Comment": "chaos"});
            self.send(Method::POST, &format!("{deal}/override-status"), body).await;
        }
        match rand::random_range(0..6) {
            0 => {
                self.send(Method::POST, &format!("{deal}/cancel"), json!({"Reason": "chaos"})).await;
            }
            1 => {}
            number => {
                if number == 2 {
                    let amount = rand::random_range(1..2_000_000);
                    contract["Amount"] = json!({"AmountMinor": amount, "Currency": "RUB"});
                    self.send(Method::PUT, &format!("{deal}/contract"), contract).await;
                }
                // Only the developer completes a deal.
                let claims = Claims::user(guid()).company(developer).permission("crm.deals.manage-own");
                let own = self.with_claims(&claims, &self.base)?;
                let body = json!({"RegistryRecordNumber": "chaos"});
                own.send(Method::POST, &format!("v1/crm/deals/{id}/complete"), body).await;
            }
        }
        Some(())
    }

    /// Asks for up to twice the amount of some accruals.
    async fn request_adjustments(&self) -> Option<()> {
        let newest = format!("{MY_ACCRUALS}?Kind=Base&Status=Pending,Approved&PageSize=5");
        let page = self.send(Method::GET, &newest, Value::Null).await?;
        for accrual in page["Items"].as_array()? {
            if !accrual["AdjustmentRequest"].is_null() || rand::random() {
                continue;
            }
            let (id, amount) = (accrual["Id"].as_str()?, &accrual["Amount"]);
            let requested: i64 = rand::random_range(0..=2 * amount["AmountMinor"].as_i64()?);
            let reason = if rand::random() { "MissingBonus" } else { "WrongAmount" };
            let body = json!({
                "Reason": reason,
                "RequestedAmount": {"AmountMinor": requested, "Currency": amount["Currency"]},
                "Comment": "chaos",
            });
            self.send(Method::POST, &format!("{MY_ACCRUALS}/{id}/adjustment-requests"), body).await;
        }
        Some(())
    }

    /// Sets the rate of a card, also for past sales.
    async fn set_rate(&self, mut card: Value) -> Option<Value> {
        card["Rates"] = json!([{"RateBps": RATE_BPS, "ValidFrom": "2000-01-01T00:00:00Z"}]);
        self.send(Method::PUT, &format!("{PLATFORM}/commission-rates"), card).await
    }

    /// Sets rates for the developers of unrated deals.
    async fn rate_unrated_deals(&self) -> Option<()> {
        let oldest = format!("{PLATFORM}/unrated-deals?PageSize=20");
        let page = self.send(Method::GET, &oldest, Value::Null).await?;
        let deals = page["Items"].as_array()?.iter();
        let developers: BTreeSet<_> = deals.filter_map(|deal| deal["DeveloperCompanyId"].as_str()).collect();
        for developer in developers {
            self.set_rate(json!({"DeveloperCompanyId": developer})).await;
        }
        Some(())
    }

    /// Approves and rejects some requests of an agent, and rejects or reverses a few accruals.
    async fn decide(&self, agent: Uuid) -> Option<()> {
        let requests = format!("{PLATFORM}/adjustment-requests");
        let open = format!("{requests}?Status=Open&AgentUserId={agent}&PageSize=5");
        let page = self.send(Method::GET, &open, Value::Null).await?;
        for request in page["Items"].as_array()? {
            let request = format!("{requests}/{}", request["Id"].as_str()?);
            let (what, body) = match rand::random_range(0..3) {
                0 => ("approve", json!({})),
                1 => ("reject", json!({"Comment": "chaos"})),
                _ => continue,
            };
            self.send(Method::POST, &format!("{request}/{what}"), body).await;
        }
        let accruals = format!("{PLATFORM}/commission-accruals");
        let newest = format!(
            "{accruals}?AgentUserId={agent}&Kind=Base,Bonus,Correction&Status=Pending,Approved,Paid&PageSize=10"
        );
        let page = self.send(Method::GET, &newest, Value::Null).await?;
        for accrual in page["Items"].as_array()? {
            // Decides few, since the same accruals are listed again in every turn.
            if rand::random_range(0..20) > 0 {
                continue;
            }
            let what = if accrual["PayoutId"].is_null() { "reject" } else { "reverse" };
            let path = format!("{accruals}/{}/{what}", accrual["Id"].as_str()?);
            self.send(Method::POST, &path, json!({"Comment": "chaos"})).await;
        }
        Some(())
    }

    /// Starts two concurrent payout runs, the first of them twice with the same key, and moves the
    /// agent's payouts to random states. The second run may be for all agents.
    async fn pay(&self, agent: Uuid) -> Option<()> {
        let payouts = format!("{PLATFORM}/payouts");
        let now = runtime::clock::now();
        let mut run = json!({
            "RunKey": format!("chaos-{}", guid()),
            "PeriodFrom": (now - Duration::days(1)).format(&Rfc3339).ok()?,
            "PeriodTo": now.format(&Rfc3339).ok()?,
            "AgentUserIds": [agent],
            "WithholdingBps": 1_300,
        });
        let first = run.clone();
        run["RunKey"] = json!(format!("chaos-{}", guid()));
        if rand::random_range(0..4) == 0 {
            // All agents, whom other runs pay at the same time.
            run["AgentUserIds"] = Value::Null;
        }
        tokio::join!(
            self.send(Method::POST, &payouts, first.clone()),
            self.send(Method::POST, &payouts, first),
            self.send(Method::POST, &payouts, run),
        );
        let live = format!("{payouts}?AgentUserId={agent}&Status=Scheduled,InTransit&PageSize=5");
        let page = self.send(Method::GET, &live, Value::Null).await?;
        for payout in page["Items"].as_array()? {
            let payout = format!("{payouts}/{}", payout["Id"].as_str()?);
            match rand::random_range(0..8) {
                0 => {}
                1 => self.move_payout(&payout, "cancel").await,
                2 => self.move_payout(&payout, "fail").await,
                3 => {
                    tokio::join!(self.move_payout(&payout, "confirm"), self.move_payout(&payout, "fail"));
                }
                _ => {
                    self.move_payout(&payout, "send").await;
                    self.move_payout(&payout, "confirm").await;
                }
            }
        }
        Some(())
    }

    async fn move_payout(&self, payout: &str, what: &str) {
        let body = if what == "fail" { json!({"Reason": "chaos"}) } else { json!({}) };
        self.send(Method::POST, &format!("{payout}/{what}"), body).await;
    }
}
