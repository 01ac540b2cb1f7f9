//! The append-only timeline of a deal.

use ::db::Json;
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Private;

use super::{BookingId, DealId, DealStatus, FreeText, RegistryRecordNumber, Role, StepId, TimelineRowId};
use crate::schema::timeline;

values::text_enum! {
    /// The kind of a row. The rows of one change have this order.
    pub enum TimelineKind {
        DealCreated,
        StepMoved,
        BookingCreated,
        BookingProlonged,
        BookingExpired,
        ContractChanged,
        AgentChanged,
        StatusChanged,
        DealCancelled,
        DealCompleted,
        /// A note of a platform manager or the care service (INV-TLE-5).
        ManualNote,
        /// A note of a developer's employee.
        CompanyNote,
    }
}

values::text_enum! {
    /// A field of the contract data.
    pub enum ContractField {
        ContractType,
        PaymentMethod,
        ContractNumber,
        EscrowAccountNumber,
        FixationData,
        Amount,
    }
}

values::text_enum! {
    /// The readers of a note: everyone who reads the timeline, or platform routes alone.
    pub enum NoteAudience {
        Everyone,
        Platform,
    }
}

impl NoteAudience {
    pub const fn is_everyone(self) -> bool {
        matches!(self, Self::Everyone)
    }
}

/// A row of the timeline.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = timeline, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct TimelineRow {
    pub id: TimelineRowId,
    pub deal_id: DealId,
    pub kind: TimelineKind,
    /// Data of the change, by `Kind`.
    ///
    /// - `DealCreated`: no members.
    /// - `StepMoved`: `FromStepId`, `ToStepId`, and `Reason` or `null`.
    /// - `BookingCreated`, `BookingProlonged`: `BookingId`, `ExpiresAt`.
    /// - `BookingExpired`: `BookingId`.
    /// - `ContractChanged`: `ChangedFields`, a list of the names of contract data.
    /// - `AgentChanged`: `FromAgentUserId` and `ToAgentUserId`, each an id or `null`.
    /// - `StatusChanged`: `FromStatus`, `ToStatus`, and `Reason` or `null`.
    /// - `DealCancelled`: `Reason`.
    /// - `DealCompleted`: `RegistryRecordNumber`.
    /// - `ManualNote`, `CompanyNote`: `Text`.
    #[schema(value_type = Object)]
    pub payload: Private<Json<Box<RawValue>>>,
    /// `null` for a job.
    pub actor_user_id: Option<UserId>,
    pub actor_role: Role,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// Version of the deal after the change.
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    pub row_version: i64,
    /// `Platform` if company routes do not show the text of this row.
    pub audience: NoteAudience,
}

/// The payload of `StatusChanged`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StatusChange {
    from_status: DealStatus,
    to_status: DealStatus,
    reason: Option<FreeText>,
}

impl TimelineRow {
    /// Removes the reason if its audience is the platform.
    ///
    /// # Errors
    /// If the audience is the platform, but the payload is not that of a `StatusChanged` row.
    pub fn hide_reason(self) -> serde_json::Result<Self> {
        if self.audience.is_everyone() {
            return Ok(self);
        }
        let change: StatusChange = serde_json::from_str(self.payload.expose().0.get())?;
        let payload = serde_json::value::to_raw_value(&StatusChange { reason: None, ..change })?;
        Ok(Self { payload: Private::new(Json(payload)), ..self })
    }
}

