//! The permissions of the service.

use auth::{Actor, CompanyId, Permission};

const MANAGE: &str = "chessboard.developers.manage";

/// The permission of a manager. It grants the developer of the manager's own company only.
pub enum ManageOwnDeveloper {}

impl Permission for ManageOwnDeveloper {
    type Granted = CompanyId;

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(MANAGE)
    }
}

/// The permission of a platform administrator for all developers.
pub enum ManageDevelopers {}

impl Permission for ManageDevelopers {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE).then_some(())
    }
}
