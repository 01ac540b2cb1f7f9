//! Entries of the audit log.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{
    AuditEntryId, ChangedField, Employee, EmployeeStatus, MachineAccount, MachineAccountName,
    MachineAccountStatus, Reason, Role, RoleId, SubjectId, Tenant, TenantStatus,
};
use crate::schema::audit_entry;

values::text_enum! {
    /// Change that an entry records.
    pub enum AuditAction {
        TenantCreated,
        TenantUpdated,
        TenantSuspended,
        TenantActivated,
        TenantArchived,
        EmployeeCreated,
        EmployeeUpdated,
        EmployeeSuspended,
        EmployeeActivated,
        EmployeeRemoved,
        RoleAssigned,
        RoleRemoved,
        RoleGrantRefused,
        MachineAccountCreated,
        MachineAccountUpdated,
        MachineAccountSecretRequested,
        MachineAccountRevoked,
    }
}

/// The user who makes a change, and the trace of the request.
#[derive(Clone, Debug)]
pub struct AuditActor {
    pub user_id: UserId,
    pub company_id: Option<CompanyId>,
    pub trace_id: Option<String>,
}

/// An immutable entry of the audit log (INV-IDN-010).
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = audit_entry, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct AuditEntry {
    pub id: AuditEntryId,
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    pub action: AuditAction,
    pub tenant_id: CompanyId,
    /// Tenant, user or machine account that the action changed.
    pub subject_id: SubjectId,
    pub actor_user_id: UserId,
    /// Id of the actor's company at that time. Null without one.
    pub actor_company_id: Option<CompanyId>,
    /// Id of the role. Null unless the action concerns a role.
    pub role_id: Option<RoleId>,
    /// Code of the role. Null unless the action concerns a role.
    pub role_code: Option<String>,
    /// Status before the change, if there was one.
    #[serde(rename = "From")]
    pub from_status: Option<String>,
    /// Status after the change, if there is one.
    #[serde(rename = "To")]
    pub to_status: Option<String>,
    /// Sorted names of the fields that an update changed. Other actions have none.
    pub changed_fields: Vec<ChangedField>,
    pub reason: Option<Reason>,
    /// Name of the machine account that the action changed. Null for other subjects.
    pub machine_account_name: Option<MachineAccountName>,
    pub trace_id: Option<String>,
}

impl AuditEntry {
    fn new(
        by: &AuditActor,
        at: OffsetDateTime,
        action: AuditAction,
        tenant_id: CompanyId,
        subject_id: SubjectId,
    ) -> Self {
        Self {
            id: AuditEntryId::generate(),
            at,
            action,
            tenant_id,
            subject_id,
            actor_user_id: by.user_id,
            actor_company_id: by.company_id,
            role_id: None,
            role_code: None,
            from_status: None,
            to_status: None,
            changed_fields: Vec::new(),
            reason: None,
            machine_account_name: None,
            trace_id: by.trace_id.clone(),
        }
    }

    pub fn tenant_created(by: &AuditActor, tenant: &Tenant) -> Self {
        let entry = Self::of_tenant(by, tenant.created_at, AuditAction::TenantCreated, tenant.id);
        Self { to_status: Some(tenant.status.to_string()), ..entry }
    }

    pub fn tenant_updated(by: &AuditActor, tenant: &Tenant, changed_fields: Vec<ChangedField>) -> Self {
        let entry = Self::of_tenant(by, tenant.updated_at, AuditAction::TenantUpdated, tenant.id);
        Self { changed_fields, ..entry }
    }

    /// Records a transition. `tenant` already has the new status.
    pub fn tenant_status_changed(
        by: &AuditActor,
        tenant: &Tenant,
        from: TenantStatus,
        reason: Option<Reason>,
    ) -> Self {
        let action = match tenant.status {
            TenantStatus::Active => AuditAction::TenantActivated,
            TenantStatus::Suspended => AuditAction::TenantSuspended,
            TenantStatus::Archived => AuditAction::TenantArchived,
        };
        let entry = Self::of_tenant(by, tenant.updated_at, action, tenant.id);
        let (from_status, to_status) = (Some(from.to_string()), Some(tenant.status.to_string()));
        Self { from_status, to_status, reason, ..entry }
    }

    pub fn employee_updated(by: &AuditActor, employee: &Employee, changed_fields: Vec<ChangedField>) -> Self {
        let entry = Self::of_employee(by, employee.updated_at, AuditAction::EmployeeUpdated, employee);
        Self { changed_fields, ..entry }
    }

