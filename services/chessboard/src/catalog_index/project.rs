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

impl HomeFilter {
    /// Returns whether the lowest or the highest price of some homes shows that one of them
    /// matches, and whether the homes must be compared.
    pub(super) fn compare(&self, prices: &PriceRange) -> (bool, bool) {
        let Self { price_from: from, price_to: to, ready_before } = *self;
        let PriceRange { lowest, highest } = *prices;
        let is_in_range = |price| from <= price && price <= to;
        let matches = ready_before.is_none() && (is_in_range(lowest) || is_in_range(highest));
        (matches, !matches && from <= highest && lowest <= to)
    }
}

/// The lowest and the highest of some prices.
#[derive(Clone, Copy)]
pub(super) struct PriceRange {
    pub(super) lowest: i64,
    pub(super) highest: i64,
}

impl PriceRange {
    /// The range of no prices. Its bounds do not change a minimum or a maximum.
    pub(super) const EMPTY: Self = Self { lowest: i64::MAX, highest: i64::MIN };

    pub(super) fn is_empty(self) -> bool {
        self.lowest > self.highest
    }

    /// Returns the smallest range with both ranges.
    pub(super) fn or(self, other: Self) -> Self {
        Self { lowest: self.lowest.min(other.lowest), highest: self.highest.max(other.highest) }
    }
}

/// The values of a project that orders and the filter by readiness compare, and those of its block.
#[derive(Clone, Copy)]
pub(super) struct Summary {
    /// The prices of all homes.
    pub(super) prices: PriceRange,
    /// Microseconds since 1970.
    pub(super) published_at: i64,
    /// The bits of the room categories of all homes.
    pub(super) room_bits: u32,
    pub(super) first_ready_on: i32,
    pub(super) class: ProjectClass,
}

/// An available flat or apartment.
pub(super) struct Home {
    pub(super) price: i64,
    pub(super) ready_on: i32,
    /// The bit of the room category.
    pub(super) room_bit: u32,
}

/// The homes of a project.
pub(super) struct Homes {
    /// The prices of each room category with homes.
    pub(super) category_prices: Vec<PriceRange>,
    /// By category, then by price.
    pub(super) by_category: Vec<Home>,
}

impl Homes {
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.category_prices) + size_of_val(&*self.by_category)
    }
}

/// The values of a project that few searches need.
pub(super) struct Project {
    pub(super) id: ProjectId,
    pub(super) developer_id: CompanyId,
    pub(super) place: Option<(f64, f64)>,
    /// The result of [`leading_bytes`] of the name. Comparing it needs no access to other memory.
    pub(super) name_order: (i64, i64),
    pub(super) folded_name: Box<str>,
}

impl Project {
    /// Returns a project with its summary and its homes.
    pub(super) fn new(row: ProjectRow) -> (Summary, Homes, Self) {
        let homes = row.home_rooms.iter().zip(&row.home_prices).zip(&row.home_ready_on);
        let mut homes: Vec<_> = homes
            .map(|((&rooms, &price), &ready_on)| Home { price, ready_on, room_bit: room_bit(rooms) })
            .collect();
        homes.sort_unstable_by_key(|home| (home.room_bit, home.price));
        let categories = homes.chunk_by(|left, right| left.room_bit == right.room_bit);
        let category_prices = categories.filter_map(|homes| {
            let (first, last) = (homes.first()?, homes.last()?);
            Some(PriceRange { lowest: first.price, highest: last.price })
        });
        let category_prices: Vec<_> = category_prices.collect();
        let summary = Summary {
            prices: category_prices.iter().copied().fold(PriceRange::EMPTY, PriceRange::or),
            published_at: i64::try_from(row.published_at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX),
            room_bits: homes.iter().fold(0, |bits, home| bits | home.room_bit),
            first_ready_on: row.first_ready_on,
            class: row.class,
        };
        let project = Self {
            id: row.id,
            developer_id: row.developer_id,
            place: row.latitude.zip(row.longitude),
            name_order: leading_bytes(&row.folded_name),
            folded_name: row.folded_name.into_boxed_str(),
        };
        (summary, Homes { category_prices, by_category: homes }, project)
    }
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

    use super::leading_bytes;

    proptest! {
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
