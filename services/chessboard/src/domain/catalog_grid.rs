//! The chessboard: the objects of a building by section and floor.

use serde::Serialize;
use utoipa::ToSchema;

/// An object with its position in the building.
pub trait GridItem {
    fn section(&self) -> i64;
    fn floor(&self) -> i64;
}

/// A section with objects.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct GridSection<T> {
    pub section: i64,
    /// Floors with objects, descending.
    pub floors: Vec<GridFloor<T>>,
}

/// A floor of a section with objects.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct GridFloor<T> {
    pub floor: i64,
    /// Objects by position, then by number.
    pub objects: Vec<T>,
}

/// Groups objects by section and floor.
///
/// `objects` are sorted by section ascending, by floor descending, then by position and number.
pub fn build_grid<T: GridItem>(objects: Vec<T>) -> Vec<GridSection<T>> {
    let mut sections: Vec<GridSection<T>> = Vec::new();
    for object in objects {
        let (number, level) = (object.section(), object.floor());
        let mut section = match sections.pop() {
            Some(section) if section.section == number => section,
            other => {
                sections.extend(other);
                GridSection { section: number, floors: Vec::new() }
            }
        };
        match section.floors.last_mut() {
            Some(floor) if floor.floor == level => floor.objects.push(object),
            _ => section.floors.push(GridFloor { floor: level, objects: vec![object] }),
        }
        sections.push(section);
    }
    sections
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::{GridItem, build_grid};

    impl GridItem for (i64, i64, i64) {
        fn section(&self) -> i64 {
            self.0
        }

        fn floor(&self) -> i64 {
            self.1
        }
    }

    proptest! {
        /// RULE-CHS-044: a grid has each section and each floor with objects once and in order. It
        /// contains every object.
        #[test]
        fn grid_contains_each_section_and_floor_once(mut objects in prop::collection::vec((1..4_i64, -2..3_i64, 1..9_i64), 0..40)) {
            objects.sort_by_key(|&(section, floor, position)| (section, Reverse(floor), position));
            let grid = build_grid(objects.clone());
            prop_assert!(grid.is_sorted_by(|one, next| one.section < next.section));
            for section in &grid {
                prop_assert!(section.floors.is_sorted_by(|one, next| one.floor > next.floor));
                for floor in &section.floors {
                    prop_assert!(!floor.objects.is_empty());
                    prop_assert!(floor.objects.iter().all(|object| (object.0, object.1) == (section.section, floor.floor)));
                }
            }
            let all: Vec<_> = grid.into_iter().flat_map(|section| section.floors).flat_map(|floor| floor.objects).collect();
            prop_assert_eq!(all, objects);
        }
    }
}
