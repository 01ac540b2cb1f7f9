//! The writer of a feed of public objects.

use std::io::{self, Write};

use diesel::pg::Pg;
use diesel::prelude::*;
use quick_xml::Writer;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use values::Whole;

use super::NAMESPACE;
use crate::domain::{
    Address, BuildingFacts, BuildingState, City, ContactPhone, DeveloperName, Finishing, Latitude, Longitude,
    ObjectFacts, ObjectKind, ProjectName, PropertyObjectId, Website,
};
use crate::schema::project;

/// Version of the exported format, which is part of the entity tag. Raise it with each change of
/// the written elements. Otherwise portals keep the old feed.
pub const FEED_FORMAT_VERSION: i32 = 1;

/// The developer as the seller of all offers of a feed.
#[derive(Clone, Debug)]
pub struct FeedSeller {
    pub name: DeveloperName,
    pub phone: Option<ContactPhone>,
    pub website: Option<Website>,
}

/// The project of an offer.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = project, check_for_backend(Pg))]
pub struct OfferProject {
    pub name: ProjectName,
    pub city: City,
    pub address: Address,
    pub latitude: Option<Latitude>,
    pub longitude: Option<Longitude>,
    /// The time of the first publication.
    pub published_at: Option<OffsetDateTime>,
}

/// An object as a feed shows it.
#[derive(Clone, Debug)]
pub struct PublicOffer {
    pub id: PropertyObjectId,
    pub facts: ObjectFacts,
    pub building: BuildingFacts,
    pub project: OfferProject,
    pub updated_at: OffsetDateTime,
}

/// Returns the beginning of a feed.
pub fn feed_start(now: OffsetDateTime) -> String {
    let now = time_text(now);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <realty-feed xmlns=\"{NAMESPACE}\">\n<generation-date>{now}</generation-date>\n"
    )
}

/// Returns the end of a feed.
pub fn feed_end() -> &'static str {
    "</realty-feed>\n"
}

/// Appends an offer to a feed. YRL has no category for a storage, so storages are left out.
///
/// # Errors
/// The errors of `out`.
pub fn write_offer(out: &mut impl Write, seller: &FeedSeller, offer: &PublicOffer) -> io::Result<()> {
    let facts = &offer.facts;
    let Some(category) = category(facts.kind) else { return Ok(()) };
    let mut xml = Elements(Writer::new(&mut *out));
    let id = offer.id.to_string();
    xml.write(Event::Start(BytesStart::new("offer").with_attributes([("internal-id", id.as_str())])))?;
    xml.element("type", "продажа")?;
    xml.element("category", category)?;
    match facts.kind {
        ObjectKind::Parking => xml.element("garage-type", "машиноместо")?,
        ObjectKind::Commercial => xml.element("commercial-type", "free purpose")?,
        _ => xml.element("property-type", "жилая")?,
    }
    if facts.kind == ObjectKind::Apartment {
        xml.element("apartments", "1")?;
    }
    xml.optional("creation-date", offer.project.published_at.map(time_text))?;
    xml.element("last-update-date", &time_text(offer.updated_at))?;
    xml.location(&offer.project, facts.number.as_str())?;
    xml.seller(seller)?;
    xml.element("deal-status", "первичная продажа")?;
    xml.price(facts)?;
    xml.object(facts)?;
    xml.building(&offer.project, &offer.building)?;
    xml.write(Event::End(BytesEnd::new("offer")))?;
    out.write_all(b"\n")
}

fn category(kind: ObjectKind) -> Option<&'static str> {
    match kind {
        ObjectKind::Flat | ObjectKind::Apartment => Some("квартира"),
        ObjectKind::Parking => Some("гараж"),
        ObjectKind::Commercial => Some("коммерческая"),
        ObjectKind::Storage => None,
    }
}

fn renovation(finishing: Finishing) -> &'static str {
    match finishing {
        Finishing::None => "без отделки",
        Finishing::PreFinish => "предчистовая",
        Finishing::Finished => "чистовая отделка",
        Finishing::Furnished => "с мебелью",
    }
}

