//! Load during the faults: simulated users of every service.
//!
//! Rejections and broken connections are expected. The verdict is about the data of the databases
//! and the broker.

mod chats;
mod commissions;
mod results;

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use serde_json::{Value, json};
use testkit::issuer::{Claims, Issuer};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::results::{RequestResult, has_failed};
pub use self::results::{RequestResults, Score};

/// The id of the role `agent`, which agencies may assign. Identity's migration fixes it.
const AGENT: &str = "0198f000-0000-7000-8000-000000000007";

/// Delays before the retries of an idempotent request, like those of a client behind a gateway.
/// Together they exceed the time for which a killed pod stays in the endpoints.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(700),
    Duration::from_millis(1500),
];

/// The clients of simulated users: connections, timeouts, tokens and results.
pub struct Load<'a> {
    pub client: &'a Client,
    pub timeout: Duration,
    pub issuer: &'a Issuer,
    pub results: &'a Arc<RequestResults>,
    pub stopping: &'a CancellationToken,
}

impl Load<'_> {
    /// Spawns one user for each workflow. `base` returns the base URL of a service.
    pub fn spawn(
        &self,
        tasks: &mut JoinSet<()>,
        base: impl Fn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let writer = |service: &str| Writer::new(self, base(service)?);
        let (selections, chessboard) = (base("selections")?, base("chessboard")?);
        let (crm, messenger) = (base("crm")?, base("messenger")?);
        tasks.spawn(writer("selections")?.select());
        tasks.spawn(writer("news")?.post(selections));
        tasks.spawn(writer("identity")?.administer());
        let identity = writer("identity")?;
        tasks.spawn(identity.clone().build(chessboard.clone()));
        tasks.spawn(identity.clone().sell(chessboard.clone(), crm.clone()));
        tasks.spawn(identity.clone().earn(chessboard.clone(), crm.clone(), base("agent")?));
        tasks.spawn(identity.chat(chessboard, crm, messenger));
        Ok(())
    }
}

/// A simulated user of a service.
#[derive(Clone)]
struct Writer {
    client: Client,
    timeout: Duration,
    issuer: Issuer,
    token: String,
    base: String,
    results: Arc<RequestResults>,
    /// Cancelled when no further requests should be sent.
    stopping: CancellationToken,
}

impl Writer {
    /// Creates a user who may write posts and selections, and manages all companies and deals.
    fn new(load: &Load<'_>, base: String) -> anyhow::Result<Self> {
        let claims = Claims::user(guid())
            .permission("news.posts.manage-own")
            .permission("identity.tenants.manage@platform")
            .permission("identity.employee-roles.manage@platform")
            .permission("agent.cabinet.use@platform")
            .permission("crm.deals.manage@platform")
            .permission("news.posts.create-company@platform")
            .permission("news.posts.manage-own@platform");
        Ok(Self {
            client: load.client.clone(),
            timeout: load.timeout,
            issuer: load.issuer.clone(),
            token: load.issuer.token(&claims)?,
            base,
            results: Arc::clone(load.results),
            stopping: load.stopping.clone(),
        })
    }

    /// Returns an administrator of this company. Identity does not know the user, so the token
    /// carries the permissions.
    fn partner(&self, company: Uuid) -> Option<Self> {
        let claims = Claims::user(guid())
            .company(company)
            .permission("identity.employee-roles.manage")
            .permission("agent.cabinet.use");
        Some(Self { token: self.issuer.token(&claims).ok()?, ..self.clone() })
    }

    /// Creates, changes and archives companies while their employees are hired, assigned roles and
    /// dismissed, until the load stops.
    async fn administer(self) {
        while !self.stopping.is_cancelled() {
            let tenants = "identity/admin/tenants";
            let Some(company) = self.make(tenants, json!({"Name": "chaos", "Type": "Agency"})).await else {
                continue;
            };
            let tenant = format!("{tenants}/{company}");
            let person = |name: &str| json!({"Name": name, "Email": format!("{name}@example.com")});
            self.send(Method::POST, &format!("{tenant}/administrators"), person("first")).await;
            let Some(partner) = company.parse().ok().and_then(|id| self.partner(id)) else { return };
            for round in 0..4 {
                partner.employ(person(&format!("person{round}"))).await;
                self.send(Method::PUT, &tenant, json!({"Name": format!("chaos {round}")})).await;
                self.send(Method::POST, &format!("{tenant}/suspend"), Value::Null).await;
                self.send(Method::POST, &format!("{tenant}/activate"), Value::Null).await;
            }
            self.send(Method::POST, &format!("{tenant}/archive"), Value::Null).await;
        }
    }

