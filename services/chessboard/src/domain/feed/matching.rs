//! The building of an offer among the buildings of a developer.

use std::collections::HashMap;

use super::offer::BuildingNames;
use crate::domain::{BuildingId, ProjectId};

/// A live building with its names and those of its project.
#[derive(Clone, Debug)]
pub struct KnownBuilding {
    pub id: BuildingId,
    pub external_id: Option<String>,
    pub name: String,
    pub project_id: ProjectId,
    pub project_external_id: Option<String>,
    pub project_name: String,
}

/// The live buildings of a developer.
#[derive(Debug, Default)]
pub struct KnownBuildings {
    by_external_id: HashMap<String, BuildingId>,
    by_project: HashMap<ProjectId, Vec<KnownBuilding>>,
    projects_by_external_id: HashMap<String, ProjectId>,
    /// Several projects may have one name.
    projects_by_name: HashMap<String, Vec<ProjectId>>,
}

/// The reason why an offer has no building.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildingError {
    Unknown,
    /// Several buildings or projects have the name.
    Ambiguous,
}

impl BuildingError {
    pub fn code(self) -> &'static str {
        match self {
            Self::Unknown => "unknown_building",
            Self::Ambiguous => "ambiguous_building",
        }
    }
}

impl KnownBuildings {
    pub fn new(buildings: impl IntoIterator<Item = KnownBuilding>) -> Self {
        let mut known = Self::default();
        for building in buildings {
            if let Some(id) = &building.external_id {
                known.by_external_id.insert(id.clone(), building.id);
            }
            if let Some(id) = &building.project_external_id {
                known.projects_by_external_id.insert(id.clone(), building.project_id);
            }
            let named = known.projects_by_name.entry(plain_name(&building.project_name, PROJECT_WORDS));
            let named = named.or_default();
            if !named.contains(&building.project_id) {
                named.push(building.project_id);
            }
            known.by_project.entry(building.project_id).or_default().push(building);
        }
        known
    }

    /// Returns the building that an offer names.
    ///
    /// An external id has priority over a name. Without a section, the project must have one
    /// building.
    pub fn find(&self, names: &BuildingNames) -> Result<BuildingId, BuildingError> {
        if let Some(found) = names.house_id.as_ref().and_then(|id| self.by_external_id.get(id)) {
            return Ok(*found);
        }
        let project = self.find_project(names)?;
        let buildings = self.by_project.get(&project).map(Vec::as_slice).unwrap_or_default();
        let Some(section) = &names.section else {
            return single(buildings.iter().map(|building| building.id));
        };
        let identified = buildings.iter().find(|building| building.external_id.as_ref() == Some(section));
        if let Some(identified) = identified {
            return Ok(identified.id);
        }
        let plain = plain_name(section, BUILDING_WORDS);
        let has_name = |building: &&KnownBuilding| plain_name(&building.name, BUILDING_WORDS) == plain;
        single(buildings.iter().filter(has_name).map(|building| building.id))
    }

    fn find_project(&self, names: &BuildingNames) -> Result<ProjectId, BuildingError> {
        if let Some(found) = names.complex_id.as_ref().and_then(|id| self.projects_by_external_id.get(id)) {
            return Ok(*found);
        }
        let plain = names.complex_name.as_ref().map(|name| plain_name(name, PROJECT_WORDS));
        let projects = plain.and_then(|name| self.projects_by_name.get(&name)).map(Vec::as_slice);
        single(projects.unwrap_or_default().iter().copied())
    }
}

/// Words before the name of a project.
const PROJECT_WORDS: &[&str] = &["жилой комплекс", "жк"];

/// Words before the name of a building.
const BUILDING_WORDS: &[&str] = &["корпус", "дом", "строение", "литер"];

/// Returns the folded form of a name, without quotes and without a leading word of `words`.
fn plain_name(name: &str, words: &[&str]) -> String {
    let is_kept = |c: &char| !matches!(c, '"' | '«' | '»' | '“' | '”' | '„');
    let name: String = values::fold(name).chars().filter(is_kept).collect();
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let rest = words.iter().find_map(|word| name.strip_prefix(*word)?.strip_prefix(' '));
    rest.unwrap_or(&name).to_owned()
}

fn single<T>(mut found: impl Iterator<Item = T>) -> Result<T, BuildingError> {
    let first = found.next().ok_or(BuildingError::Unknown)?;
    if found.next().is_some() { Err(BuildingError::Ambiguous) } else { Ok(first) }
}

#[cfg(test)]
mod tests {
    use super::{BuildingError, KnownBuilding, KnownBuildings};
    use crate::domain::feed::offer::BuildingNames;
    use crate::domain::{BuildingId, ProjectId};

    fn building(project: (ProjectId, &str, &str), external_id: &str, name: &str) -> KnownBuilding {
        let id = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        KnownBuilding {
            id: BuildingId::generate(),
            external_id: id(external_id),
            name: name.to_owned(),
            project_id: project.0,
            project_external_id: id(project.1),
            project_name: project.2.to_owned(),
        }
    }

    fn names(house_id: &str, complex_id: &str, complex_name: &str, section: &str) -> BuildingNames {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        BuildingNames {
            house_id: text(house_id),
            complex_id: text(complex_id),
            complex_name: text(complex_name),
            section: text(section),
        }
    }

    /// RULE-CHS-072: an offer belongs to the building of its ids, else to that of its names.
    #[test]
    fn offer_belongs_to_building_of_its_ids_or_names() {
        let pines = (ProjectId::generate(), "12345", "Сосны");
        let firs = (ProjectId::generate(), "", "Ели");
        let (first, second) = (building(pines, "h-1", "Корпус 1"), building(pines, "", "2"));
        let only = building(firs, "", "Дом");
        let known = KnownBuildings::new([first.clone(), second.clone(), only.clone()]);
        for (named, found) in [
            (names("h-1", "", "", ""), Ok(first.id)),
            (names("h-1", "", "Ели", ""), Ok(first.id)),
            (names("h-9", "12345", "", "2"), Ok(second.id)),
            (names("", "12345", "", "h-1"), Ok(first.id)),
            (names("", "12345", "Ели", "1"), Ok(first.id)),
            (names("", "", "ЖК «Сосны»", "корпус 2"), Ok(second.id)),
            (names("", "", "сосны", "КОРПУС  1"), Ok(first.id)),
            (names("", "999", "Жилой комплекс \"Ели\"", ""), Ok(only.id)),
            (names("", "12345", "", ""), Err(BuildingError::Ambiguous)),
            (names("", "12345", "", "3"), Err(BuildingError::Unknown)),
            (names("", "", "Берёзы", "1"), Err(BuildingError::Unknown)),
            (names("", "", "", "1"), Err(BuildingError::Unknown)),
        ] {
            assert_eq!(known.find(&named), found, "{named:?}");
        }
    }

    /// RULE-CHS-072: a name of two projects or two buildings is ambiguous.
    #[test]
    fn name_of_two_projects_is_ambiguous() {
        let one = (ProjectId::generate(), "", "Сосны");
        let other = (ProjectId::generate(), "", "ЖК Сосны");
        let known = KnownBuildings::new([building(one, "", "1"), building(other, "", "1")]);
        assert_eq!(known.find(&names("", "", "Сосны", "1")), Err(BuildingError::Ambiguous));
        let known = KnownBuildings::new([building(one, "", "1"), building(one, "", "Корпус 1")]);
        assert_eq!(known.find(&names("", "", "Сосны", "1")), Err(BuildingError::Ambiguous));
    }
}
