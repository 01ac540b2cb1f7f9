//! Employees: users who work for one company.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Code, Line, Private, TrimmedEmail, fold, fold_case};

use super::ChangedField;
use crate::error::EMPLOYEE_INVALID_TRANSITION;
use crate::schema::employee_with_roles;

pub type PersonName = Private<Line<1, 256>>;
/// A contact address, not a login.
pub type WorkEmail = Private<TrimmedEmail<256>>;

values::text_enum! {
    /// Status of an employee. The roles of a suspended employee grant no permissions.
    pub enum EmployeeStatus {
        Active,
        Suspended,
    }
}

/// An employee, as aggregate, row and response.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = employee_with_roles, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Employee {
    /// User id, which is `sub` in the user's tokens.
    pub id: UserId,
    pub company_id: CompanyId,
    pub name: PersonName,
    pub email: WorkEmail,
    pub status: EmployeeStatus,
    /// Codes of the assigned roles, sorted.
    pub role_codes: Vec<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    /// Value to send as `Version` of the next change.
    pub version: i64,
}

impl Employee {
    pub fn new(
        id: UserId,
        company_id: CompanyId,
        name: PersonName,
        email: WorkEmail,
        now: OffsetDateTime,
    ) -> Self {
        Self {
            id,
            company_id,
            name,
            email,
            status: EmployeeStatus::Active,
            role_codes: Vec::new(),
            created_at: now,
            updated_at: now,
            version: 1,
        }
    }

    /// Returns the sort key of lists.
    pub fn lower_name(&self) -> String {
        self.name.expose().as_str().to_lowercase()
    }

    /// Returns the e-mail address with its letter case folded, which is unique in a company
    /// (INV-IDN-005).
    pub fn folded_email(&self) -> String {
        fold_case(self.email.expose().as_str())
    }

    /// Returns the text that search queries match.
    pub fn search_text(&self) -> String {
        format!("{}\n{}", fold(self.name.expose().as_str()), fold(self.email.expose().as_str()))
    }

    /// Replaces name and e-mail address. Returns the changed fields in the order of their names.
    pub fn update(&mut self, name: PersonName, email: WorkEmail, now: OffsetDateTime) -> Vec<ChangedField> {
        let mut changed = Vec::new();
        if self.email != email {
            self.email = email;
            changed.push(ChangedField::Email);
        }
        if self.name != name {
            self.name = name;
            changed.push(ChangedField::Name);
        }
        if !changed.is_empty() {
            self.updated_at = now;
        }
        changed
    }

    /// Changes the status.
    ///
    /// # Errors
    /// [`EMPLOYEE_INVALID_TRANSITION`] if the employee already has the status.
    pub fn change_status(&mut self, to: EmployeeStatus, now: OffsetDateTime) -> Result<(), Code> {
        if self.status == to {
            return Err(EMPLOYEE_INVALID_TRANSITION);
        }
        self.status = to;
        self.updated_at = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use auth::{CompanyId, UserId};
    use time::OffsetDateTime;
    use values::{Checked, Private};

    use super::{Employee, EmployeeStatus, PersonName, WorkEmail};
    use crate::domain::ChangedField;
    use crate::error::EMPLOYEE_INVALID_TRANSITION;

    fn name(text: &str) -> PersonName {
        Private::new(Checked::parse(text).unwrap())
    }

    fn email(text: &str) -> WorkEmail {
        Private::new(Checked::parse(text).unwrap())
    }

    fn employee() -> Employee {
        let (user, company) = (UserId::generate(), CompanyId::generate());
        Employee::new(user, company, name("Артём"), email("Anna@Example.org"), OffsetDateTime::UNIX_EPOCH)
    }

    /// Lists sort by the lower-case name, and searches match the folded name and address.
    #[test]
    fn employee_is_sorted_and_found_by_its_texts() {
        let employee = employee();
        assert_eq!(employee.lower_name(), "артём");
        assert_eq!(employee.folded_email(), "anna@example.org");
        assert_eq!(employee.search_text(), "артем\nanna@example.org");
    }

    /// An update returns the changed fields in the order of their names, an identical one none.
    #[test]
    fn update_returns_the_changed_fields() {
        let (mut employee, later) = (employee(), OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR);
        assert_eq!(employee.update(name("Артём"), email("Anna@Example.org"), later), []);
        assert_eq!(employee.updated_at, OffsetDateTime::UNIX_EPOCH);
        let changed = employee.update(name("Анна"), email("anna@example.org"), later);
        assert_eq!(changed, [ChangedField::Email, ChangedField::Name]);
        assert_eq!((employee.name, employee.updated_at), (name("Анна"), later));
        assert_eq!(employee.email, email("anna@example.org"));
    }

    /// A change to the present status is refused.
    #[test]
    fn change_to_the_present_status_is_refused() {
        let (mut employee, later) = (employee(), OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR);
        let refused = employee.change_status(EmployeeStatus::Active, later);
        assert_eq!(
            (refused, employee.updated_at),
            (Err(EMPLOYEE_INVALID_TRANSITION), OffsetDateTime::UNIX_EPOCH)
        );
        assert_eq!(employee.change_status(EmployeeStatus::Suspended, later), Ok(()));
        assert_eq!((employee.status, employee.updated_at), (EmployeeStatus::Suspended, later));
    }
}
