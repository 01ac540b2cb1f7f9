//! Who may do what beside those who are members of a chat.

use auth::{Actor, CompanyId, Permission, Reach, UserId};

const MANAGE_CHATS: &str = "messenger.chats.manage";
const MODERATE: &str = "messenger.conferences.moderate";

/// The conferences that somebody moderates: of which companies.
pub fn moderation(actor: &Actor) -> Option<Reach> {
    actor.reach_of(MODERATE)
}

/// Supervisors of deal chats, and of which companies' chats they are.
pub enum SuperviseChats {}

impl Permission for SuperviseChats {
    type Granted = Reach;

    fn granted(actor: &Actor) -> Option<Reach> {
        actor.reach_of(MANAGE_CHATS)
    }
}

/// Who looks at chats.
#[derive(Clone, Copy, Debug)]
pub struct Viewer {
    pub user_id: UserId,
    /// The companies whose chats they supervise.
    pub supervision: Option<Reach>,
}

impl Viewer {
    pub fn of(actor: &Actor) -> Self {
        Self { user_id: actor.user_id, supervision: SuperviseChats::granted(actor) }
    }

    /// Whether they are a supervisor of a chat of this tenant; a chat without one has no supervisors.
    pub fn supervises(&self, tenant: Option<CompanyId>) -> bool {
        self.supervision.zip(tenant).is_some_and(|(reach, tenant)| reach.covers(tenant))
    }

    /// Whether they supervise wherever there is something to supervise.
    pub fn supervises_all(&self) -> bool {
        self.supervision == Some(Reach::Platform)
    }
}
