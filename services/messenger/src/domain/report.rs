//! Reports of Direct chats, and the decisions of moderators.

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Code, Private, Text};

use super::{ChatId, ReportId};
use crate::error::{FORBIDDEN, REPORT_DECIDED};
use crate::schema::report;

/// The reporter's own words, which logs never show.
pub type ReportComment = Private<Text<1, 1000>>;

values::text_enum! {
    /// The reason of a report.
    pub enum ReportReason {
        Spam,
        Harassment,
        Fraud,
        Other,
    }
}

values::text_enum! {
    /// The status of a report. A decided report does not change.
    pub enum ReportStatus {
        Open,
        /// A moderator closed the chat.
        ChatClosed,
        /// A moderator left the chat open.
        Dismissed,
    }
}

/// The aggregate, its row and its representation in responses.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = report, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Report {
    pub id: ReportId,
    pub chat_id: ChatId,
    pub reporter_user_id: UserId,
    /// The other user of the chat.
    pub reported_user_id: UserId,
    /// The reason of the report.
    pub reason: ReportReason,
    pub comment: Option<ReportComment>,
    pub status: ReportStatus,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub decided_at: Option<OffsetDateTime>,
    pub decided_by_user_id: Option<UserId>,
}

impl Report {
    /// Refuses a moderator who is one of the two users.
    ///
    /// # Errors
    /// [`FORBIDDEN`]: the moderator is the reporter or the reported user.
    pub fn check_impartial(&self, moderator: UserId) -> Result<(), Code> {
        let is_involved = [self.reporter_user_id, self.reported_user_id].contains(&moderator);
        if is_involved { Err(FORBIDDEN) } else { Ok(()) }
    }

    /// Refuses a decided report.
    ///
    /// # Errors
    /// [`REPORT_DECIDED`]: the report is not open.
    pub fn check_open(&self) -> Result<(), Code> {
        if self.status == ReportStatus::Open { Ok(()) } else { Err(REPORT_DECIDED) }
    }
}

#[cfg(test)]
mod tests {
    use auth::UserId;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::{Report, ReportReason, ReportStatus};
    use crate::domain::{ChatId, ReportId};
    use crate::error::{FORBIDDEN, REPORT_DECIDED};

    fn user(number: u128) -> UserId {
        Uuid::from_u128(number).into()
    }

    fn report(status: ReportStatus) -> Report {
        Report {
            id: ReportId::generate(),
            chat_id: ChatId::generate(),
            reporter_user_id: user(1),
            reported_user_id: user(2),
            reason: ReportReason::Spam,
            comment: None,
            status,
            created_at: OffsetDateTime::UNIX_EPOCH,
            decided_at: None,
            decided_by_user_id: None,
        }
    }

    #[test]
    fn open_report_is_decided_by_a_third_person() {
        let open = report(ReportStatus::Open);
        assert_eq!(open.check_impartial(user(1)), Err(FORBIDDEN));
        assert_eq!(open.check_impartial(user(2)), Err(FORBIDDEN));
        assert_eq!(open.check_impartial(user(3)), Ok(()));
        assert_eq!(open.check_open(), Ok(()));
        for status in [ReportStatus::ChatClosed, ReportStatus::Dismissed] {
            assert_eq!(report(status).check_open(), Err(REPORT_DECIDED));
        }
    }
}
