//! The elements of an offer that the service understands.

use strum::{EnumString, IntoStaticStr};

/// An element by its path below `offer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
pub enum Element {
    #[strum(serialize = "type")]
    Type,
    #[strum(serialize = "category")]
    Category,
    #[strum(serialize = "apartments")]
    Apartments,
    #[strum(serialize = "status")]
    Status,
    #[strum(serialize = "location/apartment")]
    LocationApartment,
    #[strum(serialize = "apartment")]
    Apartment,
    #[strum(serialize = "number")]
    Number,
    #[strum(serialize = "section")]
    Section,
    #[strum(serialize = "entrance")]
    Entrance,
    #[strum(serialize = "floor")]
    Floor,
    #[strum(serialize = "floors-total")]
    FloorsTotal,
    #[strum(serialize = "position-on-floor")]
    Position,
    #[strum(serialize = "rooms")]
    Rooms,
    #[strum(serialize = "studio")]
    Studio,
    #[strum(serialize = "open-plan")]
    OpenPlan,
    #[strum(serialize = "area/value")]
    Area,
    #[strum(serialize = "area/unit")]
    AreaUnit,
    #[strum(serialize = "living-space/value")]
    LivingSpace,
    #[strum(serialize = "living-space/unit")]
    LivingSpaceUnit,
    #[strum(serialize = "kitchen-space/value")]
    KitchenSpace,
    #[strum(serialize = "kitchen-space/unit")]
    KitchenSpaceUnit,
    #[strum(serialize = "renovation")]
    Renovation,
    #[strum(serialize = "price/value")]
    Price,
    #[strum(serialize = "price/currency")]
    Currency,
    #[strum(serialize = "price/unit")]
    PriceUnit,
    #[strum(serialize = "price/period")]
    Period,
    #[strum(serialize = "yandex-house-id")]
    HouseId,
    #[strum(serialize = "yandex-building-id")]
    BuildingId,
    #[strum(serialize = "building-name")]
    BuildingName,
    #[strum(serialize = "building-section")]
    BuildingSection,
    #[strum(serialize = "built-year")]
    BuiltYear,
    #[strum(serialize = "ready-quarter")]
    ReadyQuarter,
}

impl Element {
    pub fn find(path: &str) -> Option<Self> {
        path.parse().ok()
    }

    /// Returns the path below `offer`.
    pub fn path(self) -> &'static str {
        self.into()
    }

    /// Returns true if the element names the building.
    pub fn names_building(self) -> bool {
        matches!(self, Self::HouseId | Self::BuildingId | Self::BuildingName | Self::BuildingSection)
    }
}
