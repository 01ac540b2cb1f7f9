//! The check that rejects escalations: grants of permissions that the actor does not hold.

use auth::{Scope, UserId};
use web::Problem;

use crate::domain::{EffectivePermissions, Role};
use crate::error::{Error, ROLE_ESCALATION_FORBIDDEN};

/// Checks that the actor may assign the role to `user` (INV-IDN-006, INV-IDN-012). The parameters
/// are those of [`EffectivePermissions::missing_to_assign`].
///
/// # Errors
/// [`ROLE_ESCALATION_FORBIDDEN`] if the actor must not assign the role.
pub fn check_no_escalation(
    permissions: &EffectivePermissions,
    role: &Role,
    user: Option<UserId>,
    scope: Scope,
) -> Result<(), Error> {
    let missing = permissions.missing_to_assign(role, user, scope);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Problem::from(ROLE_ESCALATION_FORBIDDEN).with_text(missing.join(", ")).into())
}
