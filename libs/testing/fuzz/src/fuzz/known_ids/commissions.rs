//! Commissions of Igor: open and completed sales, in payouts and in none.

use anyhow::Context;
use reqwest::Client;
use serde_json::{Value, json};
use time::Duration;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::{save, send, send_until, send_until_replicated, text};
use devkit::actors::{GALINA, IGOR, MARIA, OLGA};
use devkit::http;
use devkit::identity::Identity;
use devkit::stack::Stack;

const SALES: usize = 40;
/// Completed sales. The other sales are open.
const COMPLETED: usize = 20;
const SALES_OF_PAYOUT: usize = 2;
const FLATS_OF_FLOOR: usize = 4;

/// The tokens of the people who act here.
struct People {
    client: Client,
    base_url: String,
    galina: String,
    igor: String,
    maria: String,
    olga: String,
}

/// Creates accruals, payouts, payout runs and adjustment requests of Igor.
pub(super) async fn create(stack: &Stack) -> anyhow::Result<()> {
    let identity = Identity::of(stack)?;
    let people = People {
        client: http::client()?,
        base_url: stack.base_url.clone(),
        galina: identity.token(&GALINA).await?,
        igor: identity.token(&IGOR).await?,
        maria: identity.token(&MARIA).await?,
        olga: identity.token(&OLGA).await?,
    };
    let card = json!({
        "AgentUserId": IGOR.user,
        "Rates": [{"RateBps": 300, "ValidFrom": "2026-01-01T00:00:00Z"}],
    });
    let cards = people.client.put(people.platform("commission-rates"));
    send(cards.bearer_auth(&people.olga).json(&card)).await?;
    let deals = people.sell().await?;
    let mut runs = Vec::new();
    for deals in deals[..COMPLETED].chunks(SALES_OF_PAYOUT) {
        runs.push(people.pay(deals).await?);
    }
    let accruals = people.own("commission-accruals?PageSize=100");
    let accruals = send_until(accruals, |page| items(page).len() >= SALES).await?;
    let mut requests = Vec::new();
    for accrual in items(&accruals).iter().step_by(2) {
        requests.push(people.request_adjustment(accrual).await?);
    }
    let payouts = send(people.own("payouts?PageSize=100")).await?;
    save([("accruals", ids(&accruals)?), ("payouts", ids(&payouts)?), ("runs", runs), ("requests", requests)])
}

impl People {
    /// Returns the URL of the platform's resources.
    fn platform(&self, resources: &str) -> String {
        format!("{}/api/platform-manager/agent/{resources}", self.base_url)
    }

