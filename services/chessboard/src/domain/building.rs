//! A building of a project.

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Invalid, Text, Whole};

use super::{BuildingId, Edited, ExternalId, Floor, ProjectId, Section};
use crate::schema::building;

pub type BuildingName = Text<1, 128>;

/// Maximum number of live buildings in a project.
pub const MAX_BUILDINGS: u32 = 200;

values::text_enum! {
    /// The progress of construction.
    pub enum BuildingState {
        Planned,
        UnderConstruction,
        Commissioned,
    }
}

/// The fields of a building that managers write.
#[derive(Clone, Debug, PartialEq, Queryable, Selectable, Insertable, AsChangeset, Serialize, ToSchema)]
#[diesel(table_name = building, check_for_backend(Pg))]
#[diesel(treat_none_as_null = true, treat_none_as_default_value = false)]
#[serde(rename_all = "PascalCase")]
pub struct BuildingFacts {
    pub name: BuildingName,
    pub sections_count: Whole<1, 100>,
    pub floors_total: Whole<1, 200>,
    pub state: BuildingState,
    pub ready_year: Option<Whole<1900, 2100>>,
    /// Only together with `ReadyYear`.
    pub ready_quarter: Option<Whole<1, 4>>,
}

/// The aggregate. It is also the database row and the HTTP response.
#[derive(Clone, Debug, Queryable, Selectable, Insertable, Serialize, ToSchema)]
#[diesel(table_name = building, check_for_backend(Pg), treat_none_as_default_value = false)]
#[serde(rename_all = "PascalCase")]
pub struct Building {
    pub id: BuildingId,
    pub project_id: ProjectId,
    pub tenant_id: CompanyId,
    /// Id in another system of the company.
    pub external_id: Option<ExternalId>,
    #[serde(flatten)]
    #[diesel(embed)]
    pub facts: BuildingFacts,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    /// The current version, for `Version` in a change of the building or of its grid.
    pub version: i64,
    #[serde(skip)]
    pub deleted_at: Option<OffsetDateTime>,
}

impl Building {
    pub fn new(
        tenant_id: CompanyId,
        project_id: ProjectId,
        fields: Edited<BuildingFacts>,
        now: OffsetDateTime,
    ) -> Self {
        Self {
            id: BuildingId::generate(),
            project_id,
            tenant_id,
            external_id: fields.external_id.apply(None),
            facts: fields.facts,
            created_at: now,
            updated_at: now,
            version: 1,
            deleted_at: None,
        }
    }

    /// Replaces the fields that managers write. Returns false if nothing changed.
    pub fn update(&mut self, fields: Edited<BuildingFacts>, now: OffsetDateTime) -> bool {
        let external_id = fields.external_id.apply(self.external_id.clone());
        if self.facts == fields.facts && self.external_id == external_id {
            return false;
        }
        (self.facts, self.external_id, self.updated_at) = (fields.facts, external_id, now);
        true
    }
}

impl BuildingFacts {
    /// Returns an error for each coordinate of an object that lies outside the building.
    pub fn placement_errors(&self, section: Section, floor: Floor) -> Vec<(&'static str, Invalid)> {
        let error = |member, min, value: i64, max: i64| {
            let invalid = Invalid { code: "out_of_range", args: vec![("min", min), ("max", max)] };
            (value > max).then_some((member, invalid))
        };
        let section = error("Section", 1, section.get(), self.sections_count.get());
        let floor = error("Floor", -10, floor.get(), self.floors_total.get());
        section.into_iter().chain(floor).collect()
    }

    /// Returns an error for each dimension that is too small for the stored objects.
    ///
    /// `extent` is the highest section and the highest floor of the live objects.
    pub fn extent_errors(&self, extent: Option<(Section, Floor)>) -> Vec<(&'static str, Invalid)> {
        let Some((section, floor)) = extent else { return Vec::new() };
        let error = |member, value: i64, max: i64| (value > max).then(|| (member, Invalid::new("cuts_off")));
        let section = error("SectionsCount", section.get(), self.sections_count.get());
        let floor = error("FloorsTotal", floor.get(), self.floors_total.get());
        section.into_iter().chain(floor).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use values::{Text, Whole};

    use super::{BuildingFacts, BuildingState};

    fn facts(sections: i64, floors: i64) -> BuildingFacts {
        BuildingFacts {
            name: Text::parse("1").unwrap(),
            sections_count: Whole::parse(sections).unwrap(),
            floors_total: Whole::parse(floors).unwrap(),
            state: BuildingState::Planned,
            ready_year: None,
            ready_quarter: None,
        }
    }

    proptest! {
        /// RULE-CHS-025: a building rejects a section or a floor if and only if it is outside the
        /// building.
        #[test]
        fn object_outside_the_building_gets_placement_error(
            sections in 1_i64..=100, floors in 1_i64..=200, section in 1_i64..=100, floor in -10_i64..=200,
        ) {
            let building = facts(sections, floors);
            let extent = (Whole::parse(section).unwrap(), Whole::parse(floor).unwrap());
            let errors = building.placement_errors(extent.0, extent.1);
            prop_assert_eq!(errors.is_empty(), section <= sections && floor <= floors);
            prop_assert_eq!(errors.len(), building.extent_errors(Some(extent)).len());
        }
    }

    /// RULE-CHS-025: a building without objects may have any size.
    #[test]
    fn building_without_objects_accepts_any_size() {
        assert!(facts(1, 1).extent_errors(None).is_empty());
    }

    /// An error has the bounds of the coordinate.
    #[test]
    fn placement_error_has_the_bounds() {
        let errors = facts(2, 9).placement_errors(Whole::parse(3).unwrap(), Whole::parse(10).unwrap());
        let bounds: Vec<_> = errors.into_iter().map(|(member, invalid)| (member, invalid.args)).collect();
        let expected = [("Section", vec![("min", 1), ("max", 2)]), ("Floor", vec![("min", -10), ("max", 9)])];
        assert_eq!(bounds, expected);
    }
}
