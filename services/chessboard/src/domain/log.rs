//! The log of a profile: changes with their authors. It contains names of fields, never values
//! (INV-LOG-1).

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::author::{ActorKind, Author};
use super::{Developer, DeveloperField, DeveloperStatus, LogEntryId, SyncSource};
use crate::schema::developer_log;

values::text_enum! {
    /// The kind of a change in the log.
    pub enum LogKind {
        Created,
        StatusChanged,
        FieldsChanged,
        Deleted,
        Restored,
    }
}

/// An immutable log entry.
#[derive(Clone, Debug, Queryable, Selectable, Insertable, Serialize, ToSchema)]
#[diesel(table_name = developer_log, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct LogEntry {
    pub id: LogEntryId,
    #[serde(skip)]
    pub developer_id: CompanyId,
    pub kind: LogKind,
    /// Status before the event. Null if the event changed no status.
    #[serde(rename = "From")]
    #[diesel(column_name = from_status)]
    pub from: Option<DeveloperStatus>,
    /// Status after the event. Null if the event changed no status.
    #[serde(rename = "To")]
    #[diesel(column_name = to_status)]
    pub to: Option<DeveloperStatus>,
    /// Sorted names of fields. Empty unless `Kind` is `FieldsChanged`.
    pub changed_fields: Vec<DeveloperField>,
    /// The owner of the replica fields. Null unless `Kind` is `Created` or `Restored`.
    pub sync_source: Option<SyncSource>,
    /// The kind of author: a user or a system.
    pub actor_kind: ActorKind,
    pub actor_user_id: UserId,
    /// The developer's version with this change.
    pub version: i64,
    #[serde(with = "time::serde::rfc3339")]
    pub occurred_at: OffsetDateTime,
}

impl LogEntry {
    /// Returns the entries of a change in their order. The entries of a restoration contain no
    /// field names.
    pub fn for_change(before: Option<&Developer>, after: &Developer, by: Author) -> Vec<Self> {
        let entry = |kind| Self {
            id: LogEntryId::generate(),
            developer_id: after.id,
            kind,
            from: None,
            to: None,
            changed_fields: Vec::new(),
            sync_source: None,
            actor_kind: by.kind,
            actor_user_id: by.user_id,
            version: after.version,
            occurred_at: after.updated_at,
        };
        let sync_source = Some(after.sync_source);
        let Some(before) = before else { return vec![Self { sync_source, ..entry(LogKind::Created) }] };
        let mut entries = Vec::new();
        let changed_fields = after.fields_changed_since(before);
        if !changed_fields.is_empty() && !before.is_deleted() {
            entries.push(Self { changed_fields, ..entry(LogKind::FieldsChanged) });
        }
        if before.status != after.status {
            let (from, to) = (Some(before.status), Some(after.status));
            entries.push(Self { from, to, ..entry(LogKind::StatusChanged) });
        }
        if before.is_deleted() {
            entries.push(Self { sync_source, ..entry(LogKind::Restored) });
        } else if after.is_deleted() {
            entries.push(entry(LogKind::Deleted));
        }
        entries
    }
}
