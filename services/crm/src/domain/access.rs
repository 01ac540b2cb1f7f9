//! Who may do what. A person is written down by the first role that they hold.

use auth::{Actor, CompanyId, Permission};

const MANAGE: &str = "crm.deals.manage";
const CARE: &str = "crm.deals.care";
const READ_OWN: &str = "crm.deals.read-own";
const MANAGE_OWN: &str = "crm.deals.manage-own";
const PIPELINE_OWN: &str = "crm.pipeline.manage-own";

values::text_enum! {
    /// As whom somebody stands in the timeline.
    pub enum Role {
        PlatformManager,
        CareService,
        DeveloperManager,
        /// Jobs.
        System,
    }
}

/// The platform's managers: every operation on every company's deals.
pub enum ManageDeals {}

impl Permission for ManageDeals {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE).then_some(())
    }
}

/// The platform's managers and its care service, who read deals.
pub enum ReadDeals {}

impl Permission for ReadDeals {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        CareForDeals::granted(actor).map(drop)
    }
}

/// The same, who write notes, and as whom.
pub enum CareForDeals {}

impl Permission for CareForDeals {
    type Granted = Role;

    fn granted(actor: &Actor) -> Option<Role> {
        let roles = [(MANAGE, Role::PlatformManager), (CARE, Role::CareService)];
        roles.into_iter().find_map(|(name, role)| actor.holds_on_platform(name).then_some(role))
    }
}

/// People of a developer who read the deals of their own company, which this gives.
pub enum ReadOwnDeals {}

impl Permission for ReadOwnDeals {
    type Granted = CompanyId;

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(READ_OWN).or_else(|| ChangeOwnDeals::granted(actor))
    }
}

/// Those of them who change deals, and see contract data.
pub enum ChangeOwnDeals {}

impl Permission for ChangeOwnDeals {
    type Granted = CompanyId;

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(MANAGE_OWN)
    }
}

/// Those who see the steps of their own company's pipeline.
pub enum ReadOwnPipeline {}

impl Permission for ReadOwnPipeline {
    type Granted = CompanyId;

    fn granted(actor: &Actor) -> Option<CompanyId> {
        ReadOwnDeals::granted(actor).or_else(|| ManageOwnPipeline::granted(actor))
    }
}

/// Those who change them.
pub enum ManageOwnPipeline {}

impl Permission for ManageOwnPipeline {
    type Granted = CompanyId;

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(PIPELINE_OWN)
    }
}