    /// Returns a request for Igor's own resources.
    fn own(&self, resources: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}/api/v1/my/{resources}", self.base_url)).bearer_auth(&self.igor)
    }

    /// Creates an unpublished building of Maria's and returns the ids of its flats.
    async fn build(&self) -> anyhow::Result<Vec<String>> {
        let url = format!("{}/api/v1/developers/projects", self.base_url);
        let body = json!({"Name": "x", "Class": "Elite", "City": "x", "Address": "x"});
        let project = send(self.client.post(&url).bearer_auth(&self.maria).json(&body)).await?;
        let url = format!("{url}/{}/buildings", text(&project["Id"])?);
        let floors = SALES.div_ceil(FLATS_OF_FLOOR);
        let body = json!({"Name": "x", "SectionsCount": 1, "FloorsTotal": floors, "State": "Planned"});
        let building = send(self.client.post(&url).bearer_auth(&self.maria).json(&body)).await?;
        let url = format!("{url}/{}", text(&building["Id"])?);
        let flat = |number: usize| {
            json!({
                "Number": number.to_string(),
                "Kind": "Flat",
                "Section": 1,
                "Floor": number / FLATS_OF_FLOOR + 1,
                "PositionOnFloor": number % FLATS_OF_FLOOR + 1,
                "AreaTotal": 1,
                "Finishing": "None",
                "Price": {"AmountMinor": 1_000_000, "Currency": "RUB"},
            })
        };
        let grid = json!({"Objects": (0..SALES).map(flat).collect::<Vec<_>>()});
        let put = self.client.put(format!("{url}/property-objects"));
        send(put.bearer_auth(&self.maria).json(&grid)).await?;
        let building = send(self.client.get(&url).bearer_auth(&self.maria)).await?;
        let floors = building["Grid"][0]["Floors"].as_array().context("a building without floors")?;
        let flats = floors.iter().flat_map(|floor| floor["Objects"].as_array().into_iter().flatten());
        flats.map(|flat| text(&flat["Id"])).collect()
    }

    /// Creates deals of Igor's, all in Sale.
    async fn sell(&self) -> anyhow::Result<Vec<String>> {
        let mut deals = Vec::new();
        for flat in self.build().await? {
            let url = format!("{}/api/v1/crm/deals", self.base_url);
            let body = json!({
                "PropertyObjectId": flat,
                "ClientUserId": Uuid::from_u128(rand::random()),
                "AgentUserId": IGOR.user,
                "RequestId": Uuid::from_u128(rand::random()),
            });
            let made = self.client.post(&url).bearer_auth(&self.maria).json(&body);
            let id = text(&send_until_replicated(made).await?["DealId"])?;
            let contract = json!({"ContractType": "Ddu", "PaymentMethod": "Cash"});
            let put = self.client.put(format!("{url}/{id}/contract"));
            send(put.bearer_auth(&self.maria).json(&contract)).await?;
            let body = json!({"TargetStatus": "Sale", "Comment": "x"});
            let url = format!("{}/api/platform-manager/crm/deals/{id}/override-status", self.base_url);
            send(self.client.post(url).bearer_auth(&self.olga).json(&body)).await?;
            deals.push(id);
        }
        Ok(deals)
    }

    /// Completes deals, starts a payout run for them, and returns its id.
    async fn pay(&self, deals: &[String]) -> anyhow::Result<String> {
        for deal in deals {
            let url = format!("{}/api/v1/crm/deals/{deal}/complete", self.base_url);
            let body = json!({"RegistryRecordNumber": "x"});
            send(self.client.post(url).bearer_auth(&self.maria).json(&body)).await?;
        }
        let is_unpaid = |accrual: &&Value| accrual["PayoutId"].is_null();
        let approved = self.own("commission-accruals?Status=Approved&PageSize=100");
        send_until(approved, |page| items(page).iter().filter(is_unpaid).count() == deals.len()).await?;
        let now = runtime::clock::now();
        let body = json!({
            "RunKey": format!("fuzz-{}", devkit::random_hex()),
            "PeriodFrom": (now - Duration::days(1)).format(&Rfc3339)?,
            "PeriodTo": now.format(&Rfc3339)?,
        });
        let begin = self.client.post(self.platform("payouts")).bearer_auth(&self.galina).json(&body);
        let id = text(&send(begin).await?["Id"])?;
        let run = self.client.get(self.platform(&format!("payout-runs/{id}"))).bearer_auth(&self.galina);
        send_until(run, |run| run["Status"] == "Completed").await?;
        Ok(id)
    }

    /// Creates a request of Igor's for a higher amount of an accrual, and returns its id.
    async fn request_adjustment(&self, accrual: &Value) -> anyhow::Result<String> {
        let amount = accrual["Amount"]["AmountMinor"].as_i64().context("no amount")?;
        let body = json!({
            "Reason": "Other",
            "RequestedAmount": {"AmountMinor": amount + 1, "Currency": accrual["Amount"]["Currency"]},
            "Comment": "x",
        });
        let id = text(&accrual["Id"])?;
        let url = format!("{}/api/v1/my/commission-accruals/{id}/adjustment-requests", self.base_url);
        text(&send(self.client.post(url).bearer_auth(&self.igor).json(&body)).await?["Id"])
    }
}

/// Returns the items of a page.
fn items(page: &Value) -> &[Value] {
    page["Items"].as_array().map_or(&[][..], Vec::as_slice)
}

fn ids(page: &Value) -> anyhow::Result<Vec<String>> {
    items(page).iter().map(|item| text(&item["Id"])).collect()
}
