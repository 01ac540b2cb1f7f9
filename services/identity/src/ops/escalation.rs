//! The check that a grant of a role is no escalation.

use auth::Scope;
use web::Problem;

use crate::domain::{EffectivePermissions, Role};
use crate::error::{Error, ROLE_ESCALATION_FORBIDDEN};

/// Checks that the actor holds each permission of the role at least in `scope` (INV-IDN-006).
///
/// # Errors
/// [`ROLE_ESCALATION_FORBIDDEN`]
pub fn check_no_escalation(
    permissions: &EffectivePermissions<'_>,
    role: &Role,
    scope: Scope,
) -> Result<(), Error> {
    let missing = permissions.missing_from(role, scope);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Problem::from(ROLE_ESCALATION_FORBIDDEN).with_text(missing.join(", ")).into())
}
