//! Load while everything breaks: people at the services. Refusals and broken connections are part of it; what counts is
//! what the databases and the broker have kept.

mod chats;
mod commissions;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use testkit::issuer::{Claims, Issuer};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Roles that every company of the type that is founded here may give: by identity's migration the same everywhere.
const AGENT: &str = "0198f000-0000-7000-8000-000000000007";

/// What came of requests. A refusal is an answer; none at all is a failure, as is one of a server that could not.
#[derive(Default)]
pub struct Answers(Mutex<Score>);

#[derive(Default)]
pub struct Score {
    pub requests: u64,
    pub successful: u64,
    pub failed: u64,
    /// Of these, what may be repeated and failed each time.
    pub failed_retries: u64,
    pub longest: Duration,
    /// The first failures, for people to read.
    pub failures: Vec<String>,
}

/// How many failures are told.
const MAX_REPORTED_FAILURES: usize = 5;
/// After how long what may be repeated is, each time, as who calls a service through a gateway has it: together that is longer than
/// a pod that was killed is still named.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(700),
    Duration::from_millis(1500),
];

type Answer = reqwest::Result<(StatusCode, String)>;

/// No answer, or a server's that could not give one.
fn has_failed(answer: &Answer) -> bool {
    answer.as_ref().map_or(true, |(status, _)| status.is_server_error())
}

impl Answers {
    /// What has come so far; from now on it is counted anew.
    pub fn take(&self) -> Score {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts what came at first.
    fn add(&self, asked: &str, answer: &Answer, took: Duration) {
        let mut score = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        score.requests += 1;
        score.longest = score.longest.max(took);
        let failure = match answer {
            Ok((status, body)) if status.is_server_error() => format!("{status} {body}"),
            Ok((status, _)) => {
                score.successful += u64::from(status.is_success());
                return;
            }
            Err(error) => format!("{error:?}"),
        };
        score.failed += 1;
        if score.failures.len() < MAX_REPORTED_FAILURES {
            score.failures.push(format!("{asked} after {} ms: {failure}", took.as_millis()));
        }
    }

    /// Counts what failed although it was repeated.
    fn add_failed_retry(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failed_retries += 1;
    }
}

/// How people come: by which client, how long they wait, what becomes of their answers, and when they end.
pub struct Load<'a> {
    pub client: &'a Client,
    pub timeout: Duration,
    pub issuer: &'a Issuer,
    pub answers: &'a Arc<Answers>,
    pub ending: &'a CancellationToken,
}

impl Load<'_> {
    /// Has somebody act in each service, which is found where `base` says.
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

/// A person at a service.
#[derive(Clone)]
struct Writer {
    client: Client,
    timeout: Duration,
    issuer: Issuer,
    token: String,
    base: String,
    answers: Arc<Answers>,
    /// From then on nothing more is asked for.
    ending: CancellationToken,
}

