//! What happened to a deal, in rows that nothing changes.

use ::db::Json;
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Private;

use super::{BookingId, DealId, DealStatus, RegistryRecordNumber, Role, StepId, TimelineRowId, Words};
use crate::db::schema::timeline;

values::text_enum! {
    /// What happened. The rows of one change are in this order.
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
        /// Of a platform manager or the care service alone (INV-TLE-5).
        ManualNote,
        /// Of a developer's people.
        CompanyNote,
    }
}

values::text_enum! {
    /// What of a contract has changed.
    pub enum ContractField {
        ContractType,
        PaymentMethod,
        EscrowAccountNumber,
        FixationData,
        Amount,
    }
}

/// A row as it is read.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = timeline, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct TimelineRow {
    pub id: TimelineRowId,
    pub deal_id: DealId,
    pub kind: TimelineKind,
    #[schema(value_type = Object)]
    pub payload: Private<Json<Box<RawValue>>>,
    /// Nobody, where a job did it.
    pub actor_user_id: Option<UserId>,
    pub actor_role: Role,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// The deal's after the change.
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    pub row_version: i64,
}

/// What a row says: it is written as its payload. It has names of contract data, never values.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "PascalCase")]
pub enum Entry {
    DealCreated {},
    StepMoved {
        from_step_id: StepId,
        to_step_id: StepId,
        reason: Option<Words>,
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
        reason: Option<Words>,
    },
    DealCancelled {
        reason: Option<Words>,
    },
    DealCompleted {
        registry_record_number: RegistryRecordNumber,
    },
    ManualNote {
        text: Words,
    },
    CompanyNote {
        text: Words,
    },
}

impl Entry {
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
