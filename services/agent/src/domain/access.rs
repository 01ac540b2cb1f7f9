//! The permissions of the service.

use auth::{Actor, Permission, Scope};

const USE_CABINET: &str = "agent.cabinet.use";
const MANAGE_COMMISSIONS: &str = "agent.commissions.manage";
const MANAGE_PAYOUTS: &str = "agent.payouts.manage";

/// Permits agents to use their own data, in any scope and with or without a company.
pub enum UseCabinet {}

impl Permission for UseCabinet {
    type Granted = ();
    const ANY_OF: &'static [(&'static str, Scope)] = &[(USE_CABINET, Scope::Organization)];

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_for_oneself(USE_CABINET).then_some(())
    }
}

/// Permits employees of the platform to decide about rates, agencies, sales, accruals,
/// adjustment requests and bonuses.
pub enum ManageCommissions {}

impl Permission for ManageCommissions {
    type Granted = ();
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE_COMMISSIONS, Scope::Platform)];

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE_COMMISSIONS).then_some(())
    }
}

/// Permits employees of the platform to read who moved money.
pub enum ReadMoneyLog {}

impl Permission for ReadMoneyLog {
    type Granted = ();
    const ANY_OF: &'static [(&'static str, Scope)] =
        &[(MANAGE_COMMISSIONS, Scope::Platform), (MANAGE_PAYOUTS, Scope::Platform)];

    fn granted(actor: &Actor) -> Option<()> {
        ManageCommissions::granted(actor).or_else(|| ManagePayouts::granted(actor))
    }
}

/// Permits employees of the platform to run and confirm payouts.
pub enum ManagePayouts {}

impl Permission for ManagePayouts {
    type Granted = ();
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE_PAYOUTS, Scope::Platform)];

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE_PAYOUTS).then_some(())
    }
}
