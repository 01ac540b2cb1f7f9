//! Events of an employment, without name and e-mail address of the employee.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::outbox::{self, RowlessOutbox};
use messaging::{Aggregate, Event, PublishedState, Republish, Restore, VersionNames};
use runtime::clock;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::db;
use crate::db::audit::StatusChange;
use crate::domain::{Employee, EmployeeStatus, Role, RoleId};

const EMPLOYEE: Aggregate = Aggregate { name: "Employee", table: "employee", key: "id" };

/// A user joined a company (`From` is null), was suspended or activated, or left (`To` is null).
#[derive(Debug, Serialize, Deserialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.identity.employee-status-changed.v1", version = 1, aggregate = EMPLOYEE, key = user_id)]
pub struct EmployeeStatusChanged {
    user_id: UserId,
    company_id: CompanyId,
    /// Null for a user who joined the company.
    from: Option<EmployeeStatus>,
    /// Null for a user who left the company.
    to: Option<EmployeeStatus>,
    by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
}

impl EmployeeStatusChanged {
    pub fn of(
        employee: &Employee,
        from: Option<EmployeeStatus>,
        to: Option<EmployeeStatus>,
        by_user_id: UserId,
        at: OffsetDateTime,
    ) -> Self {
        Self { user_id: employee.id, company_id: employee.company_id, from, to, by_user_id, at }
    }
}

impl From<StatusChange> for EmployeeStatusChanged {
    fn from(change: StatusChange) -> Self {
        let StatusChange { user_id, company_id, from, to, by_user_id, at } = change;
        Self { user_id, company_id, from, to, by_user_id, at }
    }
}

/// A role was assigned to an employee.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.identity.employee-role-assigned.v1", version = 1, aggregate = EMPLOYEE, key = user_id)]
pub struct EmployeeRoleAssigned {
    user_id: UserId,
    company_id: CompanyId,
    role_id: RoleId,
    role_code: String,
    by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
}

impl EmployeeRoleAssigned {
    pub fn of(employee: &Employee, role: &Role, by_user_id: UserId, at: OffsetDateTime) -> Self {
        Self {
            user_id: employee.id,
            company_id: employee.company_id,
            role_id: role.id,
            role_code: role.code.clone(),
            by_user_id,
            at,
        }
    }
}

/// A role was removed from an employee.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.identity.employee-role-removed.v1", version = 1, aggregate = EMPLOYEE, key = user_id)]
pub struct EmployeeRoleRemoved {
    user_id: UserId,
    company_id: CompanyId,
    role_id: RoleId,
    role_code: String,
    by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
}

impl EmployeeRoleRemoved {
    pub fn of(employee: &Employee, role: &Role, by_user_id: UserId, at: OffsetDateTime) -> Self {
        Self {
            user_id: employee.id,
            company_id: employee.company_id,
            role_id: role.id,
            role_code: role.code.clone(),
            by_user_id,
            at,
        }
    }
}

/// Republishes the last status change of each employee.
pub enum Employees {}

impl Republish for Employees {
    const AGGREGATE: Aggregate = EMPLOYEE;

    async fn republish(tx: &mut Tx, keys: &[Uuid]) -> Result<(), ::db::Error> {
        let changes = db::audit::list_last_status_changes(tx.conn(), keys).await?;
        let events: Vec<_> = changes.into_iter().map(EmployeeStatusChanged::from).collect();
        outbox::append_all(tx, &events).await
    }
}

/// The events have no version, and consumers keep the latest event of a user. The events of a
/// restore therefore have the current time. An employee whom the restored database lacks has left.
impl Restore for Employees {
    const VERSION: Option<VersionNames> = None;
    const TOPICS: &'static [&'static str] = &[EmployeeStatusChanged::TOPIC];

    async fn publish_raised(tx: &mut Tx, raised: &[PublishedState]) -> Result<(), ::db::Error> {
        let keys: Vec<_> = raised.iter().map(|state| state.key).collect();
        let at = clock::now();
        let changes = db::audit::list_last_status_changes(tx.conn(), &keys).await?;
        let events = changes.into_iter().map(|change| {
            let change = EmployeeStatusChanged::from(change);
            // No transition happens, so `From` and `To` are both the current status.
            EmployeeStatusChanged { from: change.to, at, ..change }
        });
        outbox::append_all(tx, &events.collect::<Vec<_>>()).await
    }

    async fn end(outbox: &mut RowlessOutbox<'_>, lost: &[PublishedState]) -> Result<Vec<Uuid>, ::db::Error> {
        let at = clock::now();
        let leave = |state: &PublishedState| {
            let newest: EmployeeStatusChanged = state.newest(EmployeeStatusChanged::TOPIC)?;
            Some(EmployeeStatusChanged { from: newest.to, to: None, at, ..newest })
        };
        let mut left: Vec<_> = lost.iter().filter_map(leave).collect();
        let keys = left.iter().map(Event::key).collect();
        // For the other users, the newest event already reports that they have left.
        left.retain(|event| event.from.is_some());
        outbox.append_all(&left).await?;
        Ok(keys)
    }
}
