//! An offer with typed values, or the problems for which it is rejected.

use serde::{Deserialize, Serialize};
use values::{Currency, Invalid, Whole};

use super::element::Element;
use super::number::{LoneSeparator, NumberError, parse_hundredths, parse_integer};
use super::words::{self, RoomsWord};
use crate::domain::{
    Area, ExternalId, Finishing, Floor, ObjectKind, ObjectNumber, Position, Price, Rooms, Section,
};

/// An offer of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedItem {
    pub line: u64,
    pub internal_id: Option<ExternalId>,
    pub building: BuildingNames,
    pub offer: ReadOffer,
}

pub type ReadOffer = Result<FeedOffer, Vec<OfferProblem>>;

/// The elements of an offer that name its building.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildingNames {
    /// `yandex-house-id`
    pub house_id: Option<String>,
    /// `yandex-building-id`, which names the residential complex.
    pub complex_id: Option<String>,
    /// `building-name`, the name of the residential complex.
    pub complex_name: Option<String>,
    /// `building-section`, the name of the building in the complex.
    pub section: Option<String>,
}

/// Longest value that a problem repeats, in characters.
const MAX_REPORTED_CHARS: usize = 64;

/// Maximum number of problems that an offer keeps. One problem already rejects it.
const MAX_OFFER_PROBLEMS: usize = 20;

/// The reason why an offer is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferProblem {
    pub line: u64,
    /// The path of the element below `offer`, the attribute `internal-id`, or `offer` itself.
    pub element: &'static str,
    pub code: &'static str,
    /// The value as the file has it, shortened.
    pub value: Option<String>,
}

/// The values of an offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeedOffer {
    pub number: Option<ObjectNumber>,
    pub kind: ObjectKind,
    pub section: Option<Section>,
    pub floor: Floor,
    pub position_on_floor: Option<Position>,
    pub rooms: Option<Rooms>,
    pub is_studio: bool,
    pub area_total: Area,
    pub area_living: Option<Area>,
    pub area_kitchen: Option<Area>,
    pub finishing: Option<Finishing>,
    pub price: Price,
}

/// The texts of an offer's elements.
pub(super) struct Values {
    pub line: u64,
    pub internal_id: Option<ExternalId>,
    values: Vec<(Element, u64, String)>,
    problems: Vec<OfferProblem>,
}

impl Values {
    pub fn new(line: u64, id: Option<String>) -> Self {
        let mut new = Self { line, internal_id: None, values: Vec::new(), problems: Vec::new() };
        let id = id.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
        match id.as_deref().map(ExternalId::parse) {
            Some(Ok(parsed)) => new.internal_id = Some(parsed),
            Some(Err(Invalid { code, .. })) => new.reject(line, "internal-id", code, id.as_deref()),
            None => new.reject(line, "internal-id", "required", None),
        }
        new
    }

    /// Adds a problem. Problems beyond [`MAX_OFFER_PROBLEMS`] are dropped.
    pub fn reject(&mut self, line: u64, element: &'static str, code: &'static str, value: Option<&str>) {
        if self.problems.len() == MAX_OFFER_PROBLEMS {
            return;
        }
        let value = value.map(shorten).filter(|value| !value.is_empty());
        self.problems.push(OfferProblem { line, element, code, value });
    }

    /// Adds the text of an element. An empty element is the same as a missing one.
    pub fn add(&mut self, element: Element, line: u64, text: &str) {
        if text.is_empty() {
            return;
        }
        let Some((.., first)) = self.values.iter().find(|(known, ..)| *known == element) else {
            self.values.push((element, line, text.to_owned()));
            return;
        };
        if first != text {
            let code = if element.names_building() { "several_buildings" } else { "repeated_element" };
            self.reject(line, element.path(), code, Some(text));
        }
    }

    pub fn into_item(mut self) -> FeedItem {
        let building = self.building();
        let offer = self.read();
        self.problems.sort_by_key(|problem| problem.line);
        let offer = match offer {
            Some(offer) if self.problems.is_empty() => Ok(offer),
            _ => Err(self.problems),
        };
        FeedItem { line: self.line, internal_id: self.internal_id, building, offer }
    }

