//! Machine accounts: programs that act for a company.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Code, Line, List, Private};

use super::RoleId;
use crate::error::MACHINE_ACCOUNT_REVOKED;
use crate::schema::machine_account;

pub type MachineAccountName = Line<1, 256>;
/// Ids of the roles in a request. The maximum is above the number of roles that a company can use.
pub type MachineRoles = List<RoleId, 0, 20>;
/// The secret of an account's client at the issuer.
pub type ClientSecret = Private<String>;

/// Maximum number of active machine accounts of a company (INV-IDN-013).
pub const MAX_MACHINE_ACCOUNTS: usize = 20;

values::text_enum! {
    /// Status of a machine account. `Revoked` is final.
    pub enum MachineAccountStatus {
        Active,
        Revoked,
    }
}

/// A machine account, as aggregate, row and response.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = machine_account, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct MachineAccount {
    /// Client id at the token issuer, and `sub` in the account's tokens.
    pub id: UserId,
    pub company_id: CompanyId,
    pub name: MachineAccountName,
    pub status: MachineAccountStatus,
    /// Ids of the roles, sorted.
    pub role_ids: Vec<RoleId>,
    /// Time of the last request for a secret. Null before the first one.
    #[serde(with = "time::serde::rfc3339::option")]
    pub secret_requested_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    /// Value to send as `Version` of the next change.
    pub version: i64,
}

/// The roles that an update adds to an account and removes from it.
pub struct RoleChange {
    pub added: Vec<RoleId>,
    pub removed: Vec<RoleId>,
}

impl MachineAccount {
    pub fn new(
        company_id: CompanyId,
        name: MachineAccountName,
        role_ids: Vec<RoleId>,
        now: OffsetDateTime,
    ) -> Self {
        Self {
            id: UserId::generate(),
            company_id,
            name,
            status: MachineAccountStatus::Active,
            role_ids,
            secret_requested_at: None,
            created_at: now,
            updated_at: now,
            version: 1,
        }
    }

    /// Returns the sort key of lists.
    pub fn lower_name(&self) -> String {
        self.name.as_str().to_lowercase()
    }

    /// Checks that the account is Active.
    ///
    /// # Errors
    /// [`MACHINE_ACCOUNT_REVOKED`] if it is not.
    pub fn check_active(&self) -> Result<(), Code> {
        if self.status == MachineAccountStatus::Active { Ok(()) } else { Err(MACHINE_ACCOUNT_REVOKED) }
    }

    /// Compares the present roles with `wanted`, which is sorted like them.
    pub fn compare_roles(&self, wanted: &[RoleId]) -> RoleChange {
        let without = |roles: &[RoleId], others: &[RoleId]| -> Vec<RoleId> {
            roles.iter().filter(|role| !others.contains(role)).copied().collect()
        };
        RoleChange { added: without(wanted, &self.role_ids), removed: without(&self.role_ids, wanted) }
    }
}
