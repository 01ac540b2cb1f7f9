//! The people and machines of the demo, and the tokens that they carry.

use anyhow::{Context, bail};
use clap::Args;
use comfy_table::Table;
use testkit::issuer::{CLIENTS, Claims, Issuer};
use uuid::{Uuid, uuid};

use crate::stack::{self, Stack};

/// Somebody whom the demo knows by name.
pub(crate) struct Actor {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) user: Uuid,
    pub(crate) company: Option<Uuid>,
    pub(crate) permissions: &'static [&'static str],
}

/// The developer company of the demo: the tenant of its projects.
pub(crate) const DEVELOPER_COMPANY: Uuid = uuid!("01980000-0000-7000-8000-00000000c001");

pub(crate) const ANNA: Actor = Actor {
    name: "anna",
    about: "keeps selections and writes posts; owns the seeded selection",
    user: uuid!("01980000-0000-7000-8000-00000000a001"),
    company: None,
    permissions: &["news.posts.manage-own"],
};

pub(crate) const BORIS: Actor = Actor {
    name: "boris",
    about: "another owner of selections, a stranger to anna",
    user: uuid!("01980000-0000-7000-8000-00000000a002"),
    company: None,
    permissions: &[],
};

const MARIA: Actor = Actor {
    name: "maria",
    about: "manages a developer",
    user: uuid!("01980000-0000-7000-8000-00000000a003"),
    company: Some(DEVELOPER_COMPANY),
    permissions: &["chessboard.developers.manage"],
};

const PAVEL: Actor = Actor {
    name: "pavel",
    about: "platform manager",
    user: uuid!("01980000-0000-7000-8000-00000000a004"),
    company: None,
    permissions: &["crm.deals.manage@platform"],
};

pub(crate) const ACTORS: [Actor; 4] = [ANNA, BORIS, MARIA, PAVEL];

impl Actor {
    pub(crate) fn claims(&self) -> Claims {
        let claims = Claims { company_id: self.company, ..Claims::user(self.user) };
        self.permissions.iter().fold(claims, |claims, name| claims.permission(*name))
    }
}

/// The actors for people to read.
pub(crate) fn table() -> Table {
    let mut table = crate::table(["actor", "user id", "who"]);
    for actor in &ACTORS {
        table.add_row([actor.name, &actor.user.to_string(), actor.about]);
    }
    for (client, _) in CLIENTS {
        table.add_row([client, "", "machine caller of internal routes"]);
    }
    table
}

fn names() -> String {
    let names: Vec<_> = ACTORS.iter().map(|actor| actor.name).chain(CLIENTS.map(|client| client.0)).collect();
    names.join(", ")
}

/// The issuer of the running stack, signing in this process with its key.
pub(crate) fn issuer(stack: &Stack) -> anyhow::Result<Issuer> {
    Issuer::load_or_create(&stack::dev("issuer.key")?, &stack.issuer)
}

/// Print a bearer token that the running stack accepts for an hour
#[derive(Args)]
pub(crate) struct Token {
    /// anna, boris, maria, pavel, news or crm
    #[arg(conflicts_with_all = ["user", "client", "company", "permission"])]
    actor: Option<String>,
    /// A person of your own: any UUID
    #[arg(long, value_name = "UUID")]
    user: Option<Uuid>,
    /// The person's company
    #[arg(long, value_name = "UUID")]
    company: Option<Uuid>,
    /// What the person may do, as `crm.deals.manage@platform`; may be repeated
    #[arg(long, value_name = "NAME[@SCOPE]")]
    permission: Vec<String>,
    /// A machine caller of internal routes
    #[arg(long, value_parser = ["news", "crm"])]
    client: Option<String>,
}

impl Token {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        println!("{}", issuer(&Stack::running()?)?.token(&self.claims()?)?);
        Ok(())
    }

    fn claims(self) -> anyhow::Result<Claims> {
        if let Some(name) = self.actor {
            let actor = ACTORS.iter().find(|actor| actor.name == name).map(Actor::claims);
            let client =
                CLIENTS.iter().find(|(client, _)| *client == name).map(|(client, _)| Claims::client(client));
            return actor
                .or(client)
                .with_context(|| format!("nobody is called {name}: there are {}", names()));
        }
        let mut claims = match (self.client, self.user) {
            (Some(client), user) => {
                let machine = Claims::client(&client);
                let sub = user.map_or(machine.sub, |user| user.to_string());
                Claims { sub, ..machine }
            }
            (None, Some(user)) => Claims::user(user),
            (None, None) => bail!("whose token? Name one of {}, or use --user or --client", names()),
        };
        claims.company_id = self.company;
        claims.permissions = self.permission;
        Ok(claims)
    }
}