    fn get(&self, element: Element) -> Option<(u64, String)> {
        let found = self.values.iter().find(|(known, ..)| *known == element);
        found.map(|(_, line, text)| (*line, text.clone()))
    }

    fn text(&self, element: Element) -> Option<String> {
        self.get(element).map(|(_, text)| text)
    }

    /// Parses an element. A value that does not parse rejects the offer.
    fn parse<T>(&mut self, element: Element, parse: impl Fn(&str) -> Result<T, &'static str>) -> Option<T> {
        let (line, text) = self.get(element)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(code) => {
                self.reject(line, element.path(), code, Some(&text));
                None
            }
        }
    }

    fn require<T>(&mut self, element: Element, value: Option<T>) -> Option<T> {
        if value.is_none() && self.get(element).is_none() {
            self.reject(self.line, element.path(), "required", None);
        }
        value
    }

    fn whole<const MIN: i64, const MAX: i64>(&mut self, element: Element) -> Option<Whole<MIN, MAX>> {
        self.parse(element, |text| {
            let number = parse_integer(text).map_err(NumberError::code)?;
            Whole::parse(number).map_err(|invalid| invalid.code)
        })
    }

    fn flag(&mut self, element: Element) -> bool {
        self.parse(element, |text| words::flag(text).ok_or("invalid_flag")).unwrap_or_default()
    }

    /// Reads all elements, so that one pass finds every problem.
    fn read(&mut self) -> Option<FeedOffer> {
        let sale =
            self.parse(Element::Type, |text| words::is_sale_type(text).then_some(()).ok_or("not_for_sale"));
        let sale = self.require(Element::Type, sale);
        // Only a rent has a period.
        self.parse(Element::Period, |_| Err::<(), _>("not_for_sale"));
        self.parse(Element::Status, |text| {
            words::is_available_status(text).then_some(()).ok_or("not_for_sale")
        });
        let kind = self.kind();
        let number = self.number();
        let (section, position_on_floor) = (self.section(), self.whole(Element::Position));
        let floor = self.floor();
        let (rooms, is_studio) = self.rooms(kind);
        let area_total = self.area(Element::Area, Element::AreaUnit);
        let area_total = self.require(Element::Area, area_total);
        let area_living = self.part(Element::LivingSpace, Element::LivingSpaceUnit, area_total);
        let area_kitchen = self.part(Element::KitchenSpace, Element::KitchenSpaceUnit, area_total);
        let finishing =
            self.parse(Element::Renovation, |text| words::finishing(text).ok_or("unknown_renovation"));
        let price = self.price();
        self.check_readiness();
        sale?;
        Some(FeedOffer {
            number,
            kind: kind?,
            section,
            floor: floor?,
            position_on_floor,
            rooms,
            is_studio,
            area_total: area_total?,
            area_living,
            area_kitchen,
            finishing,
            price: price?,
        })
    }

    fn kind(&mut self) -> Option<ObjectKind> {
        let kind = self.parse(Element::Category, |text| words::kind(text).ok_or("unsupported_category"));
        let kind = self.require(Element::Category, kind);
        let is_apartment = self.flag(Element::Apartments);
        if is_apartment && kind == Some(ObjectKind::Flat) { Some(ObjectKind::Apartment) } else { kind }
    }

    fn number(&mut self) -> Option<ObjectNumber> {
        let elements = [Element::LocationApartment, Element::Apartment, Element::Number];
        let element = elements.into_iter().find(|element| self.get(*element).is_some())?;
        self.parse(element, |text| ObjectNumber::parse(text).map_err(|invalid| invalid.code))
    }

    fn section(&mut self) -> Option<Section> {
        let elements = [Element::Section, Element::Entrance];
        let element = elements.into_iter().find(|element| self.get(*element).is_some())?;
        self.parse(element, |text| {
            let number = words::section(text).ok_or("invalid_number")?;
            Section::parse(number).map_err(|invalid| invalid.code)
        })
    }

    fn floor(&mut self) -> Option<Floor> {
        let floor = self.whole(Element::Floor);
        let floor: Floor = self.require(Element::Floor, floor)?;
        let total: Option<Whole<1, 200>> = self.whole(Element::FloorsTotal);
        if total.is_some_and(|total| floor.get() > total.get()) {
            let (line, text) = self.get(Element::Floor)?;
            self.reject(line, Element::Floor.path(), "floor_above_total", Some(&text));
        }
        Some(floor)
    }

    fn rooms(&mut self, kind: Option<ObjectKind>) -> (Option<Rooms>, bool) {
        let is_flagged = self.flag(Element::Studio);
        // The value is not imported, but an invalid one rejects the offer.
        self.flag(Element::OpenPlan);
        let word = self.parse(Element::Rooms, |text| {
            let word = words::rooms(text).ok_or("invalid_rooms")?;
            if let RoomsWord::Number(number) = word {
                Rooms::parse(number).map_err(|invalid| invalid.code)?;
            }
            Ok(word)
        });
        let is_studio = is_flagged || word == Some(RoomsWord::Studio);
        let is_home = kind.is_none_or(|kind| matches!(kind, ObjectKind::Flat | ObjectKind::Apartment));
        if is_studio && !is_home {
            let element = if is_flagged { Element::Studio } else { Element::Rooms };
            let (line, text) = self.get(element).unwrap_or_default();
            self.reject(line, element.path(), "not_a_home", Some(&text));
        }
        let rooms = match word {
            Some(RoomsWord::Number(number)) => Rooms::parse(number).ok(),
            _ => None,
        };
        (rooms, is_studio)
    }

    fn area(&mut self, value: Element, unit: Element) -> Option<Area> {
        self.parse(unit, |text| words::is_square_metre(text).then_some(()).ok_or("unsupported_unit"));
        self.parse(value, |text| {
            let units = parse_hundredths(text, LoneSeparator::Decimal).map_err(NumberError::code)?;
            Area::from_units(units).map_err(|invalid| invalid.code)
        })
    }

    /// Reads a part of the whole area. Zero is the same as a missing part.
    fn part(&mut self, value: Element, unit: Element, total: Option<Area>) -> Option<Area> {
        let (line, text) = self.get(value)?;
        if parse_hundredths(&text, LoneSeparator::Decimal) == Ok(0) {
            return None;
        }
        let part = self.area(value, unit)?;
        if total.is_some_and(|total| part > total) {
            self.reject(line, value.path(), "out_of_bounds", Some(&text));
        }
        Some(part)
    }

    fn price(&mut self) -> Option<Price> {
        self.parse(Element::PriceUnit, |text| {
            if words::is_square_metre(text) {
                return Err("price_per_metre");
            }
            words::is_whole_object(text).then_some(()).ok_or("unsupported_unit")
        });
        let amount = self.parse(Element::Price, |text| {
            let units = parse_hundredths(text, LoneSeparator::Ambiguous).map_err(NumberError::code)?;
            Whole::parse(units).map_err(|invalid| invalid.code)
        });
        let amount_minor = self.require(Element::Price, amount);
        let currency = self.parse(Element::Currency, |text| {
            words::currency(text).parse::<Currency>().map_err(|_| "unsupported_currency")
        });
        let currency = self.require(Element::Currency, currency);
        Some(Price { amount_minor: amount_minor?, currency: currency? })
    }

    /// Checks the time of completion, which belongs to the building and is not imported.
    fn check_readiness(&mut self) {
        let _: Option<Whole<1900, 2100>> = self.whole(Element::BuiltYear);
        let _: Option<Whole<1, 4>> = self.whole(Element::ReadyQuarter);
    }

    fn building(&mut self) -> BuildingNames {
        for element in [Element::HouseId, Element::BuildingId, Element::BuildingSection] {
            self.parse(
                element,
                |text| {
                    if words::lists_several(text) { Err("several_buildings") } else { Ok(()) }
                },
            );
        }
        BuildingNames {
            house_id: self.text(Element::HouseId),
            complex_id: self.text(Element::BuildingId),
            complex_name: self.text(Element::BuildingName),
            section: self.text(Element::BuildingSection),
        }
    }
}

/// Returns the beginning of a value on one line, without control characters.
fn shorten(value: &str) -> String {
    let printable = value.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = printable.take(MAX_REPORTED_CHARS).collect();
    if value.chars().count() > MAX_REPORTED_CHARS {
        short.push('…');
    }
    short.trim().to_owned()
}