    /// Records an employment (`from` is `None`), a removal (`to` is `None`) or a transition.
    pub fn employee_status_changed(
        by: &AuditActor,
        at: OffsetDateTime,
        employee: &Employee,
        from: Option<EmployeeStatus>,
        to: Option<EmployeeStatus>,
    ) -> Self {
        let action = match (from, to) {
            (None, _) => AuditAction::EmployeeCreated,
            (_, None) => AuditAction::EmployeeRemoved,
            (_, Some(EmployeeStatus::Active)) => AuditAction::EmployeeActivated,
            (_, Some(EmployeeStatus::Suspended)) => AuditAction::EmployeeSuspended,
        };
        let entry = Self::of_employee(by, at, action, employee);
        let name = |status: Option<EmployeeStatus>| status.map(|status| status.to_string());
        Self { from_status: name(from), to_status: name(to), ..entry }
    }

    pub fn machine_account_created(by: &AuditActor, account: &MachineAccount) -> Self {
        let action = AuditAction::MachineAccountCreated;
        let entry = Self::of_machine_account(by, account.created_at, action, account);
        Self { to_status: Some(account.status.to_string()), ..entry }
    }

    /// Records a new name. `account` already has it.
    pub fn machine_account_renamed(by: &AuditActor, account: &MachineAccount) -> Self {
        let action = AuditAction::MachineAccountUpdated;
        let entry = Self::of_machine_account(by, account.updated_at, action, account);
        Self { changed_fields: vec![ChangedField::Name], ..entry }
    }

    pub fn machine_account_secret_requested(
        by: &AuditActor,
        at: OffsetDateTime,
        account: &MachineAccount,
    ) -> Self {
        Self::of_machine_account(by, at, AuditAction::MachineAccountSecretRequested, account)
    }

    /// Records a revocation. `account` is already Revoked.
    pub fn machine_account_revoked(by: &AuditActor, account: &MachineAccount) -> Self {
        let action = AuditAction::MachineAccountRevoked;
        let entry = Self::of_machine_account(by, account.updated_at, action, account);
        let from_status = Some(MachineAccountStatus::Active.to_string());
        Self { from_status, to_status: Some(account.status.to_string()), ..entry }
    }

    pub fn machine_role_assigned(
        by: &AuditActor,
        at: OffsetDateTime,
        account: &MachineAccount,
        role: &Role,
    ) -> Self {
        Self::of_machine_account(by, at, AuditAction::RoleAssigned, account).with_role(role)
    }

    pub fn machine_role_removed(
        by: &AuditActor,
        at: OffsetDateTime,
        account: &MachineAccount,
        role: &Role,
    ) -> Self {
        Self::of_machine_account(by, at, AuditAction::RoleRemoved, account).with_role(role)
    }

    pub fn role_assigned(by: &AuditActor, at: OffsetDateTime, employee: &Employee, role: &Role) -> Self {
        Self::of_employee(by, at, AuditAction::RoleAssigned, employee).with_role(role)
    }

    pub fn role_removed(by: &AuditActor, at: OffsetDateTime, employee: &Employee, role: &Role) -> Self {
        Self::of_employee(by, at, AuditAction::RoleRemoved, employee).with_role(role)
    }

    pub fn grant_refused(
        by: &AuditActor,
        at: OffsetDateTime,
        tenant_id: CompanyId,
        subject_id: SubjectId,
        role: &Role,
    ) -> Self {
        Self::new(by, at, AuditAction::RoleGrantRefused, tenant_id, subject_id).with_role(role)
    }

    fn of_tenant(by: &AuditActor, at: OffsetDateTime, action: AuditAction, tenant: CompanyId) -> Self {
        let subject = uuid::Uuid::from(tenant).into();
        Self::new(by, at, action, tenant, subject)
    }

    fn of_employee(by: &AuditActor, at: OffsetDateTime, action: AuditAction, employee: &Employee) -> Self {
        let subject = uuid::Uuid::from(employee.id).into();
        Self::new(by, at, action, employee.company_id, subject)
    }

    fn of_machine_account(
        by: &AuditActor,
        at: OffsetDateTime,
        action: AuditAction,
        account: &MachineAccount,
    ) -> Self {
        let entry = Self::new(by, at, action, account.company_id, uuid::Uuid::from(account.id).into());
        Self { machine_account_name: Some(account.name.clone()), ..entry }
    }

