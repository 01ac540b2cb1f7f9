//! The first chapter: a company, its employees, and the claims of their next tokens after each
//! change.

use anyhow::Context;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::scene::Scene;
use super::story::{Story, expected};
use super::{machine, next_event};
use devkit::actors::OLGA;
use devkit::events::Follower;
use devstack::fixtures::people::role;

const UPSERTED: &str = "platform.identity.company-upserted.v1";
const SUSPENDED: &str = "platform.identity.company-suspended.v1";
const ROLE_ASSIGNED: &str = "platform.identity.employee-role-assigned.v1";
/// The permission that every user has.
const BASELINE: &str = "news.posts.manage-own";

/// The company of the story and its employees.
struct Company {
    id: Uuid,
    /// Its administrator.
    nina: Uuid,
    /// Its employee.
    oleg: Uuid,
}

pub(super) async fn play(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let topics = [UPSERTED, SUSPENDED, ROLE_ASSIGNED].map(str::to_owned).to_vec();
    let mut bus = Follower::open(&scene.stack.brokers, topics, false)?;
    let company = create_company(story, scene).await?;
    assign_role(story, scene, &company, &mut bus).await?;
    refuse_escalation(story, scene, &company).await?;
    machine::play(story, scene, company.id, company.nina).await?;
    suspend(story, scene, &company, &mut bus).await?;
    log(story, scene, &company).await
}

