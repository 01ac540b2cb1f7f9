//! A building of a project: what its objects stand in.

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Invalid, Text, Whole};

use super::{BuildingId, Floor, ProjectId, Section};
use crate::db::schema::building;

pub type BuildingName = Text<1, 128>;

values::text_enum! {
    /// How far a building has come.
    pub enum BuildingState {
        Planned,
        UnderConstruction,
        Commissioned,
    }
}

/// What a building is described by.
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
    /// Only with a year.
    pub ready_quarter: Option<Whole<1, 4>>,
}

/// The aggregate, which is also its row and its answer.
#[derive(Clone, Debug, Queryable, Selectable, Insertable, Serialize, ToSchema)]
#[diesel(table_name = building, check_for_backend(Pg), treat_none_as_default_value = false)]
#[serde(rename_all = "PascalCase")]
pub struct Building {
    pub id: BuildingId,
    pub project_id: ProjectId,
    pub tenant_id: CompanyId,
    #[serde(flatten)]
    #[diesel(embed)]
    pub facts: BuildingFacts,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    /// For `Version` of the next change of the building or of its grid.
    pub version: i64,
    #[serde(skip)]
    pub deleted_at: Option<OffsetDateTime>,
}

impl Building {
    pub fn new(
        tenant_id: CompanyId,
        project_id: ProjectId,
        facts: BuildingFacts,
        now: OffsetDateTime,
    ) -> Self {
        Self {
            id: BuildingId::generate(),
            project_id,
            tenant_id,
            facts,
            created_at: now,
            updated_at: now,
            version: 1,
            deleted_at: None,
        }
    }
}

impl BuildingFacts {
    /// What is wrong with something that is to stand there.
    pub fn misplaces(&self, section: Section, floor: Floor) -> Vec<(&'static str, Invalid)> {
        let beyond = |member, min, at: i64, max: i64| {
            let invalid = Invalid { code: "out_of_range", args: vec![("min", min), ("max", max)] };
            (at > max).then_some((member, invalid))
        };
        let section = beyond("Section", 1, section.get(), self.sections_count.get());
        let floor = beyond("Floor", -10, floor.get(), self.floors_total.get());
        section.into_iter().chain(floor).collect()
    }

    /// What is wrong with these facts of a building whose objects stand up to there.
    pub fn cuts_off(&self, top: Option<(Section, Floor)>) -> Vec<(&'static str, Invalid)> {
        let Some((section, floor)) = top else { return Vec::new() };
        let cut = |member, at: i64, max: i64| (at > max).then(|| (member, Invalid::new("cuts_off")));
        let section = cut("SectionsCount", section.get(), self.sections_count.get());
        let floor = cut("FloorsTotal", floor.get(), self.floors_total.get());
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
        /// Refusals 2: a building whose object stands beyond it would cut that object off, and the reverse.
        #[test]
        fn what_may_stand_there_is_not_cut_off(
            sections in 1_i64..=100, floors in 1_i64..=200, section in 1_i64..=100, floor in -10_i64..=200,
        ) {
            let (building, at) = (facts(sections, floors), (Whole::parse(section).unwrap(), Whole::parse(floor).unwrap()));
            let misplaced = building.misplaces(at.0, at.1);
            prop_assert_eq!(misplaced.is_empty(), section <= sections && floor <= floors);
            prop_assert_eq!(misplaced.len(), building.cuts_off(Some(at)).len());
        }
    }

    #[test]
    fn a_building_without_objects_cuts_nothing_off() {
        assert!(facts(1, 1).cuts_off(None).is_empty());
    }
}
