//! A knock at a conference with a lobby.

use auth::UserId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

values::text_enum! {
    /// The state of a knock.
    pub enum KnockState {
        Waiting,
        /// The user may not knock again.
        Denied,
    }
}

/// A member who asked to be admitted to a conference with a lobby.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Knock {
    pub user_id: UserId,
    pub state: KnockState,
    /// Time of the knock, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    pub knocked_at: OffsetDateTime,
}
