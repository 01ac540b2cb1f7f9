//! Tests of identity over HTTP and Kafka, with a real database and broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed helper fails its test")]

mod access;
mod access_revoked;
mod actor;
mod administrators;
mod audit;
mod bootstrap;
mod claims;
mod documents;
mod employees;
mod employment;
mod events;
mod expensive;
mod hostile;
mod hostile_texts;
mod machine_accounts;
mod me;
mod platform_page;
mod privacy;
mod races;
mod refusals;
mod rehiring;
mod restored;
mod roles;
mod search;
mod search_queries;
mod search_rules;
mod separate_duties;
mod tenants;
mod walks;

use std::sync::OnceLock;

use identity::Service;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Client, Response};
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::{Running, issuer};
use testkit::{guid, text};
use uuid::Uuid;

const TENANTS: &str = "/api/identity/admin/tenants";
const EMPLOYEES: &str = "/api/identity/employees";
const ROLES: &str = "/api/identity/employees-roles";
const AUDIT: &str = "/api/identity/admin/audit";
const COMPANY_AUDIT: &str = "/api/identity/audit";

const UPSERTED: &str = "platform.identity.company-upserted.v1";
const SUSPENDED: &str = "platform.identity.company-suspended.v1";
const STATUS_CHANGED: &str = "platform.identity.employee-status-changed.v1";
const ROLE_ASSIGNED: &str = "platform.identity.employee-role-assigned.v1";
const ROLE_REMOVED: &str = "platform.identity.employee-role-removed.v1";
const ACCESS_REVOKED: &str = "platform.identity.access-revoked.v1";

/// Permissions of the role `platform-admin`.
const ADMIN_PERMISSIONS: [&str; 16] = [
    "agent.cabinet.use@platform",
    "agent.commissions.manage@platform",
    "chessboard.developers.manage@platform",
    "crm.deals.care@platform",
    "crm.deals.manage-own@platform",
    "crm.deals.manage@platform",
    "crm.deals.read-own@platform",
    "crm.pipeline.manage-own@platform",
    "identity.employee-roles.manage@platform",
    "identity.tenants.manage@platform",
    "identity.tenants.read@platform",
    "messenger.chats.manage@platform",
    "messenger.conferences.moderate@platform",
    "news.posts.create-company@platform",
    "news.posts.manage-own@platform",
    "news.posts.manage@platform",
];

/// Returns the service that most tests share. Each test creates its own tenants.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let admin_url = issuer().admin_url();
        start_with_issuer(&admin_url)
    })
}

/// Starts a service that manages the clients of machine accounts at this admin API of the issuer.
fn start_with_issuer(admin_url: &str) -> Running {
    let (_, secret) = CLIENTS.iter().find(|(client, _)| *client == "identity").unwrap();
    Running::start::<Service>(&[("IDENTITY_ISSUER_ADMIN_URL", admin_url), ("CLIENT_SECRET", secret)])
}

/// Returns the claims of a new user who has these permissions and is not an employee.
fn claims_with(company: Option<Uuid>, permissions: &[&str]) -> Claims {
    let claims = Claims { company_id: company, ..Claims::user(guid()) };
    permissions.iter().fold(claims, |claims, permission| claims.permission(*permission))
}

/// Signs in an administrator of the platform who is not an employee.
fn operator() -> Client {
    service().caller(&claims_with(None, &ADMIN_PERMISSIONS))
}

/// Returns the id of a role by its number in the migration, whose decimal digits end the id. 1 is
/// `developer-admin`, 6 `agency-admin`, 7 `agent`, 9 `content-editor` and 10 `platform-admin`. No
/// role has the number 99.
fn role(number: u8) -> Uuid {
    Uuid::from_u128(
        0x0198_f000_0000_7000_8000_0000_0000_0000 | u128::from(number / 10) << 4 | u128::from(number % 10),
    )
}

/// Returns a tax number that no other test uses.
fn tax_number() -> String {
    format!("{:012}", rand_below(1_000_000_000_000))
}

fn rand_below(limit: u64) -> u64 {
    u64::try_from(guid().as_u128() % u128::from(limit)).unwrap()
}

/// Returns an e-mail address that no other test uses.
fn email() -> String {
    format!("{}@example.org", guid().simple())
}

