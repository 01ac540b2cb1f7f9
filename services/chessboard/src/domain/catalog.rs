//! Filter values of the catalog.

use std::str::FromStr;

use values::{Decimal, Invalid, Text, Whole};

/// A text to find in names.
pub type CatalogQuery = Text<0, 200>;
/// A number of rooms as a filter value. 0 means studios.
pub type RoomCategory = Whole<0, 20>;
/// A bound of prices in minor units.
pub type PriceBound = Whole<0, { i64::MAX }>;
/// A bound of areas in square metres.
pub type AreaBound = Decimal<2, 0, 100_000_000>;
/// A bound of floors.
pub type FloorBound = Whole<-32_768, 32_767>;

/// A rectangle of the map, edges included. It cannot cross the 180th meridian.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundingBox {
    pub south: f64,
    pub west: f64,
    pub north: f64,
    pub east: f64,
}

/// Parses `south,west,north,east` in degrees, such as `55.5,37.3,55.9,37.9`.
impl FromStr for BoundingBox {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let degrees: Result<Vec<f64>, _> = text.split(',').map(str::parse).collect();
        let &[south, west, north, east] = degrees.as_deref().unwrap_or_default() else {
            return Err(Invalid::new("invalid_type"));
        };
        let is_on_earth = [south, north].iter().all(|latitude| (-90.0..=90.0).contains(latitude))
            && [west, east].iter().all(|longitude| (-180.0..=180.0).contains(longitude));
        match is_on_earth {
            false => Err(Invalid::new("out_of_bounds")),
            true if north < south || east < west => Err(Invalid::new("empty_range")),
            true => Ok(Self { south, west, north, east }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::BoundingBox;

    proptest! {
        /// RULE-CHS-051: a box is valid if and only if its degrees are in range and in order.
        #[test]
        fn box_is_valid_if_degrees_are_in_range_and_order(
            south in -200.0..200.0_f64, west in -200.0..200.0_f64, north in -200.0..200.0_f64, east in -200.0..200.0_f64,
        ) {
            let is_valid = (-90.0..=90.0).contains(&south) && north <= 90.0 && south <= north
                && (-180.0..=180.0).contains(&west) && east <= 180.0 && west <= east;
            let parsed = format!("{south},{west},{north},{east}").parse();
            prop_assert_eq!(parsed.ok(), is_valid.then_some(BoundingBox { south, west, north, east }));
        }
    }

    /// RULE-CHS-051: a text that is not four degrees is rejected.
    #[test]
    fn malformed_box_is_rejected() {
        for text in [
            "",
            "1",
            "1,2,3",
            "1,2,3,4,5",
            "1,2,3,x",
            "1, 2,3,4",
            "NaN,1,2,3",
            "1,2,inf,3",
            "1;2;3;4",
            "1,,3,4",
        ] {
            assert!(text.parse::<BoundingBox>().is_err(), "{text}");
        }
        for text in ["1,2,1,2", "-90,-180,90,180", "1e1,0,2e1,0.5"] {
            assert!(text.parse::<BoundingBox>().is_ok(), "{text}");
        }
    }
}
