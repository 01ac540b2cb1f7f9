//! A part of the first chapter: a program of a company gets credentials, and loses its access.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::ACCESS_END_TIMEOUT;
use super::scene::Scene;
use super::story::{Story, expected};
use devkit::actors::OLGA;
use devstack::fixtures::people::role;

/// Plays the part for a company and its administrator.
pub(super) async fn play(
    story: &mut Story,
    scene: &mut Scene<'_>,
    company: Uuid,
    administrator: Uuid,
) -> anyhow::Result<()> {
    let nina = scene.identity.token_of(administrator).await?;
    let accounts = scene.identity("machine-accounts");

    story.step("Nina creates a machine account for the program that imports posts.");
    let body = json!({"Name": "Import of posts", "RoleIds": [role("content-editor")?]});
    let made = story.post(&accounts, Some(&nina), &body, expected(201)).await?;
    let id = made["Id"].as_str().context("the account has no Id")?.to_owned();

    story.step("She lets the issuer create its secret, which is shown once.");
    let account = format!("{accounts}/{id}");
    let created = story.post(&format!("{account}/secret"), Some(&nina), &Value::Null, expected(200)).await?;
    let secret = created["ClientSecret"].as_str().context("the response has no secret")?;
    // The new secret revoked the tokens of older secrets. Services also reject tokens that are
    // issued in the second of the revocation.
    sleep(Duration::from_secs(1)).await;

    story.step("The program requests a token from the issuer, and creates a post of the company.");
    let endpoint = format!("{}/token", scene.stack.issuer);
    let form = [("grant_type", "client_credentials"), ("client_id", id.as_str()), ("client_secret", secret)];
    let response = story.post_form(&endpoint, &form, expected(200)).await?;
    let token = response["access_token"].as_str().context("the issuer returned no token")?;
    let posts = scene.public("posts");
    let post = json!({"Title": "Walks of this week", "AuthorCompanyId": company});
    let made = story.post(&posts, Some(token), &post, expected(201)).await?;
    let olga = scene.sign_in(&OLGA).await?;
    scene.record_created(&posts, &made, &olga)?;

    story.step("Nina revokes the account: the issuer and the services reject the program.");
    story.post(&format!("{account}/revoke"), Some(&nina), &Value::Null, expected(200)).await?;
    story.post_form(&endpoint, &form, expected(401).within(ACCESS_END_TIMEOUT)).await?;
    // If the access ends late, the request must not create a post, so it has no title.
    let refused = expected(401).within(ACCESS_END_TIMEOUT);
    story.post(&posts, Some(token), &json!({}), refused).await?;
    Ok(())
}
