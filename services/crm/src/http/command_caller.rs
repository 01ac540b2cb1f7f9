//! Conversions of permissions into managers of deals.

use auth::{Permission, Permitted, Reach};

use crate::domain::{Author, CareForDeals, ChangeOwnDeals, ManageDeals, Role};
use crate::ops::deal_command::Manager;

impl From<Permitted<ManageDeals>> for Manager {
    fn from(permitted: Permitted<ManageDeals>) -> Self {
        create_platform_manager(&permitted, Role::PlatformManager)
    }
}

impl From<Permitted<CareForDeals>> for Manager {
    fn from(permitted: Permitted<CareForDeals>) -> Self {
        create_platform_manager(&permitted, permitted.granted)
    }
}

impl From<Permitted<ChangeOwnDeals>> for Manager {
    fn from(permitted: Permitted<ChangeOwnDeals>) -> Self {
        let author = Author { user_id: Some(permitted.actor.user_id), role: Role::DeveloperManager };
        Self { author, reach: Reach::Company(permitted.granted) }
    }
}

fn create_platform_manager<P: Permission>(permitted: &Permitted<P>, role: Role) -> Manager {
    let author = Author { user_id: Some(permitted.actor.user_id), role };
    Manager { author, reach: Reach::Platform }
}
