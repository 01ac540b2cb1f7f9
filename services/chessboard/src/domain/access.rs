//! The permissions of the service.

use auth::{Actor, CompanyId, Permission, Scope};

const MANAGE: &str = "chessboard.developers.manage";

/// The permission of a manager. It grants the developer of the manager's own company only.
pub enum ManageOwnDeveloper {}

impl Permission for ManageOwnDeveloper {
    type Granted = CompanyId;
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE, Scope::Organization)];

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(MANAGE)
    }
}

/// The permission of a platform administrator for all developers.
pub enum ManageDevelopers {}

impl Permission for ManageDevelopers {
    type Granted = ();
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE, Scope::Platform)];

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE).then_some(())
    }
}
