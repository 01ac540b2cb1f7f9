//! Conversions of permissions into callers of commands.

use auth::{Permission, Permitted, Reach};

use crate::domain::{Author, CareForDeals, ChangeOwnDeals, ManageDeals, Role};
use crate::ops::deal_command::CommandCaller;

impl From<Permitted<ManageDeals>> for CommandCaller {
    fn from(permitted: Permitted<ManageDeals>) -> Self {
        platform_caller(&permitted, Role::PlatformManager)
    }
}

impl From<Permitted<CareForDeals>> for CommandCaller {
    fn from(permitted: Permitted<CareForDeals>) -> Self {
        platform_caller(&permitted, permitted.granted)
    }
}

impl From<Permitted<ChangeOwnDeals>> for CommandCaller {
    fn from(permitted: Permitted<ChangeOwnDeals>) -> Self {
        let author = Author { user_id: Some(permitted.actor.user_id), role: Role::DeveloperManager };
        Self { author, reach: Reach::Company(permitted.granted) }
    }
}

fn platform_caller<P: Permission>(permitted: &Permitted<P>, role: Role) -> CommandCaller {
    let author = Author { user_id: Some(permitted.actor.user_id), role };
    CommandCaller { author, reach: Reach::Platform }
}
