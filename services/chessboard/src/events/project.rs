//! The event of a project.

use auth::CompanyId;
use messaging::{Aggregate, Event};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{Project, ProjectId, ProjectStatus};

const PROJECT: Aggregate = Aggregate { name: "Project", table: "project", key: "id" };

/// A project was created (`From` is null), changed its status, or was deleted (`To` is null).
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.chessboard.project-status-changed.v1", version = 1, aggregate = PROJECT, key = project_id)]
pub struct ProjectStatusChanged {
    project_id: ProjectId,
    tenant_id: CompanyId,
    /// Null for a new project.
    from: Option<ProjectStatus>,
    /// Null for a deleted project.
    to: Option<ProjectStatus>,
    #[schema(minimum = 1)]
    version: i64,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
}

impl ProjectStatusChanged {
    /// Creates the event of a change, from the project after the change.
    pub fn new(project: &Project, from: Option<ProjectStatus>) -> Self {
        Self {
            project_id: project.id,
            tenant_id: project.tenant_id,
            from,
            to: project.deleted_at.is_none().then_some(project.status),
            version: project.version,
            changed_at: project.updated_at,
        }
    }
}