    fn with_role(self, role: &Role) -> Self {
        Self { role_id: Some(role.id), role_code: Some(role.code.clone()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use auth::{CompanyId, UserId};
    use time::OffsetDateTime;
    use uuid::Uuid;
    use values::{Lines, Private};

    use super::{
        AuditAction, AuditActor, AuditEntry, ChangedField, EmployeeStatus, Role, RoleId, TenantStatus,
    };
    use crate::domain::{Employee, Tenant, TenantName, TenantType};

    const AT: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn actor() -> AuditActor {
        AuditActor {
            user_id: UserId::generate(),
            company_id: Some(CompanyId::generate()),
            trace_id: Some("trace".to_owned()),
        }
    }

    fn employee() -> Employee {
        let name = Private::new(values::Checked::parse("Анна").unwrap());
        let email = Private::new(values::Checked::parse("anna@example.org").unwrap());
        Employee::new(UserId::generate(), CompanyId::generate(), name, email, AT)
    }

    /// An entry of a tenant names the actor, the tenant, and the statuses before and after.
    #[test]
    fn entry_of_a_tenant_has_its_statuses() {
        let by = actor();
        let name = TenantName::parse("Ромашка").unwrap();
        let mut tenant = Tenant::new(name, None, TenantType::Agency, None, AT);
        let created = AuditEntry::tenant_created(&by, &tenant);
        assert_eq!((created.action, created.tenant_id), (AuditAction::TenantCreated, tenant.id));
        assert_eq!(Uuid::from(created.subject_id), Uuid::from(tenant.id));
        assert_eq!((created.actor_user_id, created.actor_company_id), (by.user_id, by.company_id));
        assert_eq!((created.from_status, created.to_status), (None, Some("Active".to_owned())));
        assert_eq!(created.trace_id, by.trace_id);
        let updated = AuditEntry::tenant_updated(&by, &tenant, vec![ChangedField::Name]);
        assert_eq!(updated.action, AuditAction::TenantUpdated);
        assert_eq!(updated.changed_fields, [ChangedField::Name]);
        for (status, action) in [
            (TenantStatus::Active, AuditAction::TenantActivated),
            (TenantStatus::Suspended, AuditAction::TenantSuspended),
            (TenantStatus::Archived, AuditAction::TenantArchived),
        ] {
            tenant.status = status;
            let reason = Some(Private::new(Lines::parse("debts").unwrap()));
            let entry =
                AuditEntry::tenant_status_changed(&by, &tenant, TenantStatus::Suspended, reason.clone());
            assert_eq!((entry.action, entry.reason), (action, reason));
            assert_eq!(entry.from_status.as_deref(), Some("Suspended"));
            assert_eq!(entry.to_status, Some(status.to_string()));
        }
    }

    /// An entry of an employee names the company, the user, and the statuses before and after.
    #[test]
    fn entry_of_an_employee_has_its_statuses() {
        use AuditAction::{EmployeeActivated, EmployeeCreated, EmployeeRemoved, EmployeeSuspended};
        use EmployeeStatus::{Active, Suspended};
        let (by, employee) = (actor(), employee());
        for (from, to, action) in [
            (None, Some(Active), EmployeeCreated),
            (Some(Suspended), None, EmployeeRemoved),
            (Some(Suspended), Some(Active), EmployeeActivated),
            (Some(Active), Some(Suspended), EmployeeSuspended),
        ] {
            let entry = AuditEntry::employee_status_changed(&by, AT, &employee, from, to);
            assert_eq!((entry.action, entry.tenant_id), (action, employee.company_id));
            assert_eq!(Uuid::from(entry.subject_id), Uuid::from(employee.id));
            let name = |status: Option<EmployeeStatus>| status.map(|status| status.to_string());
            assert_eq!((entry.from_status, entry.to_status), (name(from), name(to)));
        }
        let updated = AuditEntry::employee_updated(&by, &employee, vec![ChangedField::Email]);
        assert_eq!(updated.action, AuditAction::EmployeeUpdated);
        assert_eq!(updated.changed_fields, [ChangedField::Email]);
    }

    /// An entry of a role has the id and the code of the role.
    #[test]
    fn entry_of_a_role_has_its_id_and_code() {
        let (by, employee) = (actor(), employee());
        let role = Role {
            id: RoleId::generate(),
            code: "agent".to_owned(),
            assignable_to: vec![TenantType::Agency],
            permissions: vec![],
            is_kept_apart: false,
        };
        let subject = Uuid::from(employee.id).into();
        for (entry, action) in [
            (AuditEntry::role_assigned(&by, AT, &employee, &role), AuditAction::RoleAssigned),
            (AuditEntry::role_removed(&by, AT, &employee, &role), AuditAction::RoleRemoved),
            (
                AuditEntry::grant_refused(&by, AT, employee.company_id, subject, &role),
                AuditAction::RoleGrantRefused,
            ),
        ] {
            assert_eq!((entry.action, entry.tenant_id), (action, employee.company_id));
            assert_eq!((entry.role_id, entry.role_code.as_deref()), (Some(role.id), Some("agent")));
        }
    }
}
