//! Who may do what.

use auth::{Actor, CompanyId, Permission};

const MANAGE: &str = "chessboard.developers.manage";

/// Managers of a developer: of the company that this gives, and of no other.
pub enum ManageOwnDeveloper {}

impl Permission for ManageOwnDeveloper {
    type Granted = CompanyId;

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(MANAGE)
    }
}

/// Administrators of the platform, for every developer.
pub enum ManageDevelopers {}

impl Permission for ManageDevelopers {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE).then_some(())
    }
}
