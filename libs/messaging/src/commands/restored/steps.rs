//! The steps of the command: committed one by one, or all of them undone.

use db::{Db, Tx};
use diesel_async::RunQueryDsl;

pub(super) enum Steps<'a> {
    /// Each step commits, so that an interrupted command continues.
    Committed(&'a Db),
    /// All steps are part of one transaction, which the caller rolls back.
    DryRun(&'a mut Tx),
}

impl Steps<'_> {
    pub(super) async fn run<T>(
        &mut self,
        step: impl AsyncFnOnce(&mut Tx) -> Result<T, db::Error>,
    ) -> Result<T, db::Error> {
        match self {
            Self::Committed(db) => db.tx(step).await,
            Self::DryRun(tx) => step(tx).await,
        }
    }

    /// Runs a step that locks rows of aggregates. A dry run undoes it at once, which releases the
    /// locks.
    pub(super) async fn run_with_locks<T>(
        &mut self,
        step: impl AsyncFnOnce(&mut Tx) -> Result<T, db::Error>,
    ) -> Result<T, db::Error> {
        let tx = match self {
            Self::Committed(db) => return db.tx(step).await,
            Self::DryRun(tx) => tx,
        };
        execute(tx, "savepoint step").await?;
        let done = step(tx).await?;
        execute(tx, "rollback to savepoint step").await?;
        execute(tx, "release savepoint step").await?;
        Ok(done)
    }
}

async fn execute(tx: &mut Tx, statement: &str) -> Result<(), db::Error> {
    diesel::sql_query(statement).execute(tx.conn()).await?;
    Ok(())
}