/// The payload of a row. It has names of contract data and never their values.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "PascalCase")]
pub enum TimelineEntry {
    DealCreated {},
    StepMoved {
        from_step_id: StepId,
        to_step_id: StepId,
        reason: Option<FreeText>,
    },
    BookingCreated {
        booking_id: BookingId,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
    BookingProlonged {
        booking_id: BookingId,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
    BookingExpired {
        booking_id: BookingId,
    },
    ContractChanged {
        changed_fields: Vec<ContractField>,
    },
    AgentChanged {
        from_agent_user_id: Option<UserId>,
        to_agent_user_id: Option<UserId>,
    },
    StatusChanged {
        from_status: DealStatus,
        to_status: DealStatus,
        reason: Option<FreeText>,
    },
    DealCancelled {
        reason: Option<FreeText>,
    },
    DealCompleted {
        registry_record_number: RegistryRecordNumber,
    },
    ManualNote {
        text: FreeText,
    },
    CompanyNote {
        text: FreeText,
    },
}

impl TimelineEntry {
    /// Returns true if the row has a text whose audience can be restricted.
    pub const fn has_audience(&self) -> bool {
        matches!(self, Self::ManualNote { .. } | Self::StatusChanged { .. })
    }

    pub fn kind(&self) -> TimelineKind {
        match self {
            Self::DealCreated {} => TimelineKind::DealCreated,
            Self::StepMoved { .. } => TimelineKind::StepMoved,
            Self::BookingCreated { .. } => TimelineKind::BookingCreated,
            Self::BookingProlonged { .. } => TimelineKind::BookingProlonged,
            Self::BookingExpired { .. } => TimelineKind::BookingExpired,
            Self::ContractChanged { .. } => TimelineKind::ContractChanged,
            Self::AgentChanged { .. } => TimelineKind::AgentChanged,
            Self::StatusChanged { .. } => TimelineKind::StatusChanged,
            Self::DealCancelled { .. } => TimelineKind::DealCancelled,
            Self::DealCompleted { .. } => TimelineKind::DealCompleted,
            Self::ManualNote { .. } => TimelineKind::ManualNote,
            Self::CompanyNote { .. } => TimelineKind::CompanyNote,
        }
    }
}

#[cfg(test)]
mod tests {
    use ::db::Json;
    use serde_json::json;
    use time::OffsetDateTime;
    use values::Private;

    use super::{NoteAudience, TimelineEntry, TimelineKind, TimelineRow};
    use crate::domain::{DealId, DealStatus, Role, TimelineRowId};

    /// A row for the platform loses only its reason. A row for everyone stays unchanged.
    #[test]
    fn reason_of_a_row_of_the_platform_is_hidden() {
        let shown = |audience, reason| {
            let payload = json!({"FromStatus": "Sale", "ToStatus": "Booking", "Reason": reason});
            let row = TimelineRow {
                id: TimelineRowId::generate(),
                deal_id: DealId::generate(),
                kind: TimelineKind::StatusChanged,
                payload: Private::new(Json(serde_json::value::to_raw_value(&payload).unwrap())),
                actor_user_id: None,
                actor_role: Role::PlatformManager,
                created_at: OffsetDateTime::UNIX_EPOCH,
                row_version: 2,
                audience,
            };
            let row = row.hide_reason().unwrap();
            serde_json::from_str::<serde_json::Value>(row.payload.expose().0.get()).unwrap()
        };
        let hidden = json!({"FromStatus": "Sale", "ToStatus": "Booking", "Reason": null});
        assert_eq!(shown(NoteAudience::Platform, Some("by phone")), hidden);
        assert_eq!(shown(NoteAudience::Everyone, Some("by phone"))["Reason"], "by phone");
    }

    /// A note of the platform and a change of status have an audience, and other rows have none.
    #[test]
    fn note_and_change_of_status_have_an_audience() {
        let text = || Private::new(values::Prose::parse("x").unwrap());
        assert!(TimelineEntry::ManualNote { text: text() }.has_audience());
        let (from_status, to_status) = (DealStatus::Sale, DealStatus::Booking);
        assert!(TimelineEntry::StatusChanged { from_status, to_status, reason: None }.has_audience());
        assert!(!TimelineEntry::CompanyNote { text: text() }.has_audience());
        assert!(!TimelineEntry::DealCreated {}.has_audience());
    }
}