    /// Hires an employee, changes the roles, and suspends and dismisses the employee.
    async fn employ(&self, person: Value) {
        let Some(employee) = self.make("identity/employees", person).await else { return };
        let role = format!("identity/employees-roles/{employee}/roles/{AGENT}");
        self.send(Method::POST, &format!("{role}/add"), Value::Null).await;
        self.send(Method::DELETE, &role, Value::Null).await;
        self.send(Method::POST, &format!("{role}/add"), Value::Null).await;
        let employee = format!("identity/employees/{employee}");
        self.send(Method::POST, &format!("{employee}/suspend"), Value::Null).await;
        self.send(Method::DELETE, &employee, Value::Null).await;
    }

    /// Returns a manager of this developer at chessboard.
    fn manager(&self, developer: Uuid, chessboard: &str) -> Option<Self> {
        let claims = Claims::user(guid()).company(developer).permission("chessboard.developers.manage");
        Some(Self { token: self.issuer.token(&claims).ok()?, base: chessboard.to_owned(), ..self.clone() })
    }

    /// Creates developers whose profiles are published and hidden while their grids and prices
    /// change, until the load stops.
    async fn build(self, chessboard: String) {
        let tenants = "identity/admin/tenants";
        while !self.stopping.is_cancelled() {
            let company = self.make(tenants, json!({"Name": "chaos", "Type": "Developer"})).await;
            let Some(developer) = company.and_then(|id| id.parse().ok()) else { continue };
            let Some(mut manager) = self.manager(developer, &chessboard) else { return };
            let tenant = format!("{tenants}/{developer}");
            let me = "v1/developers/me";
            // Waits until chessboard has received the company from Kafka.
            while !self.stopping.is_cancelled() && manager.send(Method::GET, me, Value::Null).await.is_none()
            {
            }
            let mut profile = json!({
                "Name": "chaos",
                "Description": "Whatever happens.",
                "LogoFileId": guid(),
                "Highlights": {"ContractVersion": 1, "AwardTitles": []},
            });
            manager.send(Method::PUT, me, profile.clone()).await;
            manager.send(Method::POST, &format!("{me}/publish"), Value::Null).await;
            if let Some((project, grid)) = manager.project().await {
                for round in 0..6 {
                    manager.send(Method::PUT, &grid, flats(round)).await;
                    manager.send(Method::POST, &format!("{me}/hide"), Value::Null).await;
                    profile["Name"] = json!(format!("chaos {round}"));
                    manager.send(Method::PUT, me, profile.clone()).await;
                    manager.send(Method::POST, &format!("{me}/publish"), Value::Null).await;
                    self.send(Method::POST, &format!("{tenant}/suspend"), Value::Null).await;
                    self.send(Method::POST, &format!("{tenant}/activate"), Value::Null).await;
                    // The suspension revoked the tokens of its second and of earlier seconds.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let Some(next) = self.manager(developer, &chessboard) else { return };
                    manager = next;
                }
                manager.send(Method::DELETE, &project, Value::Null).await;
            }
            self.send(Method::POST, &format!("{tenant}/archive"), Value::Null).await;
        }
    }

    /// Creates a published project with a building. Returns the paths of the project and of the
    /// grid.
    async fn project(&self) -> Option<(String, String)> {
        let projects = "v1/developers/projects";
        let body = json!({"Name": "chaos", "Class": "Comfort", "City": "Moscow", "Address": "1"});
        let project = format!("{projects}/{}", self.make(projects, body).await?);
        let body = json!({"Name": "1", "SectionsCount": 1, "FloorsTotal": 5, "State": "Planned"});
        let building = self.make(&format!("{project}/buildings"), body).await?;
        self.send(Method::POST, &format!("{project}/publish"), Value::Null).await;
        let grid = format!("{project}/buildings/{building}/property-objects");
        Some((project, grid))
    }

