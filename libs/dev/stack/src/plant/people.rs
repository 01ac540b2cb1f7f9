//! Companies of each type, each with an administrator and an employee, made over HTTP as people would.

use anyhow::{Context, bail};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::areas;
use devkit::actors::{Actor, COMPANIES, Company, OLGA, Rights};
use devkit::http;
use devkit::identity::Identity;
use devkit::stack::Stack;

/// All roles, in the order of their ids, which are the same everywhere.
const ROLES: [&str; 16] = [
    "developer-admin",
    "developer-manager",
    "sales-manager",
    "sales-observer",
    "sales-head",
    "agency-admin",
    "agent",
    "partner-admin",
    "content-editor",
    "platform-admin",
    "deal-arbiter",
    "care-service",
    "catalog-manager",
    "news-moderator",
    "commission-manager",
    "payout-manager",
];

/// The id of a role, by its code.
pub fn role(code: &str) -> anyhow::Result<Uuid> {
    let number = ROLES.iter().position(|of| *of == code).with_context(|| format!("no role {code}"))? + 1;
    Ok(format!("0198f000-0000-7000-8000-0000000000{number:02}").parse()?)
}

/// Identity, as the platform's administrator sees it.
struct People<'a> {
    stack: &'a Stack,
    identity: Identity,
    client: Client,
}

/// Makes what is missing, and leaves alone what is there, whatever has become of it.
pub(super) async fn plant(stack: &Stack) -> anyhow::Result<()> {
    let people = People { stack, identity: Identity::of(stack)?, client: http::client()? };
    for company in &COMPANIES {
        let id = people.company(company).await.context(company.name)?;
        for actor in [&company.administrator, &company.employee] {
            people
                .employ(id, company, actor)
                .await
                .with_context(|| format!("{}: {}", company.name, actor.name))?;
        }
    }
    Ok(())
}

impl People<'_> {
    async fn company(&self, company: &Company) -> anyhow::Result<Uuid> {
        if company.kind == "Platform" {
            return self.operator(company).await;
        }
        let found = format!("admin/tenants/search?Query={}&Statuses=Active,Suspended", company.tax_number);
        let mut tenant = self.ask(self.request(Method::GET, &found, &OLGA).await?).await?["Items"][0].clone();
        if tenant.is_null() {
            let body = json!({"Name": company.name, "Type": company.kind, "TaxNumber": company.tax_number});
            let make = self.request(Method::POST, "admin/tenants", &OLGA).await?.json(&body);
            tenant = self.ask(make).await?;
        }
        Ok(tenant["Id"].as_str().context("a tenant without an id")?.parse()?)
    }

    /// The company of whoever makes the others, which nobody is there to make.
    async fn operator(&self, company: &Company) -> anyhow::Result<Uuid> {
        let own = async || anyhow::Ok(self.identity.claims(OLGA.user).await?.company_id);
        if let Some(id) = own().await? {
            return Ok(id);
        }
        let (user, email) = (OLGA.user.to_string(), email(&OLGA));
        let arguments = ["bootstrap", "--user", &user, "--name", OLGA.name, "--email", &email];
        let arguments = arguments.into_iter().chain(["--company", company.name]).map(str::to_owned).collect();
        let identity = areas::find("identity").context("there is no identity")?;
        (identity.command)(self.stack.settings(), arguments).await?;
        own().await?.context("the operator's company has no administrator")
    }

    /// Employs somebody, unless somebody does already, or the company is not active.
    async fn employ(&self, company: Uuid, of: &Company, actor: &Actor) -> anyhow::Result<()> {
        let Rights::Role(code) = actor.rights else { bail!("is nobody's employee") };
        if self.identity.claims(actor.user).await?.company_id.is_some() {
            return Ok(());
        }
        let tenant = format!("admin/tenants/{company}");
        // An account that the issuer has already can only be made an administrator.
        let body = json!({"UserId": actor.user, "Name": actor.name, "Email": email(actor)});
        let employ =
            self.request(Method::POST, &format!("{tenant}/administrators"), &OLGA).await?.json(&body);
        let answer = employ.send().await?;
        if answer.status() == StatusCode::CONFLICT {
            return Ok(());
        }
        let answer = answer.error_for_status()?.json::<Value>().await?;
        let admin = answer["RoleCodes"][0].as_str().context("an administrator without a role")?;
        if admin != code {
            let roles = format!("employees-roles/{}/roles/{}/add", actor.user, role(code)?);
            self.ask(self.request(Method::POST, &roles, &of.administrator).await?).await?;
            let first = format!("{tenant}/employees/{}/roles/{}", actor.user, role(admin)?);
            self.ask(self.request(Method::DELETE, &first, &OLGA).await?).await?;
        }
        Ok(())
    }

    async fn request(&self, method: Method, path: &str, by: &Actor) -> anyhow::Result<RequestBuilder> {
        let url = format!("{}/api/identity/{path}", self.stack.base_url);
        Ok(self.client.request(method, url).bearer_auth(self.identity.token(by).await?))
    }

    /// The answer, which is `null` where there is nothing to say.
    async fn ask(&self, request: RequestBuilder) -> anyhow::Result<Value> {
        let answer = request.send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        if !status.is_success() {
            bail!("{status} {text}");
        }
        Ok(if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? })
    }
}

fn email(actor: &Actor) -> String {
    format!("{}@example.com", actor.name)
}
