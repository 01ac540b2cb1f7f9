//! The ancestors of property objects, with the state that events publish.

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;

use super::{BuildingId, BuildingName, ProjectId, ProjectName};
use crate::schema::property_object;

/// The part of an object's last published event that depends on its ancestors.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = property_object, check_for_backend(Pg))]
pub struct PublishedState {
    #[diesel(column_name = published_project_name)]
    pub project_name: ProjectName,
    #[diesel(column_name = published_building_name)]
    pub building_name: BuildingName,
    #[diesel(column_name = published_is_live)]
    pub is_live: bool,
    #[diesel(column_name = published_is_public)]
    pub is_public: bool,
}

/// The developer, project and building of an object. The transaction has locked all three.
#[derive(Clone, Debug)]
pub struct Ancestors {
    pub tenant_id: CompanyId,
    pub project_id: ProjectId,
    pub project_name: ProjectName,
    pub building_id: BuildingId,
    pub building_name: BuildingName,
    /// True if none of the ancestors is deleted.
    pub is_live: bool,
    /// True if the developer and the project are Published.
    pub is_published: bool,
}

impl Ancestors {
    /// Returns the state to publish for an object that is live or removed.
    pub fn published_state(&self, is_object_live: bool) -> PublishedState {
        let is_live = self.is_live && is_object_live;
        PublishedState {
            project_name: self.project_name.clone(),
            building_name: self.building_name.clone(),
            is_live,
            is_public: is_live && self.is_published,
        }
    }
}
