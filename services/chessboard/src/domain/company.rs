//! The copy of a company of identity.

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;

use super::{DeveloperName, LegalName};
use crate::schema::company;

values::text_enum! {
    /// The type of a company in identity.
    pub enum CompanyType {
        Developer,
        Agency,
        Partner,
        Platform,
    }
}

values::text_enum! {
    /// The status of a company in identity.
    pub enum CompanyStatus {
        Active,
        Suspended,
        Archived,
    }
}

#[derive(Clone, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = company, check_for_backend(Pg), treat_none_as_null = true)]
pub struct Company {
    pub id: CompanyId,
    #[diesel(column_name = type_)]
    pub kind: CompanyType,
    pub status: CompanyStatus,
    pub name: DeveloperName,
    pub legal_name: Option<LegalName>,
    pub version: i64,
}

impl Company {
    /// Returns true if the company may have a developer's profile (INV-DEV-1).
    pub fn is_developer(&self) -> bool {
        self.kind == CompanyType::Developer
    }

    pub fn is_active(&self) -> bool {
        self.status == CompanyStatus::Active
    }
}
