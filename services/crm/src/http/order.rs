//! How a deal is changed, whoever asks for what.

use ::db::Lookups;
use auth::{Permission, Permitted, Reach};
use runtime::clock;
use time::OffsetDateTime;

use crate::app::App;
use crate::domain::{
    Author, Booking, Change, ChangeOwnDeals, Deal, DealId, ManageDeals, Operation, Role, SeenVersion,
    Situation,
};
use crate::error::{DEAL_CONFLICT, DEAL_NOT_FOUND, Error};
use crate::{db, ops};

/// Who changes deals, and whose.
#[derive(Clone, Copy, Debug)]
pub struct Manager {
    pub by: Author,
    pub reach: Reach,
}

impl Manager {
    pub fn of_platform<P: Permission>(permitted: &Permitted<P>, role: Role) -> Self {
        let by = Author { user_id: Some(permitted.actor.user_id), role };
        Self { by, reach: Reach::Platform }
    }
}

impl From<Permitted<ManageDeals>> for Manager {
    fn from(permitted: Permitted<ManageDeals>) -> Self {
        Self::of_platform(&permitted, Role::PlatformManager)
    }
}

impl From<Permitted<ChangeOwnDeals>> for Manager {
    fn from(permitted: Permitted<ChangeOwnDeals>) -> Self {
        let by = Author { user_id: Some(permitted.actor.user_id), role: Role::DeveloperManager };
        Self { by, reach: Reach::Company(permitted.granted) }
    }
}

/// A change that somebody asks for.
pub struct Order {
    pub manager: Manager,
    pub id: DealId,
    /// The version that the caller has seen; another one is a conflict.
    pub seen: Option<SeenVersion>,
    pub operation: Operation,
    pub now: OffsetDateTime,
}

/// What an order comes to.
pub struct Decided {
    pub situation: Situation,
    /// `None`: it is so already.
    pub change: Option<Change>,
}

/// A deal as it is now, and the booking that its last change was about, or its Active one.
pub struct Changed {
    pub deal: Deal,
    pub booking: Option<Booking>,
}

impl From<Decided> for Changed {
    fn from(Decided { situation, change }: Decided) -> Self {
        match change {
            Some(Change { after, booking, .. }) => Self { deal: after, booking },
            None => Self { deal: situation.deal, booking: situation.booking },
        }
    }
}

impl Order {
    pub fn new(
        manager: impl Into<Manager>,
        id: DealId,
        seen: Option<SeenVersion>,
        operation: Operation,
    ) -> Self {
        Self { manager: manager.into(), id, seen, operation, now: clock::now() }
    }

    /// Decides, and writes what was decided while the deal is still so. What needs an object has others who want it wait.
    ///
    /// # Errors
    /// Those of the operation.
    pub async fn carry_out(self, app: &App, lookups: &Lookups) -> Result<Changed, Error> {
        let id = self.id;
        if matches!(self.operation, Operation::Book { .. } | Operation::Complete { .. }) {
            let within = async |tx: &mut _| {
                let situation = db::situation::lock_object(tx, id).await?;
                let decided = self.decide(situation)?;
                if let Some(change) = &decided.change {
                    ops::deal::change(tx, change).await?;
                }
                Ok::<_, Error>(decided)
            };
            return Ok(app.db.tx(within).await?.into());
        }
        let situation = lookups.run(async |conn| db::situation::look_up(conn, id).await).await?;
        let decided = self.decide(situation)?;
        if let Some(change) = &decided.change {
            app.db.tx(async |tx| ops::deal::change(tx, change).await).await?;
        }
        Ok(decided.into())
    }

    /// What is to be written; or how it is, where it is so already.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn decide(self, situation: Option<Situation>) -> Result<Decided, Error> {
        let reach = self.manager.reach;
        let situation = situation.filter(|situation| reach.covers(situation.deal.tenant_id));
        let situation = situation.ok_or(DEAL_NOT_FOUND)?;
        let change = situation.decide(self.operation, self.manager.by, self.now)?;
        let is_unseen = self.seen.is_some_and(|seen| seen.get() != situation.deal.row_version);
        if change.is_some() && is_unseen {
            return Err(DEAL_CONFLICT.into());
        }
        Ok(Decided { situation, change })
    }
}
