//! Edits of property objects.

use auth::UserId;
use time::OffsetDateTime;

/// The time and the author of a change of a property object.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    pub at: OffsetDateTime,
    /// The user who changes the object, or `None` for a deal.
    pub by: Option<UserId>,
}

impl Edit {
    pub fn by_user(user: UserId, at: OffsetDateTime) -> Self {
        Self { at, by: Some(user) }
    }

    pub fn by_deal(at: OffsetDateTime) -> Self {
        Self { at, by: None }
    }
}