async fn create_company(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<Company> {
    let olga = scene.sign_in(&OLGA).await?;
    let tenants = scene.identity("admin/tenants");

    story.step("Olga, who administers the platform, creates a partner.");
    let body = json!({"Name": "Evening Walks", "Type": "Partner"});
    let made = story.post(&tenants, Some(&olga), &body, expected(201)).await?;
    let id = id(&made)?;
    scene.undo(Method::POST, format!("{tenants}/{id}/archive"), &olga);
    // A company keeps its last administrator until it is archived, so the employees leave last.
    let leave = |user: Uuid| format!("{tenants}/{id}/employees/{user}");
    story.check(made["Status"] == "Active", &format!("company {id} is active"));

    story.step("She gives it its first administrator, Nina.");
    let body = json!({"Name": "Nina Orlova", "Email": "nina@example.com"});
    let made =
        story.post(&format!("{tenants}/{id}/administrators"), Some(&olga), &body, expected(201)).await?;
    let nina = self::id(&made)?;
    scene.undo_last(Method::DELETE, leave(nina), &olga);
    story.check(made["RoleCodes"] == json!(["partner-admin"]), &format!("she is {}", made["RoleCodes"]));

    story.step("Nina employs Oleg.");
    let token = scene.identity.token_of(nina).await?;
    let body = json!({"Name": "Oleg Petrov", "Email": "oleg@example.com"});
    let made = story.post(&scene.identity("employees"), Some(&token), &body, expected(201)).await?;
    let oleg = self::id(&made)?;
    scene.undo_last(Method::DELETE, leave(oleg), &olga);
    let company = Company { id, nina, oleg };
    check_claims(story, scene, &company, Some(id), &[BASELINE]).await?;
    Ok(company)
}

async fn assign_role(
    story: &mut Story,
    scene: &mut Scene<'_>,
    company: &Company,
    bus: &mut Follower,
) -> anyhow::Result<()> {
    let Company { id, nina, oleg } = *company;
    let posts = scene.public("posts");
    let post = json!({"Title": "Where to walk tonight", "AuthorCompanyId": id});
    let before = scene.identity.token_of(oleg).await?;

    story.step("Oleg creates a post of the company, without the permission.");
    story.post(&posts, Some(&before), &post, expected(403).code("FORBIDDEN")).await?;

    story.step("Nina makes him an editor.");
    let token = scene.identity.token_of(nina).await?;
    let roles = scene.identity(&format!("employees-roles/{oleg}/roles"));
    let editor = format!("{roles}/{}", role("content-editor")?);
    story.post(&format!("{editor}/add"), Some(&token), &Value::Null, expected(204)).await?;

    story.step("An event informs the issuer of tokens.");
    let key = oleg.to_string();
    let event = next_event(bus, |record| record.topic == ROLE_ASSIGNED && record.key == key).await?;
    story.check(
        event.payload["RoleCode"] == "content-editor",
        &format!("it is {}", event.payload["RoleCode"]),
    );

    story.step("His present token stays as it is; his next one permits the company's posts.");
    story.post(&posts, Some(&before), &post, expected(403).code("FORBIDDEN")).await?;
    check_claims(story, scene, company, Some(id), &["news.posts.create-company", BASELINE]).await?;
    let after = scene.identity.token_of(oleg).await?;
    let made = story.post(&posts, Some(&after), &post, expected(201)).await?;
    // Olga deletes the post, since the suspension of the company revokes Oleg's token.
    let olga = scene.sign_in(&OLGA).await?;
    scene.record_created(&posts, &made, &olga)?;
    Ok(())
}

async fn refuse_escalation(story: &mut Story, scene: &Scene<'_>, company: &Company) -> anyhow::Result<()> {
    let Company { nina, oleg, .. } = *company;
    let token = scene.identity.token_of(nina).await?;
    let of = |user: Uuid, code: &str| {
        anyhow::Ok(scene.identity(&format!("employees-roles/{user}/roles/{}", role(code)?)))
    };

    story.step("Nina tries to assign a role that she does not have.");
    let refused = expected(403).code("IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    story.post(&format!("{}/add", of(oleg, "deal-arbiter")?), Some(&token), &Value::Null, refused).await?;

    story.step("She tries to step down: a company keeps its last administrator.");
    let refused = expected(409).code("IDENTITY_LAST_ADMIN");
    story.delete(&of(nina, "partner-admin")?, Some(&token), refused).await?;
    Ok(())
}

async fn suspend(
    story: &mut Story,
    scene: &Scene<'_>,
    company: &Company,
    bus: &mut Follower,
) -> anyhow::Result<()> {
    let Company { id, nina, .. } = *company;
    let olga = scene.sign_in(&OLGA).await?;
    let tenant = scene.identity(&format!("admin/tenants/{id}"));
    let before = scene.identity.token_of(nina).await?;

    story.step("Olga suspends the company.");
    let reason = json!({"Reason": "No contract yet"});
    let suspended = story.post(&format!("{tenant}/suspend"), Some(&olga), &reason, expected(200)).await?;

    story.step("An event informs the other services.");
    let key = id.to_string();
    let event = next_event(bus, |record| record.topic == SUSPENDED && record.key == key).await?;
    story.check(
        event.payload["Version"] == suspended["Version"],
        &format!("it is of Version {}", event.payload["Version"]),
    );

    story.step("Oleg's next token has the permissions of every user only.");
    check_claims(story, scene, company, None, &[BASELINE]).await?;

    story.step("Nina's token still names her permissions, but identity checks them again before a change.");
    let body = json!({"Name": "Irina", "Email": "irina@example.com"});
    let employees = scene.identity("employees");
    story.post(&employees, Some(&before), &body, expected(403).code("FORBIDDEN")).await?;

    story.step("Olga has the contract: the company is active again.");
    story.post(&format!("{tenant}/activate"), Some(&olga), &Value::Null, expected(200)).await?;
    check_claims(story, scene, company, Some(id), &["news.posts.create-company", BASELINE]).await
}

async fn log(story: &mut Story, scene: &Scene<'_>, company: &Company) -> anyhow::Result<()> {
    let olga = scene.sign_in(&OLGA).await?;
    story.step("The log has all changes and refusals, newest first.");
    let url = scene.identity(&format!("admin/audit?TenantId={}", company.id));
    let log = story.get(&url, Some(&olga), expected(200)).await?;
    let entries = log["Items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let actions: Vec<_> = entries.iter().filter_map(|entry| entry["Action"].as_str()).rev().collect();
    let done = [
        "TenantCreated",
        "EmployeeCreated",
        "RoleAssigned",
        "EmployeeCreated",
        "RoleAssigned",
        "RoleGrantRefused",
        "MachineAccountCreated",
        "RoleAssigned",
        "MachineAccountSecretRequested",
        "MachineAccountRevoked",
        "TenantSuspended",
        "TenantActivated",
    ];
    story.check(actions == done, &format!("from the first on: {}", actions.join(", ")));
    Ok(())
}

/// Checks the claims of Oleg's next token.
async fn check_claims(
    story: &mut Story,
    scene: &Scene<'_>,
    company: &Company,
    employer: Option<Uuid>,
    permissions: &[&str],
) -> anyhow::Result<()> {
    let claims = scene.identity.claims(company.oleg).await?;
    let named_company = claims.company_id.map_or("no company".to_owned(), |id| format!("company {id}"));
    let is_expected = claims.company_id == employer && claims.permissions == permissions;
    story.check(
        is_expected,
        &format!("Oleg's next token names {named_company} and {}", claims.permissions.join(", ")),
    );
    Ok(())
}

fn id(made: &Value) -> anyhow::Result<Uuid> {
    Ok(made["Id"].as_str().context("the created resource has no Id")?.parse()?)
}
