//! The last chapter: an employee leaves, the company is suspended, and every service ends their
//! access.

use anyhow::Context;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::agent::build;
use super::scene::Scene;
use super::story::{Story, expected};
use super::{ACCESS_END_TIMEOUT, EVENT_TIMEOUT};
use devkit::actors::{ANNA, IGOR, OLGA};
use devstack::fixtures::people::role;

/// The company of the chapter.
struct Company {
    tenant: String,
    rita: Uuid,
    stepan: Uuid,
}

/// The leaving employee's token, and the resources that he has used.
struct Workplace {
    token: String,
    /// A route of each service except identity.
    routes: [(&'static str, String); 6],
    post: String,
    deal: Deal,
}

/// A deal that the leaving employee has made.
struct Deal {
    url: String,
    chat: String,
    conference: String,
}

pub(super) async fn play(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let company = hire(story, scene).await?;
    let workplace = work(story, scene, &company).await?;
    leave(story, scene, &company, &workplace).await?;
    suspend(story, scene, &company).await
}

/// Creates a developer with two employees, who both administer it.
async fn hire(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<Company> {
    let olga = scene.sign_in(&OLGA).await?;
    let tenants = scene.identity("admin/tenants");

    story.step("Olga creates a developer with its administrator, Rita.");
    let body = json!({"Name": "Sunset Homes", "Type": "Developer"});
    let made = story.post(&tenants, Some(&olga), &body, expected(201)).await?;
    let tenant = format!("{tenants}/{}", id(&made)?);
    let body = json!({"Name": "Rita Lebedeva", "Email": "rita@example.com"});
    let made = story.post(&format!("{tenant}/administrators"), Some(&olga), &body, expected(201)).await?;
    let rita = id(&made)?;
    scene.undo_last(Method::DELETE, format!("{tenant}/employees/{rita}"), &olga);
    scene.undo(Method::POST, format!("{tenant}/archive"), &olga);

    story.step("Rita employs Stepan, and gives him her role.");
    let token = scene.identity.token_of(rita).await?;
    let body = json!({"Name": "Stepan Belov", "Email": "stepan@example.com"});
    let made = story.post(&scene.identity("employees"), Some(&token), &body, expected(201)).await?;
    let stepan = id(&made)?;
    let role = role("developer-admin")?;
    let add = scene.identity(&format!("employees-roles/{stepan}/roles/{role}/add"));
    story.post(&add, Some(&token), &Value::Null, expected(204)).await?;
    Ok(Company { tenant, rita, stepan })
}

/// Uses every service as the employee.
async fn work(story: &mut Story, scene: &mut Scene<'_>, company: &Company) -> anyhow::Result<Workplace> {
    let token = scene.identity.token_of(company.stepan).await?;
    let routes = [
        ("chessboard", scene.public("developers/me")),
        ("crm", scene.public("crm/deals")),
        ("messenger", scene.messenger("chats")),
        ("news", scene.public("posts")),
        ("selections", scene.public("favorites")),
        ("agent", scene.public("my/payouts")),
    ];

    story.step("Stepan works: every service accepts his token.");
    for (service, route) in &routes {
        // Chessboard consumes the company from Kafka, and Stepan is not an agent.
        let status = if *service == "agent" { 403 } else { 200 };
        story.get(route, Some(&token), expected(status).within(EVENT_TIMEOUT)).await?;
    }

    story.step("He writes a post of the company.");
    let tenant = company.tenant.rsplit('/').next();
    let body = json!({"Title": "Sunsets by the river", "AuthorCompanyId": tenant});
    let posts = scene.public("posts");
    let made = story.post(&posts, Some(&token), &body, expected(201)).await?;
    let post = format!("{posts}/{}", id(&made)?);
    let deal = sell(story, scene, &token).await?;
    Ok(Workplace { token, routes, post, deal })
}

/// Makes a deal as the employee, writes in its chat, and calls the client.
async fn sell(story: &mut Story, scene: &Scene<'_>, token: &str) -> anyhow::Result<Deal> {
    story.step("He makes a deal with Anna, writes to her, and calls her.");
    let flat = build(story, scene, token).await?;
    let deals = scene.public("crm/deals");
    let body = json!({"PropertyObjectId": flat, "ClientUserId": ANNA.user, "AgentUserId": IGOR.user});
    let made = story.post(&deals, Some(token), &body, expected(201).within(EVENT_TIMEOUT)).await?;
    let deal = made["DealId"].as_str().context("a deal without an id")?;
    let chats = scene.messenger("chats");
    let is_there = expected(200).within(EVENT_TIMEOUT).showing(|page| page["TotalCount"] == 1);
    let page = story.get(&format!("{chats}?DealId={deal}"), Some(token), is_there).await?;
    let chat = format!("{chats}/{}", id(&page["Items"][0])?);
    let message = json!({"Text": "When can you see the flat?"});
    story.post(&format!("{chat}/messages"), Some(token), &message, expected(201)).await?;
    let call = json!({"Media": "Audio"});
    let made = story.post(&format!("{chat}/conferences"), Some(token), &call, expected(201)).await?;
    let conference = format!("{}/{}", scene.messenger("conferences"), id(&made)?);
    Ok(Deal { url: format!("{deals}/{deal}"), chat, conference })
}

/// Ends the employment. Every service rejects the old token. A new one gives access only to the
/// user's own data.
async fn leave(
    story: &mut Story,
    scene: &mut Scene<'_>,
    company: &Company,
    workplace: &Workplace,
) -> anyhow::Result<()> {
    let rita = scene.identity.token_of(company.rita).await?;

    story.step("Rita removes Stepan.");
    let employee = scene.identity(&format!("employees/{}", company.stepan));
    story.delete(&employee, Some(&rita), expected(204)).await?;

    story.step("Within a minute every service rejects his token.");
    let refused = || expected(401).within(ACCESS_END_TIMEOUT);
    for (service, route) in &workplace.routes {
        if *service == "news" {
            // Guests also read posts, so only a change gets 401. If the access ends late, the
            // change must not delete the post, so it names an unknown post.
            let posts = workplace.post.rsplit_once('/').map_or("", |(posts, _)| posts);
            let unknown = format!("{posts}/{}", Uuid::nil());
            story.delete(&unknown, Some(&workplace.token), refused()).await?;
        } else {
            story.get(route, Some(&workplace.token), refused()).await?;
        }
    }
    let Deal { url, chat, conference } = &workplace.deal;
    let (messages, message) = (format!("{chat}/messages"), json!({"Text": "Are you still there?"}));
    let join = format!("{conference}/join");
    story.post(&messages, Some(&workplace.token), &message, refused()).await?;
    story.post(&join, Some(&workplace.token), &Value::Null, refused()).await?;

    story.step("Identity rejects it at once: he cannot employ himself again.");
    let body = json!({"Name": "Stepan Belov", "Email": "stepan@example.com"});
    let employees = scene.identity("employees");
    story.post(&employees, Some(&workplace.token), &body, expected(403).code("FORBIDDEN")).await?;

    story.step("His next token opens nothing of the company.");
    let fresh = scene.token_after_revocation(company.stepan).await?;
    for (service, route) in &workplace.routes {
        let status = if matches!(*service, "chessboard" | "crm" | "agent") { 403 } else { 200 };
        story.get(route, Some(&fresh), expected(status).within(EVENT_TIMEOUT)).await?;
    }
    story.delete(&workplace.post, Some(&fresh), expected(403)).await?;
    let closed = || expected(404).within(EVENT_TIMEOUT);
    story.get(chat, Some(&fresh), closed()).await?;
    story.post(&messages, Some(&fresh), &message, closed()).await?;
    story.post(&join, Some(&fresh), &Value::Null, closed()).await?;

    story.step("A card in the chat says that he has left it. Rita cancels his deal.");
    let has_card = |page: &Value| {
        let items = page["Items"].as_array().map_or(&[][..], Vec::as_slice);
        items.iter().any(|message| message["Card"]["Type"] == "MemberRemoved")
    };
    let anna = scene.sign_in(&ANNA).await?;
    story.get(&messages, Some(&anna), expected(200).showing(has_card)).await?;
    let reason = json!({"Reason": "The story is over"});
    story.post(&format!("{url}/cancel"), Some(&rita), &reason, expected(200)).await?;

    story.step("Olga deletes his post.");
    let olga = scene.sign_in(&OLGA).await?;
    story.delete(&workplace.post, Some(&olga), expected(204)).await?;
    Ok(())
}

/// Suspends the company. Its administrator's token is refused too.
async fn suspend(story: &mut Story, scene: &mut Scene<'_>, company: &Company) -> anyhow::Result<()> {
    let (olga, rita) = (scene.sign_in(&OLGA).await?, scene.identity.token_of(company.rita).await?);

    story.step("Olga suspends the company: Rita's token ends as well.");
    let reason = json!({"Reason": "No contract yet"});
    story.post(&format!("{}/suspend", company.tenant), Some(&olga), &reason, expected(200)).await?;
    let refused = expected(401).within(ACCESS_END_TIMEOUT);
    story.get(&scene.public("developers/me"), Some(&rita), refused).await?;
    Ok(())
}

fn id(made: &Value) -> anyhow::Result<Uuid> {
    Ok(made["Id"].as_str().context("the created resource has no Id")?.parse()?)
}
