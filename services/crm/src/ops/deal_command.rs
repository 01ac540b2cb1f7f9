//! Commands on deals: read, decide and write.

use ::db::{Db, PipelinedConn, Tx};
use auth::Reach;
use runtime::clock;
use time::OffsetDateTime;

use crate::db;
use crate::domain::{Author, Booking, Change, Deal, DealId, DealState, Operation, SeenVersion};
use crate::error::{DEAL_CONFLICT, DEAL_NOT_FOUND, Error};
use crate::ops::deal;

/// The caller of a command: the author of its change, and the deals that the permission covers.
#[derive(Clone, Copy, Debug)]
pub struct CommandCaller {
    pub author: Author,
    pub reach: Reach,
}

/// A requested operation on a deal.
pub struct DealCommand {
    pub caller: CommandCaller,
    pub deal_id: DealId,
    /// The version that the caller has seen. Another version is a conflict.
    pub seen_version: Option<SeenVersion>,
    pub operation: Operation,
    pub now: OffsetDateTime,
}

/// The decision about a command.
pub struct Decision {
    /// The deal before the command.
    pub state: DealState,
    /// `None` for a no-op.
    pub change: Option<Change>,
}

/// The deal after a command, with its Active booking or the one that the command ended.
pub struct Outcome {
    pub deal: Deal,
    pub booking: Option<Booking>,
}

impl From<Decision> for Outcome {
    fn from(Decision { state, change }: Decision) -> Self {
        match change {
            Some(Change { after, booking, .. }) => Self { deal: after, booking },
            None => Self { deal: state.deal, booking: state.booking },
        }
    }
}

impl DealCommand {
    pub fn new(
        caller: impl Into<CommandCaller>,
        deal_id: DealId,
        seen_version: Option<SeenVersion>,
        operation: Operation,
    ) -> Self {
        Self { caller: caller.into(), deal_id, seen_version, operation, now: clock::now() }
    }

    /// Decides the command and writes its change by compare and swap.
    ///
    /// A booking, a completion or an override that books locks the object first, so the whole
    /// command is one transaction.
    /// Every other command reads and decides before its transaction.
    ///
    /// # Errors
    /// The refusals of [`decide`](Self::decide), and [`DEAL_CONFLICT`] if another change won the
    /// race.
    pub async fn execute(self, db: &Db, lookups: &PipelinedConn) -> Result<Outcome, Error> {
        let id = self.deal_id;
        if self.operation.needs_object() {
            return db.tx(async |tx| self.execute_locked(tx).await).await;
        }
        let state = match self.operation {
            Operation::ChangeAgent(agent) => {
                lookups.run(async |conn| db::deal_state::look_up_with_agent(conn, id, agent).await).await?
            }
            _ => lookups.run(async |conn| db::deal_state::look_up(conn, id).await).await?,
        };
        let decision = self.decide(state)?;
        if let Some(change) = &decision.change {
            db.tx(async |tx| deal::change(tx, change).await).await?;
        }
        Ok(decision.into())
    }

    /// Locks the object of the deal, decides the command and writes its change.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub async fn execute_locked(self, tx: &mut Tx) -> Result<Outcome, Error> {
        let state = db::deal_state::lock_object(tx, self.deal_id).await?;
        let decision = self.decide(state)?;
        if let Some(change) = &decision.change {
            deal::change(tx, change).await?;
        }
        Ok(decision.into())
    }

    /// Decides the command without writing its change.
    ///
    /// # Errors
    /// In this order: [`DEAL_NOT_FOUND`] if the deal is unknown or outside the reach; the refusals
    /// of the operation; [`DEAL_CONFLICT`] if the seen version of a change is stale.
    pub fn decide(self, state: Option<DealState>) -> Result<Decision, Error> {
        let reach = self.caller.reach;
        let state = state.filter(|state| reach.covers(state.deal.tenant_id));
        let state = state.ok_or(DEAL_NOT_FOUND)?;
        let change = state.decide(self.operation, self.caller.author, self.now)?;
        let is_stale = self.seen_version.is_some_and(|seen| seen.get() != state.deal.row_version);
        if change.is_some() && is_stale {
            return Err(DEAL_CONFLICT.into());
        }
        Ok(Decision { state, change })
    }
}