impl Writer {
    /// Somebody who may write posts and selections, and administers all companies.
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
            answers: Arc::clone(load.answers),
            ending: load.ending.clone(),
        })
    }

    /// Somebody who administers this company: identity keeps them not, so that their token says it all.
    fn partner(&self, company: Uuid) -> Option<Self> {
        let claims = Claims::user(guid())
            .company(company)
            .permission("identity.employee-roles.manage")
            .permission("agent.cabinet.use");
        Some(Self { token: self.issuer.token(&claims).ok()?, ..self.clone() })
    }

    /// Founds a company, moves it to and fro while its people come, get roles, lose them and go, and closes it; and
    /// again until the end.
    async fn administer(self) {
        while !self.ending.is_cancelled() {
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

    /// Somebody comes, gets a role, loses it, gets it again, is suspended and goes with it.
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

    /// Somebody who manages this developer, at chessboard.
    fn manager(&self, developer: Uuid, chessboard: &str) -> Option<Self> {
        let claims = Claims::user(guid()).company(developer).permission("chessboard.developers.manage");
        Some(Self { token: self.issuer.token(&claims).ok()?, base: chessboard.to_owned(), ..self.clone() })
    }

    /// Founds a developer, whose profile is published and hidden, by people and by suspensions, while its grid and prices
    /// change; and again until the end.
    async fn build(self, chessboard: String) {
        let tenants = "identity/admin/tenants";
        while !self.ending.is_cancelled() {
            let company = self.make(tenants, json!({"Name": "chaos", "Type": "Developer"})).await;
            let Some(developer) = company.and_then(|id| id.parse().ok()) else { continue };
            let Some(manager) = self.manager(developer, &chessboard) else { return };
            let tenant = format!("{tenants}/{developer}");
            let me = "v1/developers/me";
            // Chessboard hears of the company by Kafka.
            while !self.ending.is_cancelled() && manager.send(Method::GET, me, Value::Null).await.is_none() {}
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
                }
                manager.send(Method::DELETE, &project, Value::Null).await;
            }
            self.send(Method::POST, &format!("{tenant}/archive"), Value::Null).await;
        }
    }

    /// A published project with a building; answers where it and the building's grid are.
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

    /// Founds a developer with a house, whose flats are applied for, booked, sold, cancelled and revived while other bookings
    /// of them expire; until the end.
    async fn sell(self, chessboard: String, crm: String) {
        let Some(flats) = self.house(&chessboard).await else { return };
        let seller = Self { base: crm, ..self };
        while !seller.ending.is_cancelled() {
            for flat in &flats {
                seller.deal(flat).await;
            }
        }
    }

    /// The flats of a new developer.
    async fn house(&self, chessboard: &str) -> Option<Vec<String>> {
        while !self.ending.is_cancelled() {
            let body = json!({"Name": "chaos", "Type": "Developer"});
            let company = self.make("identity/admin/tenants", body).await;
            let Some(developer) = company.and_then(|id| id.parse().ok()) else { continue };
            let manager = self.manager(developer, chessboard)?;
            // Chessboard hears of the company by Kafka.
            let me = "v1/developers/me";
            while !self.ending.is_cancelled() && manager.send(Method::GET, me, Value::Null).await.is_none() {}
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

    /// One deal of a flat, which somebody else may have booked, from its application to its end, and back again.
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
        // Some are left to expire.
        if rand::random() {
            self.send(Method::POST, &format!("{deal}/cancel"), json!({"Reason": "chaos"})).await;
        }
    }

    /// Makes a selection, changes it a few times, deletes it; and again until the end.
    async fn select(self) {
        while !self.ending.is_cancelled() {
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

    /// Makes a post, embeds a selection in it, takes it out and embeds it again while the post is published and withdrawn,
    /// and deletes it, or leaves it as it is; and again until the end.
    async fn post(self, selections: String) {
        let owner = Self { base: selections, ..self.clone() };
        while !self.ending.is_cancelled() {
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
            // There may be a hundred of them; what is embedded stays.
            if let Some(source) = source {
                owner.send(Method::DELETE, &format!("v1/selections/{source}"), Value::Null).await;
            }
        }
    }

    async fn make(&self, resources: &str, body: Value) -> Option<String> {
        let answer = self.send(Method::POST, resources, body).await?;
        Some(answer["Id"].as_str()?.to_owned())
    }

    /// Asks, and repeats what may be repeated by its method (RFC 9110, 9.2.2) and has failed.
    async fn send(&self, method: Method, path: &str, body: Value) -> Option<Value> {
        if self.ending.is_cancelled() {
            return None;
        }
        let url = format!("{}/api/{path}", self.base);
        let asked = format!("{method} {url}");
        let ask = async || {
            let request = self.client.request(method.clone(), &url);
            let request = request.bearer_auth(&self.token).timeout(self.timeout);
            let answer = if body.is_null() { request } else { request.json(&body) }.send().await?;
            Ok((answer.status(), answer.text().await?))
        };
        let started = Instant::now();
        let mut answer: Answer = ask().await;
        self.answers.add(&asked, &answer, started.elapsed());
        if method.is_idempotent() && has_failed(&answer) {
            for pause in RETRY_DELAYS {
                tokio::time::sleep(pause).await;
                answer = ask().await;
                if !has_failed(&answer) {
                    break;
                }
            }
            if has_failed(&answer) {
                self.answers.add_failed_retry();
            }
        }
        let body = answer.ok().filter(|(status, _)| status.is_success()).map(|(_, body)| body);
        if body.is_none() {
            // Somebody is down; a person would try again in a moment.
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

/// A grid of flats, of which some go and come, and all become dearer, from round to round.
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
