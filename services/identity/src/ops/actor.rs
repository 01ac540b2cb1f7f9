//! The actor check (INV-IDN-009): an employee must still hold the permissions of the token.

use ::db::Tx;
use auth::{Actor, CompanyId};
use time::OffsetDateTime;

use crate::db;
use crate::domain::{AuditActor, Baseline, EffectivePermissions, Tenant};
use crate::error::{Error, FORBIDDEN};

/// The actor of a change, with the inputs of the actor check.
pub struct ActorContext<'a> {
    pub actor: &'a Actor,
    pub baseline: &'a Baseline,
    pub trace_id: Option<String>,
}

/// Permission that a change requires.
#[derive(Clone, Copy)]
pub enum RequiredPermission {
    /// Permission to change tenants of the platform.
    ManageTenants,
    /// Permission to change employees of the actor's company.
    ManageEmployees,
}

/// Result of a successful actor check. The tenant stays locked until the transaction ends.
pub struct Authorized<'a> {
    pub permissions: EffectivePermissions<'a>,
    pub tenant: Option<Tenant>,
    /// Time of the change, by the database's clock. The check reads it while it holds the locks, so
    /// the times of a company's changes increase.
    pub now: OffsetDateTime,
}

impl ActorContext<'_> {
    pub fn audit_actor(&self) -> AuditActor {
        AuditActor {
            user_id: self.actor.user_id,
            company_id: self.actor.company_id,
            trace_id: self.trace_id.clone(),
        }
    }

    /// Locks the actor's company for reading and the `target` for changes, then checks the actor.
    ///
    /// The locks are taken in the order of ids, so that concurrent changes cannot deadlock.
    ///
    /// # Errors
    /// [`FORBIDDEN`] if the actor no longer holds the permission.
    pub async fn authorize(
        &self,
        tx: &mut Tx,
        required: RequiredPermission,
        target: Option<CompanyId>,
    ) -> Result<Authorized<'_>, Error> {
        let own = self.actor.company_id.filter(|own| Some(*own) != target);
        let own_is_first = own < target;
        if let Some(own) = own.filter(|_| own_is_first) {
            db::tenant::lock_shared(tx, own).await?;
        }
        let tenant = match target {
            Some(target) => db::tenant::lock(tx, target).await?,
            None => None,
        };
        if let Some(own) = own.filter(|_| !own_is_first) {
            db::tenant::lock_shared(tx, own).await?;
        }
        let (now, employment) = db::employment::find_state(tx.conn(), self.actor.user_id).await?;
        let permissions =
            EffectivePermissions::of(self.actor, employment.as_ref(), self.baseline).filter(|permissions| {
                match required {
                    RequiredPermission::ManageTenants => permissions.manages_tenants(),
                    RequiredPermission::ManageEmployees => permissions.manages_employees(),
                }
            });
        Ok(Authorized { permissions: permissions.ok_or(FORBIDDEN)?, tenant, now })
    }
}
