//! Permissions of callers, and the roles that the timeline records.

use auth::{Actor, CompanyId, Permission, Reach, Scope};

const MANAGE: &str = "crm.deals.manage";
const CARE: &str = "crm.deals.care";
const READ_OWN: &str = "crm.deals.read-own";
const MANAGE_OWN: &str = "crm.deals.manage-own";
const MANAGE_OWN_PIPELINE: &str = "crm.pipeline.manage-own";

values::text_enum! {
    /// The role of an actor in the timeline.
    pub enum Role {
        PlatformManager,
        CareService,
        DeveloperManager,
        /// The role of jobs.
        System,
    }
}

impl Role {
    /// Returns true for the role of a developer's employee. The platform has fewer limits.
    pub const fn is_of_developer(self) -> bool {
        matches!(self, Self::DeveloperManager)
    }
}

/// Permits every operation on the deals of every company. Platform managers have it.
pub enum ManageDeals {}

impl Permission for ManageDeals {
    type Granted = ();
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE, Scope::Platform)];

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE).then_some(())
    }
}

/// Permits reads of every company's deals. Platform managers and the care service have it.
pub enum ReadDeals {}

impl Permission for ReadDeals {
    type Granted = ();
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE, Scope::Platform), (CARE, Scope::Platform)];

    fn granted(actor: &Actor) -> Option<()> {
        CareForDeals::granted(actor).map(drop)
    }
}

/// Permits notes on every company's deals, and grants the role that the timeline records. A caller
/// with both permissions is a platform manager.
pub enum CareForDeals {}

impl Permission for CareForDeals {
    type Granted = Role;
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE, Scope::Platform), (CARE, Scope::Platform)];

    fn granted(actor: &Actor) -> Option<Role> {
        let roles = [(MANAGE, Role::PlatformManager), (CARE, Role::CareService)];
        roles.into_iter().find_map(|(name, role)| actor.holds_on_platform(name).then_some(role))
    }
}

/// Permits reads of the own company's deals, and grants the company.
pub enum ReadOwnDeals {}

impl Permission for ReadOwnDeals {
    type Granted = CompanyId;
    const ANY_OF: &'static [(&'static str, Scope)] =
        &[(READ_OWN, Scope::Organization), (MANAGE_OWN, Scope::Organization)];

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(READ_OWN).or_else(|| ChangeOwnDeals::granted(actor))
    }
}

/// Permits changes of the own company's deals and reads of their contract data.
pub enum ChangeOwnDeals {}

impl Permission for ChangeOwnDeals {
    type Granted = CompanyId;
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE_OWN, Scope::Organization)];

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(MANAGE_OWN)
    }
}

/// Returns true if the user may read the contract data of the deals within a reach.
pub fn may_read_contracts(actor: &Actor, reach: Reach) -> bool {
    match reach {
        Reach::Platform => ManageDeals::granted(actor).is_some(),
        Reach::Company(company) => ChangeOwnDeals::granted(actor) == Some(company),
    }
}

/// Permits reads of the own company's pipeline.
pub enum ReadOwnPipeline {}

impl Permission for ReadOwnPipeline {
    type Granted = CompanyId;
    const ANY_OF: &'static [(&'static str, Scope)] = &[
        (READ_OWN, Scope::Organization),
        (MANAGE_OWN, Scope::Organization),
        (MANAGE_OWN_PIPELINE, Scope::Organization),
    ];

    fn granted(actor: &Actor) -> Option<CompanyId> {
        ReadOwnDeals::granted(actor).or_else(|| ManageOwnPipeline::granted(actor))
    }
}

/// Permits changes of the own company's pipeline.
pub enum ManageOwnPipeline {}

impl Permission for ManageOwnPipeline {
    type Granted = CompanyId;
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE_OWN_PIPELINE, Scope::Organization)];

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(MANAGE_OWN_PIPELINE)
    }
}
