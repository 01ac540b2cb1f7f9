//! A company, as identity tells of it.

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;

use super::{DeveloperName, LegalName};
use crate::db::schema::company;

values::text_enum! {
    /// What kind of company it is.
    pub enum CompanyType {
        Developer,
        Agency,
        Partner,
        Platform,
    }
}

values::text_enum! {
    /// Whether it may do business.
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
    /// INV-DEV-1
    pub fn is_developer(&self) -> bool {
        self.kind == CompanyType::Developer
    }

    pub fn is_active(&self) -> bool {
        self.status == CompanyStatus::Active
    }
}
