//! What others tell of: companies, developers and property objects.

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;
use values::{Currency, Text};

use super::PropertyObjectId;
use crate::db::schema::{company, property_object};

/// What a developer, a project, a building or an object is called.
pub type ToldName = Text<0, 512>;

values::text_enum! {
    /// Whether a company may do business.
    pub enum CompanyStatus {
        Active,
        Suspended,
        Archived,
    }
}

values::text_enum! {
    /// Whether an object is for sale, as chessboard has it.
    pub enum ObjectStatus {
        Available,
        Reserved,
        Booked,
        Sold,
        Unavailable,
        /// One that chessboard has got since.
        Other,
    }
}

impl ObjectStatus {
    /// Whether a deal may be made of an object, and it may be booked, as far as chessboard knows.
    pub const fn is_for_sale(self) -> bool {
        !matches!(self, Self::Sold | Self::Unavailable)
    }
}

/// A company of Type Developer.
#[derive(Clone, Debug, Insertable)]
#[diesel(table_name = company, check_for_backend(Pg))]
pub struct Company {
    pub id: CompanyId,
    pub status: CompanyStatus,
    pub version: i64,
}

/// A property object, and whose it is.
#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = property_object, check_for_backend(Pg))]
pub struct PropertyObject {
    pub id: PropertyObjectId,
    pub tenant_id: CompanyId,
    pub project_name: ToldName,
    pub building_name: ToldName,
    pub number: ToldName,
    /// In minor units of its currency.
    pub price: i64,
    pub currency: Currency,
    pub status: ObjectStatus,
    pub version: i64,
}
