//! Who may do what.

use auth::{Actor, Permission};

const USE_CABINET: &str = "agent.cabinet.use";
const MANAGE_COMMISSIONS: &str = "agent.commissions.manage";
const MANAGE_PAYOUTS: &str = "agent.payouts.manage";

/// Agents, who see what is their own, whatever their company and the scope of their permission.
pub enum UseCabinet {}

impl Permission for UseCabinet {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_for_oneself(USE_CABINET).then_some(())
    }
}

/// The platform's people who decide what is owed.
pub enum ManageCommissions {}

impl Permission for ManageCommissions {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE_COMMISSIONS).then_some(())
    }
}

/// The platform's people who pay it.
pub enum ManagePayouts {}

impl Permission for ManagePayouts {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE_PAYOUTS).then_some(())
    }
}
