//! A project in memory, and the search for its homes.

use auth::CompanyId;

use crate::db::catalog_index::ProjectRow;
use crate::domain::{ProjectClass, ProjectId};

/// Room categories: 0 to 20, and 21 for homes without a number of rooms.
pub(super) const ROOM_CATEGORIES: usize = 22;

/// The filters that a home must meet.
pub(super) struct HomeFilter {
    pub(super) price_from: i64,
    /// Inclusive.
    pub(super) price_to: i64,
    pub(super) ready_before: Option<i32>,
}

/// The homes of a project that meet a filter, as far as its summary shows.
pub(super) enum MatchingHomes {
    None,
    /// The homes must be compared one by one.
    Unknown,
    All,
}

/// The values that most searches need of a project. They are next to each other in memory.
#[derive(Clone, Copy)]
pub(super) struct Summary {
    /// The lowest and the highest price of all homes.
    pub(super) prices: (i64, i64),
    /// Microseconds since 1970.
    pub(super) published_at: i64,
    /// The bits of the room categories of all homes.
    pub(super) room_bits: u32,
    pub(super) first_ready_on: i32,
    pub(super) class: ProjectClass,
}

/// An available flat or apartment.
#[derive(Clone, Copy)]
struct Home {
    price: i64,
    ready_on: i32,
    /// The bit of the room category.
    room_bit: u32,
}

/// The homes of a project in one room category.
struct Category {
    room_bit: u32,
    /// Number of the homes.
    homes: u32,
    lowest: i64,
    highest: i64,
}

/// The values of a project that few searches need.
pub(super) struct Project {
    pub(super) id: ProjectId,
    pub(super) developer_id: CompanyId,
    pub(super) place: Option<(f64, f64)>,
    /// The result of [`leading_bytes`] of the name. Comparing it needs no access to other memory.
    pub(super) name_order: (i64, i64),
    pub(super) folded_name: Box<str>,
    categories: Box<[Category]>,
    /// By category, then by price.
    homes: Box<[Home]>,
}

impl Summary {
    /// The prices of a project without homes. This range is above each price and below each price.
    pub(super) const NO_PRICES: (i64, i64) = (i64::MAX, i64::MIN);

    pub(super) fn has_prices(&self) -> bool {
        self.prices != Self::NO_PRICES
    }

    pub(super) fn matching_homes(&self, filter: &HomeFilter) -> MatchingHomes {
        let (lowest, highest) = self.prices;
        if filter.price_from > highest || filter.price_to < lowest {
            MatchingHomes::None
        } else if filter.ready_before.is_none() && filter.price_from <= lowest && highest <= filter.price_to {
            MatchingHomes::All
        } else {
            MatchingHomes::Unknown
        }
    }
}

impl Project {
    pub(super) fn new(row: ProjectRow) -> (Summary, Self) {
        let homes = row.home_rooms.iter().zip(&row.home_prices).zip(&row.home_ready_on);
        let mut homes: Box<[_]> = homes
            .map(|((&rooms, &price), &ready_on)| Home { price, ready_on, room_bit: room_bit(rooms) })
            .collect();
        homes.sort_unstable_by_key(|home| (home.room_bit, home.price));
        let categories = categories(&homes);
        let summary = Summary {
            prices: categories.iter().fold(Summary::NO_PRICES, |(lowest, highest), category| {
                (lowest.min(category.lowest), highest.max(category.highest))
            }),
            published_at: i64::try_from(row.published_at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX),
            room_bits: categories.iter().fold(0, |bits, category| bits | category.room_bit),
            first_ready_on: row.first_ready_on,
            class: row.class,
        };
        let project = Self {
            id: row.id,
            developer_id: row.developer_id,
            place: row.latitude.zip(row.longitude),
            name_order: leading_bytes(&row.folded_name),
            folded_name: row.folded_name.into_boxed_str(),
            categories,
            homes,
        };
        (summary, project)
    }

    /// Returns the bits of the room categories with a home that matches.
    pub(super) fn matching_rooms(&self, filter: &HomeFilter) -> u32 {
        // The prices of most projects are random to the processor, so this loop has no branch for them.
        let (mut matching, mut unknown) = (0, 0);
        for category in &self.categories {
            let (matches, is_unknown) = category.compare(filter);
            matching |= category.room_bit * u32::from(matches);
            unknown |= category.room_bit * u32::from(is_unknown);
        }
        if unknown == 0 {
            return matching;
        }
        let mut homes = &*self.homes;
        for category in &self.categories {
            let of_category;
            (of_category, homes) = homes.split_at(category.homes as usize);
            if category.room_bit & unknown != 0 && has_match(of_category, filter) {
                matching |= category.room_bit;
            }
        }
        matching
    }

    /// Returns the size of what the project keeps elsewhere in memory.
    pub(super) fn boxed_bytes(&self) -> usize {
        self.folded_name.len() + size_of_val(&*self.categories) + size_of_val(&*self.homes)
    }
}