/// A tenant of one test.
#[derive(Clone, Copy)]
struct Tenant(Uuid);

/// An employee, with a client whose token has the current claims.
struct SignedInUser {
    id: Uuid,
    client: Client,
}

async fn create_tenant(kind: &str) -> Tenant {
    let body = json!({"Name": "Ромашка", "Type": kind});
    Tenant(text(&operator().post(TENANTS, body).await.expect(201)["Id"]).parse().unwrap())
}

/// Reads the current claims of a user, as an issuer does.
async fn claims_of(user: Uuid) -> Claims {
    let path = format!("/api/v1/internal/users/{user}/claims");
    let response = service().machine("issuer").get(&path).await.expect(200);
    let permissions = list(&response["Permissions"]).iter().map(|permission| text(permission).to_owned());
    let company_id = response["CompanyId"].as_str().map(|id| id.parse().unwrap());
    Claims { company_id, permissions: permissions.collect(), ..Claims::user(user) }
}

async fn sign_in(user: Uuid) -> SignedInUser {
    SignedInUser { id: user, client: service().caller(&claims_of(user).await) }
}

impl Tenant {
    fn path(self, below: &str) -> String {
        format!("{TENANTS}/{}{below}", self.0)
    }

    async fn read(self) -> Value {
        operator().get(&self.path("")).await.expect(200)
    }

    async fn transition(self, to: &str) -> Value {
        operator().post(&self.path(&format!("/{to}")), json!({})).await.expect(200)
    }

    /// Adds an administrator and signs in.
    async fn admin(self) -> SignedInUser {
        let body = json!({"Name": "Анна", "Email": email()});
        let admin = operator().post(&self.path("/administrators"), body).await.expect(201);
        sign_in(text(&admin["Id"]).parse().unwrap()).await
    }

    /// Signs in a user with all administrator permissions in this company, who is not an employee.
    fn outside_admin(self) -> Client {
        let permissions = ADMIN_PERMISSIONS.map(|permission| permission.trim_end_matches("@platform"));
        service().caller(&claims_with(Some(self.0), &permissions))
    }

    /// Creates an employee without a role.
    async fn employee(self) -> Uuid {
        let body = json!({"Name": "Борис", "Email": email()});
        text(&self.outside_admin().post(EMPLOYEES, body).await.expect(201)["Id"]).parse().unwrap()
    }

    /// Returns the audit entries of the tenant, oldest first.
    async fn entries(self) -> Vec<Value> {
        let page = operator().get(&format!("{AUDIT}?TenantId={}&PageSize=100", self.0)).await.expect(200);
        assert_eq!(page["NextCursor"], Value::Null);
        list(&page["Items"]).iter().rev().cloned().collect()
    }

    /// Returns the actions of the audit entries, oldest first.
    async fn actions(self) -> Vec<String> {
        self.entries().await.iter().map(|entry| text(&entry["Action"]).to_owned()).collect()
    }
}

fn employee_path(user: Uuid) -> String {
    format!("{EMPLOYEES}/{user}")
}

async fn add_role(by: &Client, user: Uuid, number: u8) -> Response {
    by.post(&format!("{ROLES}/{user}/roles/{}/add", role(number)), Value::Null).await
}

async fn remove_role(by: &Client, user: Uuid, number: u8) -> Response {
    by.delete(&format!("{ROLES}/{user}/roles/{}", role(number))).await
}

/// Returns the events of a key that a service has published, in the order of their sequence.
async fn published(service: &Running, key: Uuid) -> Vec<Published> {
    let mut events = service.published(key).await;
    events.sort_by_key(Published::sequence);
    events
}

fn topics(events: &[Published]) -> Vec<&str> {
    events.iter().map(|event| event.topic.as_str()).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Returns one member of every object of a list.
fn each<'v>(objects: &'v Value, member: &str) -> Vec<&'v Value> {
    list(objects).iter().map(|object| &object[member]).collect()
}

fn with(mut object: Value, member: &str, value: impl Into<Value>) -> Value {
    object[member] = value.into();
    object
}

fn count(responses: &[Response], status: u16) -> usize {
    responses.iter().filter(|response| response.status == status).count()
}
