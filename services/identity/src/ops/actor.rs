//! The actor check (INV-IDN-009): an employee must still hold the permissions of the token.

use ::db::{PipelinedConn, Tx};
use auth::{Actor, CompanyId, Permission};
use time::OffsetDateTime;

use crate::db;
use crate::domain::{AuditActor, Baseline, EffectivePermissions, Tenant, is_trusted_for_reads};
use crate::error::{Error, FORBIDDEN};

/// The actor of a change, with the inputs of the actor check.
pub struct ActorContext<'a> {
    pub actor: &'a Actor,
    pub baseline: &'a Baseline,
    pub trace_id: Option<String>,
}

/// Result of a successful actor check. The tenant stays locked until the transaction ends.
pub struct Authorized {
    pub permissions: EffectivePermissions,
    /// The target of the change. `None` without a target, or if the company does not exist.
    pub tenant: Option<Tenant>,
    /// Time of the change, by the database's clock. The actor check reads the clock while the
    /// transaction holds the locks, so the times of a company's changes increase.
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
    /// [`FORBIDDEN`] if the actor no longer meets the requirement `P`.
    pub async fn authorize<P: Permission>(
        &self,
        tx: &mut Tx,
        target: Option<CompanyId>,
    ) -> Result<Authorized, Error> {
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
        let (now, record) = db::employment::find_record(tx.conn(), self.actor.user_id).await?;
        let permissions = EffectivePermissions::of(self.actor, &record, self.baseline)
            .filter(|permissions| permissions.granted::<P>().is_some());
        Ok(Authorized { permissions: permissions.ok_or(FORBIDDEN)?, tenant, now })
    }
}

/// Checks the requirement `P` of a read against the token and, unless the token is recent, against
/// the current claims. Returns `None` if the actor does not meet `P`.
pub async fn permit_read<P: Permission>(
    lookups: &PipelinedConn,
    actor: &Actor,
    baseline: &Baseline,
    now: OffsetDateTime,
) -> Result<Option<P::Granted>, Error> {
    if is_trusted_for_reads(actor, now) {
        return Ok(P::granted(actor));
    }
    let user = actor.user_id;
    let (_, record) = lookups.run(async |conn| db::employment::find_record(conn, user).await).await?;
    let permissions = EffectivePermissions::of(actor, &record, baseline);
    Ok(permissions.and_then(|permissions| permissions.granted::<P>()))
}
