//! Permissions of supervisors and moderators, who need no membership.

use auth::{Actor, CompanyId, Permission, Reach, Scope, UserId};

const MANAGE_CHATS: &str = "messenger.chats.manage";
const MODERATE: &str = "messenger.conferences.moderate";
const MODERATE_DIRECT: &str = "messenger.direct-chats.moderate";

/// Returns the companies whose conferences the actor moderates.
pub fn moderator_reach(actor: &Actor) -> Option<Reach> {
    actor.reach_of(MODERATE)
}

/// The permission to supervise deal chats, with the companies that it covers.
pub enum SuperviseChats {}

impl Permission for SuperviseChats {
    type Granted = Reach;
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE_CHATS, Scope::Organization)];

    fn granted(actor: &Actor) -> Option<Reach> {
        actor.reach_of(MANAGE_CHATS)
    }
}

/// The permission to decide reports of Direct chats, on the whole platform.
pub enum ModerateDirectChats {}

impl Permission for ModerateDirectChats {
    type Granted = ();
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MODERATE_DIRECT, Scope::Platform)];

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MODERATE_DIRECT).then_some(())
    }
}

/// The caller of an operation on chats.
#[derive(Clone, Copy, Debug)]
pub struct Viewer {
    pub user_id: UserId,
    /// Companies whose deal chats the caller supervises.
    pub supervisor_reach: Option<Reach>,
}

impl Viewer {
    pub fn of(actor: &Actor) -> Self {
        Self { user_id: actor.user_id, supervisor_reach: SuperviseChats::granted(actor) }
    }

    /// Returns true for a supervisor of this company's deal chats.
    /// A Direct chat has no company, and therefore no supervisor.
    pub fn supervises(&self, tenant: Option<CompanyId>) -> bool {
        self.supervisor_reach.zip(tenant).is_some_and(|(reach, tenant)| reach.covers(tenant))
    }

    /// Returns true for a supervisor of the deal chats of every company.
    pub fn supervises_all(&self) -> bool {
        self.supervisor_reach == Some(Reach::Platform)
    }
}

#[cfg(test)]
mod tests {
    use auth::{CompanyId, Reach, UserId};

    use super::Viewer;

    #[test]
    fn supervisor_covers_the_deal_chats_of_the_reach() {
        let (own, other) = (CompanyId::generate(), CompanyId::generate());
        for (supervisor_reach, expected, covers_all) in [
            (None, [false, false, false], false),
            (Some(Reach::Company(own)), [true, false, false], false),
            (Some(Reach::Platform), [true, true, false], true),
        ] {
            let viewer = Viewer { user_id: UserId::generate(), supervisor_reach };
            let supervises = [Some(own), Some(other), None].map(|tenant| viewer.supervises(tenant));
            assert_eq!(supervises, expected, "{supervisor_reach:?}");
            assert_eq!(viewer.supervises_all(), covers_all, "{supervisor_reach:?}");
        }
    }
}
