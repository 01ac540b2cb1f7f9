//! `identity bootstrap`: the first company of the operator, with its administrator.

use ::db::Db;
use anyhow::{Context, bail};
use auth::UserId;
use clap::Parser;
use service::OperatorCommand;
use values::{Checked, Invalid, Private, Rule};

use crate::domain::TenantName;
use crate::ops;
use crate::ops::employee::Person;

/// Make the first company of the operator, with its administrator
///
/// Refuses once a company of the operator has an administrator.
#[derive(Parser)]
#[command(name = "bootstrap")]
pub struct Bootstrap {
    /// The `sub` of the administrator's tokens
    #[arg(long, value_name = "ID")]
    user: UserId,
    /// The administrator's name
    #[arg(long)]
    name: String,
    /// The administrator's e-mail address
    #[arg(long)]
    email: String,
    /// The company's name
    #[arg(long, default_value = "Platform")]
    company: String,
}

impl OperatorCommand for Bootstrap {
    async fn execute(self, db: Db) -> anyhow::Result<()> {
        let company: TenantName = parse("--company", &self.company)?;
        let person = Person {
            name: Private::new(parse("--name", &self.name)?),
            email: Private::new(parse("--email", &self.email)?),
        };
        let now = runtime::clock::now();
        let made =
            db.tx(async |tx| ops::bootstrap::bootstrap(tx, self.user, company, person, now).await).await;
        match made.context("nothing was made")? {
            Some(tenant) => println!("{} administers {}", self.user, tenant.id),
            None => bail!("a company of the operator has an administrator already"),
        }
        Ok(())
    }
}

/// An argument as a value; what is wrong with it is told without it.
fn parse<R: Rule>(name: &str, text: &str) -> anyhow::Result<Checked<R>> {
    Checked::parse(text).map_err(|Invalid { code, .. }| anyhow::anyhow!("{name} is not valid: {code}"))
}
