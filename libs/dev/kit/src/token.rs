//! `cargo dev token`: a bearer token of an actor, an employee, a user or a machine.

use anyhow::{Context, bail};
use clap::Args;
use testkit::issuer::{CLIENTS, Claims};
use uuid::Uuid;

use crate::actors::{self, ACTORS};
use crate::identity::Identity;
use crate::stack::Stack;

/// Print a bearer token that the running stack accepts for an hour
///
/// The token of an employee has the permissions that identity returns at this moment. With --user,
/// --company and --permission it has the given claims.
#[derive(Args)]
pub struct Token {
    /// An actor of the demo, as `cargo dev status` lists them
    #[arg(conflicts_with_all = ["employee", "user", "client", "company", "permission"])]
    actor: Option<String>,
    /// Any employee or machine account, with the current permissions from identity
    #[arg(long, value_name = "UUID", conflicts_with_all = ["user", "client", "company", "permission"])]
    employee: Option<Uuid>,
    /// A user of your choice: any UUID
    #[arg(long, value_name = "UUID")]
    user: Option<Uuid>,
    /// The user's company
    #[arg(long, value_name = "UUID")]
    company: Option<Uuid>,
    /// A permission, as `crm.deals.manage@platform`; may be repeated
    #[arg(long, value_name = "NAME[@SCOPE]")]
    permission: Vec<String>,
    /// A machine caller of internal routes
    #[arg(long, value_parser = CLIENTS.map(|client| client.0))]
    client: Option<String>,
}

impl Token {
    pub async fn run(self) -> anyhow::Result<()> {
        let stack = Stack::running()?;
        println!("{}", self.token(&stack).await?);
        Ok(())
    }

    async fn token(self, stack: &Stack) -> anyhow::Result<String> {
        if let Some(actor) =
            self.actor.as_ref().and_then(|name| ACTORS.iter().find(|actor| actor.name == name))
        {
            return Identity::of(stack)?.token(actor).await;
        }
        if let Some(employee) = self.employee {
            return Identity::of(stack)?.token_of(employee).await;
        }
        actors::issuer(stack)?.token(&self.claims()?)
    }

    /// Returns the claims of a token for which identity is not needed.
    fn claims(self) -> anyhow::Result<Claims> {
        if let Some(name) = self.actor {
            let client = CLIENTS.iter().find(|(client, _)| *client == name);
            let client = client.with_context(|| format!("there is no actor {name}, only {}", names()))?;
            return Ok(Claims::client(client.0));
        }
        let mut claims = match (self.client, self.user) {
            (Some(client), user) => {
                let machine = Claims::client(&client);
                let sub = user.map_or(machine.sub, |user| user.to_string());
                Claims { sub, ..machine }
            }
            (None, Some(user)) => Claims::user(user),
            (None, None) => {
                bail!("name one of {}, or use --employee, --user or --client", names())
            }
        };
        claims.company_id = self.company;
        claims.permissions = self.permission;
        Ok(claims)
    }
}

fn names() -> String {
    let names: Vec<_> = ACTORS.iter().map(|actor| actor.name).chain(CLIENTS.map(|client| client.0)).collect();
    names.join(", ")
}