    /// Creates a developer with a building and makes deals of its flats until the load stops. Some
    /// of their bookings expire.
    async fn sell(self, chessboard: String, crm: String) {
        let Some(flats) = self.house(&chessboard).await else { return };
        let seller = Self { base: crm, ..self };
        while !seller.stopping.is_cancelled() {
            for flat in &flats {
                seller.deal(flat).await;
            }
        }
    }

    /// Creates a developer with a building and returns the ids of its flats.
    async fn house(&self, chessboard: &str) -> Option<Vec<String>> {
        while !self.stopping.is_cancelled() {
            let body = json!({"Name": "chaos", "Type": "Developer"});
            let company = self.make("identity/admin/tenants", body).await;
            let Some(developer) = company.and_then(|id| id.parse().ok()) else { continue };
            let manager = self.manager(developer, chessboard)?;
            // Waits until chessboard has received the company from Kafka.
            let me = "v1/developers/me";
            while !self.stopping.is_cancelled() && manager.send(Method::GET, me, Value::Null).await.is_none()
            {
            }
            let Some((_, grid)) = manager.project().await else { continue };
            if manager.send(Method::PUT, &grid, flats(0)).await.is_none() {
                continue;
            }
            let building = grid.strip_suffix("/property-objects")?;
            let Some(building) = manager.send(Method::GET, building, Value::Null).await else { continue };
            let sections = building["Grid"].as_array()?.iter();
            let floors = sections.filter_map(|section| section["Floors"].as_array()).flatten();
            let objects = floors.filter_map(|floor| floor["Objects"].as_array()).flatten();
            return Some(objects.filter_map(|object| Some(object["Id"].as_str()?.to_owned())).collect());
        }
        None
    }

    /// Creates a deal of a flat and changes its status several times. Another user may have booked
    /// the flat.
    async fn deal(&self, flat: &str) {
        let deals = "platform-manager/crm/deals";
        let body = json!({"PropertyObjectId": flat, "ClientUserId": guid(), "RequestId": guid()});
        let Some(made) = self.send(Method::POST, deals, body).await else { return };
        let Some(id) = made["DealId"].as_str() else { return };
        let deal = format!("{deals}/{id}");
        let contract = json!({"ContractType": "Ddu", "PaymentMethod": "Cash"});
        self.send(Method::PUT, &format!("{deal}/contract"), contract).await;
        self.send(Method::PUT, &format!("{deal}/agent"), json!({"AgentUserId": guid()})).await;
        for target in ["Sale", "Booking", "Cancelled", "Application"] {
            self.send(Method::POST, &format!("{deal}/booking"), json!({})).await;
            let body = json!({"TargetStatus": target, "Comment": "chaos"});
            self.send(Method::POST, &format!("{deal}/override-status"), body).await;
        }
        self.send(Method::POST, &format!("{deal}/notes"), json!({"Text": "chaos"})).await;
        // Some bookings are left to expire.
        if rand::random() {
            self.send(Method::POST, &format!("{deal}/cancel"), json!({"Reason": "chaos"})).await;
        }
    }

    /// Creates, changes and deletes selections until the load stops.
    async fn select(self) {
        while !self.stopping.is_cancelled() {
            let Some(selection) =
                self.make("v1/selections", json!({"Title": "chaos", "Items": objects(3)})).await
            else {
                continue;
            };
            let path = format!("v1/selections/{selection}");
            for round in 0..6 {
                self.send(
                    Method::PUT,
                    &path,
                    json!({"Title": format!("round {round}"), "Description": null}),
                )
                .await;
                self.send(Method::PUT, &format!("{path}/items"), json!({"Items": objects(round)})).await;
            }
            self.send(Method::DELETE, &path, Value::Null).await;
        }
    }

