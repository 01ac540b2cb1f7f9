//! The command `identity bootstrap`, which creates the first company of the operator.

use ::db::Db;
use ::service::OperatorCommand;
use anyhow::{Context, bail};
use auth::UserId;
use clap::Parser;
use values::{Checked, Invalid, Private, Rule};

use crate::domain::TenantName;
use crate::ops;
use crate::ops::employee::PersonDetails;

/// Create the first company of the operator, with its administrator
///
/// Fails if a company of the operator already has an administrator.
#[derive(Parser)]
#[command(name = "bootstrap")]
pub struct Bootstrap {
    /// User id of the administrator, as in the claim `sub` of the tokens
    #[arg(long, value_name = "ID")]
    user: UserId,
    /// Name of the administrator
    #[arg(long)]
    name: String,
    /// E-mail address of the administrator
    #[arg(long)]
    email: String,
    /// Name of the company
    #[arg(long, default_value = "Platform")]
    company: String,
}

impl OperatorCommand for Bootstrap {
    async fn execute(self, db: Db) -> anyhow::Result<()> {
        let company: TenantName = parse("--company", &self.company)?;
        let person = PersonDetails {
            name: Private::new(parse("--name", &self.name)?),
            email: Private::new(parse("--email", &self.email)?),
        };
        let created = db.tx(async |tx| ops::bootstrap::bootstrap(tx, self.user, company, person).await).await;
        match created.context("failed to create the company")? {
            Some(tenant) => println!("{} administers {}", self.user, tenant.id),
            None => bail!("a company of the operator already has an administrator"),
        }
        Ok(())
    }
}

/// Parses an argument. The error leaves the value out, since it may be personal data.
fn parse<R: Rule>(name: &str, text: &str) -> anyhow::Result<Checked<R>> {
    Checked::parse(text).map_err(|Invalid { code, .. }| anyhow::anyhow!("{name} is not valid: {code}"))
}
