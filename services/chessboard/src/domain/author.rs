//! The author of a change of a profile: a user or another system.

use auth::UserId;
use uuid::Uuid;

values::text_enum! {
    /// The kind of the author of a change.
    pub enum ActorKind {
        User,
        /// The service identity, whose change of a company's status or names changes the profile.
        Identity,
        /// The external chessboard system.
        ExternalChessboard,
    }
}

/// The author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    pub kind: ActorKind,
    pub user_id: UserId,
}

impl Author {
    pub fn user(user_id: UserId) -> Self {
        Self { kind: ActorKind::User, user_id }
    }

    pub fn identity() -> Self {
        Self::system(ActorKind::Identity, 1)
    }

    pub fn external_sync() -> Self {
        Self::system(ActorKind::ExternalChessboard, 2)
    }

    /// Creates an author with the fixed user id of a system: a UUIDv7 of time 0 that ends with
    /// `number`. No user has such an id.
    fn system(kind: ActorKind, number: u128) -> Self {
        Self { kind, user_id: Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0000 | number).into() }
    }
}