    /// Creates posts, embeds and removes a selection while the post is published and withdrawn, and
    /// deletes some posts, until the load stops.
    async fn post(self, selections: String) {
        let owner = Self { base: selections, ..self.clone() };
        while !self.stopping.is_cancelled() {
            let Some(post) = self.make("v1/posts", json!({"Title": "chaos"})).await else { continue };
            let path = format!("v1/posts/{post}");
            let source = owner.make("v1/selections", json!({"Title": "chaos", "Items": objects(2)})).await;
            let text =
                json!({"Kind": "Text", "Format": "Plain", "Text": "Whatever happens.", "SortOrder": 0});
            let embed = json!({"Kind": "SelectionEmbed", "SourceSelectionId": source, "SortOrder": 1});
            for round in 0..4 {
                let blocks = if round % 2 == 0 { json!([text, embed]) } else { json!([text]) };
                self.send(Method::PUT, &format!("{path}/blocks"), json!({"Blocks": blocks})).await;
                self.send(Method::POST, &format!("{path}/publish"), Value::Null).await;
                self.send(Method::POST, &format!("{path}/unpublish"), Value::Null).await;
            }
            if rand::random() {
                let blocks = json!({"Blocks": [text, embed]});
                self.send(Method::PUT, &format!("{path}/blocks"), blocks).await;
                self.send(Method::POST, &format!("{path}/publish"), Value::Null).await;
            } else {
                self.send(Method::DELETE, &path, Value::Null).await;
            }
            // A user may have at most a hundred selections. Snapshots outlive their selection.
            if let Some(source) = source {
                owner.send(Method::DELETE, &format!("v1/selections/{source}"), Value::Null).await;
            }
        }
    }

    /// Creates a resource and returns its id.
    async fn make(&self, resources: &str, body: Value) -> Option<String> {
        let created = self.send(Method::POST, resources, body).await?;
        Some(created["Id"].as_str()?.to_owned())
    }

    /// Sends a request, and retries it after a failure if its method is idempotent (RFC 9110,
    /// 9.2.2). Returns the JSON of a successful response, if there is any.
    async fn send(&self, method: Method, path: &str, body: Value) -> Option<Value> {
        if self.stopping.is_cancelled() {
            return None;
        }
        let url = format!("{}/api/{path}", self.base);
        let request_line = format!("{method} {url}");
        let attempt = async || {
            let request = self.client.request(method.clone(), &url);
            let request = request.bearer_auth(&self.token).timeout(self.timeout);
            let response = if body.is_null() { request } else { request.json(&body) }.send().await?;
            Ok((response.status(), response.text().await?))
        };
        let started = Instant::now();
        let mut result: RequestResult = attempt().await;
        self.results.add(&request_line, &result, started.elapsed());
        if method.is_idempotent() && has_failed(&result) {
            for pause in RETRY_DELAYS {
                tokio::time::sleep(pause).await;
                result = attempt().await;
                if !has_failed(&result) {
                    break;
                }
            }
            if has_failed(&result) {
                self.results.add_failed_retry();
            }
        }
        let body = result.ok().filter(|(status, _)| status.is_success()).map(|(_, body)| body);
        if body.is_none() {
            // The request failed or was rejected. A user would pause before the next one.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        serde_json::from_str(&body?).ok()
    }
}

fn guid() -> Uuid {
    Uuid::from_u128(rand::random())
}

fn objects(count: usize) -> Vec<Value> {
    (0..count).map(|_| json!({"PropertyObjectId": guid()})).collect()
}

/// Returns a grid of flats. From round to round, some flats disappear and return, and prices rise.
fn flats(round: u32) -> Value {
    let flat = |number: u32| {
        json!({
            "Number": number.to_string(),
            "Kind": "Flat",
            "Section": 1,
            "Floor": number / 4 + 1,
            "PositionOnFloor": number % 4 + 1,
            "AreaTotal": 40.5,
            "Finishing": "None",
            "Price": {"AmountMinor": 1_000_000 * (round + 1), "Currency": "RUB"},
        })
    };
    json!({"Objects": (0..20 - round % 3).map(flat).collect::<Vec<_>>()})
}
