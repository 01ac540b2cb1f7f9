//! Saved views: named queries of lists of deals.

use auth::{CompanyId, Reach, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Private, Prose, Text};

use super::SavedViewId;
use crate::schema::saved_view;

/// The maximum number of views of one user on platform routes. The same maximum applies to each
/// company of the user on company routes.
pub const MAX_SAVED_VIEWS: i64 = 50;

/// The name of a view. A person wrote it, so logs never show it.
pub type ViewName = Private<Prose<1, 100>>;

/// The query of a list. It may contain names and numbers, so logs never show it.
pub type ViewQuery = Private<Text<0, 2000>>;

/// The owner of views in one route family.
#[derive(Clone, Copy, Debug)]
pub struct ViewOwner {
    pub user_id: UserId,
    pub reach: Reach,
}

impl ViewOwner {
    /// Returns the company whose deals the views list. `None` means the deals of all companies.
    pub const fn company_id(self) -> Option<CompanyId> {
        match self.reach {
            Reach::Platform => None,
            Reach::Company(company) => Some(company),
        }
    }
}

/// The part of a view that its owner writes.
#[derive(Clone, Debug)]
pub struct ViewContent {
    pub name: ViewName,
    pub query: ViewQuery,
}

/// A view as its owner reads it.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = saved_view, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct SavedView {
    pub id: SavedViewId,
    pub name: ViewName,
    /// Query of a list of deals, without the page.
    #[schema(value_type = String, max_length = 2000, examples("Statuses=Sale&Sort=-UpdatedAt"))]
    pub query: ViewQuery,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

#[cfg(test)]
mod tests {
    use auth::{CompanyId, Reach, UserId};

    use super::ViewOwner;

    /// The views of a company's employee list the deals of the company.
    #[test]
    fn view_of_a_company_lists_its_deals() {
        let (user_id, company) = (UserId::generate(), CompanyId::generate());
        let company_of = |reach| ViewOwner { user_id, reach }.company_id();
        assert_eq!(company_of(Reach::Company(company)), Some(company));
        assert_eq!(company_of(Reach::Platform), None);
    }
}