/// A writer of elements.
struct Elements<W>(Writer<W>);

impl<W: Write> Elements<W> {
    fn write(&mut self, event: Event<'_>) -> io::Result<()> {
        self.0.write_event(event)
    }

    fn element(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.write(Event::Start(BytesStart::new(name)))?;
        self.write(Event::Text(BytesText::new(&xml_text(text))))?;
        self.write(Event::End(BytesEnd::new(name)))
    }

    fn optional(&mut self, name: &str, text: Option<impl ToString>) -> io::Result<()> {
        text.map_or(Ok(()), |text| self.element(name, &text.to_string()))
    }

    fn location(&mut self, project: &OfferProject, number: &str) -> io::Result<()> {
        self.write(Event::Start(BytesStart::new("location")))?;
        self.element("locality-name", project.city.as_str())?;
        self.element("address", project.address.as_str())?;
        self.optional("latitude", project.latitude.as_ref())?;
        self.optional("longitude", project.longitude.as_ref())?;
        self.element("apartment", number)?;
        self.write(Event::End(BytesEnd::new("location")))
    }

    fn seller(&mut self, seller: &FeedSeller) -> io::Result<()> {
        self.write(Event::Start(BytesStart::new("sales-agent")))?;
        self.element("organization", seller.name.as_str())?;
        self.element("category", "застройщик")?;
        self.optional("phone", seller.phone.as_ref().map(|phone| phone.expose().as_str()))?;
        self.optional("url", seller.website.as_ref().map(Website::as_str))?;
        self.write(Event::End(BytesEnd::new("sales-agent")))
    }

    fn price(&mut self, facts: &ObjectFacts) -> io::Result<()> {
        self.write(Event::Start(BytesStart::new("price")))?;
        self.element("value", &hundredths(facts.price.amount_minor.get()))?;
        self.element("currency", &facts.price.currency.to_string())?;
        self.write(Event::End(BytesEnd::new("price")))
    }

    fn area(&mut self, name: &str, units: i32) -> io::Result<()> {
        self.write(Event::Start(BytesStart::new(name)))?;
        self.element("value", &hundredths(units.into()))?;
        self.element("unit", "кв. м")?;
        self.write(Event::End(BytesEnd::new(name)))
    }

    fn object(&mut self, facts: &ObjectFacts) -> io::Result<()> {
        self.area("area", facts.area_total.units())?;
        if let Some(living) = facts.area_living {
            self.area("living-space", living.units())?;
        }
        if let Some(kitchen) = facts.area_kitchen {
            self.area("kitchen-space", kitchen.units())?;
        }
        self.optional("rooms", facts.rooms.map(Whole::get))?;
        if facts.is_studio {
            self.element("studio", "1")?;
        }
        self.element("renovation", renovation(facts.finishing))?;
        self.element("new-flat", "1")?;
        self.element("section", &facts.section.get().to_string())?;
        self.element("floor", &facts.floor.get().to_string())?;
        self.element("position-on-floor", &facts.position_on_floor.get().to_string())
    }

    fn building(&mut self, project: &OfferProject, building: &BuildingFacts) -> io::Result<()> {
        self.element("floors-total", &building.floors_total.get().to_string())?;
        self.element("building-name", project.name.as_str())?;
        self.element("building-section", building.name.as_str())?;
        let state = match building.state {
            BuildingState::Planned | BuildingState::UnderConstruction => "unfinished",
            BuildingState::Commissioned => "hand-over",
        };
        self.element("building-state", state)?;
        self.optional("built-year", building.ready_year.map(Whole::get))?;
        self.optional("ready-quarter", building.ready_quarter.map(Whole::get))
    }
}

/// Returns hundredths as a decimal number.
fn hundredths(units: i64) -> String {
    format!("{}.{:02}", units / 100, units % 100)
}

fn time_text(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).unwrap_or_default()
}

/// Removes the characters that no XML document may have.
fn xml_text(text: &str) -> String {
    let is_valid = |c: &char| match c {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => *c >= ' ',
    };
    text.chars().filter(is_valid).collect()
}
