//! Copies of companies, developers and property objects.

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;
use values::{Currency, Money, Text};

use super::PropertyObjectId;
use crate::schema::{company, property_object};

/// The name of a developer, project, building or object, as its owner publishes it.
pub type PublishedName = Text<0, 512>;

values::text_enum! {
    /// The types of companies that the rules of deals depend on.
    pub enum CompanyKind {
        Developer,
        Agency,
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

values::text_enum! {
    /// The status of an object in chessboard.
    pub enum ObjectStatus {
        Available,
        Reserved,
        Booked,
        Sold,
        Unavailable,
        /// A status that this service does not know. It blocks nothing.
        Other,
    }
}

impl ObjectStatus {
    /// Returns true if chessboard permits a deal and a booking of the object.
    pub const fn is_for_sale(self) -> bool {
        !matches!(self, Self::Sold | Self::Unavailable)
    }
}

/// A developer or an agency.
#[derive(Clone, Debug, Insertable)]
#[diesel(table_name = company, check_for_backend(Pg))]
pub struct Company {
    pub id: CompanyId,
    pub kind: CompanyKind,
    pub status: CompanyStatus,
    pub version: i64,
}

/// A property object of a developer.
#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = property_object, check_for_backend(Pg))]
pub struct PropertyObject {
    pub id: PropertyObjectId,
    pub tenant_id: CompanyId,
    pub project_name: PublishedName,
    pub building_name: PublishedName,
    pub number: PublishedName,
    /// The price in minor units of its currency.
    pub price: i64,
    pub currency: Currency,
    pub status: ObjectStatus,
    pub version: i64,
}

impl PropertyObject {
    pub const fn price(&self) -> Money {
        Money { amount_minor: self.price, currency: self.currency }
    }
}
