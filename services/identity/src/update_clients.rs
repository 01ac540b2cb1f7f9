//! The command `identity update-clients`, for a restored database and for a new issuer.

use ::db::Db;
use ::service::OperatorCommand;
use anyhow::Context;
use clap::Parser;

use crate::error::Error;
use crate::ops;

/// Send the present state of every machine account to the issuer again
///
/// Revokes the tokens of the accounts, since the issuer may have granted other rights.
#[derive(Parser)]
#[command(name = "update-clients")]
pub struct UpdateClients {}

impl OperatorCommand for UpdateClients {
    async fn execute(self, db: Db) -> anyhow::Result<()> {
        let (mut last, mut count) = (None, 0);
        loop {
            let update = db.tx(async |tx| {
                Ok::<_, Error>(ops::machine_account::schedule_issuer_updates_after(tx, last).await?)
            });
            let accounts = update.await.context("failed to schedule the updates")?;
            count += accounts.len();
            match accounts.last() {
                Some(id) => last = Some(*id),
                None => break,
            }
        }
        println!("{count} machine accounts will be updated at the issuer");
        Ok(())
    }
}
