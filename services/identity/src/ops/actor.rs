//! INV-IDN-009: who changes something must still be what their token says.

use ::db::Tx;
use auth::{Actor, CompanyId};
use time::OffsetDateTime;

use crate::db;
use crate::domain::{Baseline, By, Held, Tenant};
use crate::error::{Error, FORBIDDEN};

/// Whoever is about to change something, as their token has it.
pub struct Acting<'a> {
    pub actor: &'a Actor,
    pub baseline: &'a Baseline,
    pub trace_id: Option<String>,
}

/// What a change needs.
#[derive(Clone, Copy)]
pub enum Needs {
    /// To change tenants, of the whole platform.
    Tenants,
    /// To change employees, of one's own company.
    Employees,
}

/// An actor who may go on, and the tenant that is theirs to change until the transaction ends.
pub struct Admitted<'a> {
    pub held: Held<'a>,
    pub tenant: Option<Tenant>,
    /// The moment of the change, under the locks and by the database's clock: what is done to a company one after the
    /// other has growing times.
    pub now: OffsetDateTime,
}

impl Acting<'_> {
    pub fn by(&self) -> By {
        By { user_id: self.actor.user_id, company_id: self.actor.company_id, trace_id: self.trace_id.clone() }
    }

    /// Locks the actor's company for reading and the `target` for changes, by id, and looks what the actor holds now.
    ///
    /// # Errors
    /// [`FORBIDDEN`]
    pub async fn admit(
        &self,
        tx: &mut Tx,
        needs: Needs,
        target: Option<CompanyId>,
    ) -> Result<Admitted<'_>, Error> {
        let own = self.actor.company_id.filter(|own| Some(*own) != target);
        let own_is_first = own < target;
        if let Some(own) = own.filter(|_| own_is_first) {
            db::tenant::lock_for_reading(tx, own).await?;
        }
        let tenant = match target {
            Some(target) => db::tenant::lock(tx, target).await?,
            None => None,
        };
        if let Some(own) = own.filter(|_| !own_is_first) {
            db::tenant::lock_for_reading(tx, own).await?;
        }
        let (now, standing) = db::standing::find(tx.conn(), self.actor.user_id).await?;
        let held = Held::of(self.actor, standing.as_ref(), self.baseline).filter(|held| match needs {
            Needs::Tenants => held.manages_tenants(),
            Needs::Employees => held.manages_employees(),
        });
        Ok(Admitted { held: held.ok_or(FORBIDDEN)?, tenant, now })
    }
}