impl Category {
    /// Returns whether the lowest or the highest price shows that a home matches, and whether the
    /// homes must be compared.
    fn compare(&self, filter: &HomeFilter) -> (bool, bool) {
        let HomeFilter { price_from: from, price_to: to, ready_before } = *filter;
        let is_in_range = |price| from <= price && price <= to;
        let matches = ready_before.is_none() && (is_in_range(self.lowest) || is_in_range(self.highest));
        (matches, !matches && from <= self.highest && self.lowest <= to)
    }
}

/// Returns true if one of the homes matches. They are sorted by price.
fn has_match(homes: &[Home], filter: &HomeFilter) -> bool {
    let first = homes.partition_point(|home| home.price < filter.price_from);
    let mut in_range = homes[first..].iter().take_while(|home| home.price <= filter.price_to);
    in_range.any(|home| filter.ready_before.is_none_or(|before| home.ready_on < before))
}

/// Returns the categories of homes that are sorted by category and price.
fn categories(homes: &[Home]) -> Box<[Category]> {
    let of_category = homes.chunk_by(|left, right| left.room_bit == right.room_bit);
    let categories = of_category.filter_map(|homes| {
        let (first, last) = (homes.first()?, homes.last()?);
        Some(Category {
            room_bit: first.room_bit,
            homes: u32::try_from(homes.len()).unwrap_or(u32::MAX),
            lowest: first.price,
            highest: last.price,
        })
    });
    categories.collect()
}

/// Returns the bit of a room category. -1 means a home without a number of rooms.
fn room_bit(rooms: i16) -> u32 {
    1 << usize::try_from(rooms).unwrap_or(ROOM_CATEGORIES - 1).min(ROOM_CATEGORIES - 1)
}

/// Returns the first 16 bytes of a text as numbers with the order of texts. Texts that differ
/// later, or by trailing zeros, have the same numbers.
fn leading_bytes(text: &str) -> (i64, i64) {
    let mut bytes = [[0; 8]; 2];
    for (byte, of_text) in bytes.as_flattened_mut().iter_mut().zip(text.bytes()) {
        *byte = of_text;
    }
    let [first, second] = bytes.map(|bytes| (u64::from_be_bytes(bytes) ^ 1 << 63).cast_signed());
    (first, second)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::{HomeFilter, MatchingHomes, Project, leading_bytes, room_bit};
    use crate::db::catalog_index::ProjectRow;
    use crate::domain::ProjectClass;

    proptest! {
        /// RULE-CHS-080: the search finds the same room categories as a comparison of all homes.
        #[test]
        fn rooms_of_a_project_are_those_of_its_matching_homes(
            homes in prop::collection::vec((-1..4_i16, 0..12_i64, 0..4_i32), 0..30),
            price_from in -1..13_i64,
            price_to in -1..13_i64,
            ready_before in prop::option::of(0..5_i32),
        ) {
            let (summary, project) = Project::new(
                ProjectRow {
                    id: Uuid::nil().into(),
                    developer_id: Uuid::nil().into(),
                    class: ProjectClass::Comfort,
                    city: String::new(),
                    folded_city: String::new(),
                    folded_name: String::new(),
                    latitude: None,
                    longitude: None,
                    published_at: OffsetDateTime::UNIX_EPOCH,
                    first_ready_on: 0,
                    home_rooms: homes.iter().map(|home| home.0).collect(),
                    home_prices: homes.iter().map(|home| home.1).collect(),
                    home_ready_on: homes.iter().map(|home| home.2).collect(),
                },
            );
            let expected = homes
                .iter()
                .filter(|(_, price, _)| (price_from..=price_to).contains(price))
                .filter(|(_, _, ready_on)| ready_before.is_none_or(|before| *ready_on < before))
                .fold(0, |bits, (rooms, _, _)| bits | room_bit(*rooms));
            let filter = HomeFilter { price_from, price_to, ready_before };
            prop_assert_eq!(project.matching_rooms(&filter), expected);
            match summary.matching_homes(&filter) {
                MatchingHomes::None => prop_assert_eq!(expected, 0),
                MatchingHomes::All => prop_assert_eq!(expected, summary.room_bits),
                MatchingHomes::Unknown => {}
            }
        }

        #[test]
        fn leading_bytes_have_the_order_of_texts(mut texts in prop::collection::vec("[\0a\u{7f}яё😀]{0,18}", 2..20)) {
            texts.sort_unstable();
            let numbers: Vec<_> = texts.iter().map(|text| leading_bytes(text)).collect();
            prop_assert!(numbers.is_sorted(), "{:?}", texts);
            for (texts, numbers) in texts.windows(2).zip(numbers.windows(2)) {
                let first = |text: &str| text.bytes().chain([0; 16]).take(16).collect::<Vec<_>>();
                prop_assert_eq!(first(&texts[0]) == first(&texts[1]), numbers[0] == numbers[1]);
            }
        }
    }
}
