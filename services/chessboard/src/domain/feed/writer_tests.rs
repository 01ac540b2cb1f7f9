//! Tests of the writer.

use proptest::prelude::*;
use time::OffsetDateTime;
use values::{Currency, Text, Whole};

use super::{
    FEED_FORMAT_VERSION, FeedLimits, FeedReader, FeedSeller, NAMESPACE, OfferProject, PublicOffer, feed_end,
    feed_start, write_offer,
};
use crate::domain::{
    Area, BuildingFacts, BuildingState, DeveloperName, Finishing, ObjectFacts, ObjectKind, Price,
    PropertyObjectId,
};

fn public_offer() -> impl Strategy<Value = PublicOffer> {
    let kinds = prop::sample::select(vec![
        ObjectKind::Flat,
        ObjectKind::Apartment,
        ObjectKind::Parking,
        ObjectKind::Commercial,
    ]);
    let finishings = prop::sample::select(vec![
        Finishing::None,
        Finishing::PreFinish,
        Finishing::Finished,
        Finishing::Furnished,
    ]);
    let place = (1_i64..=100, -10_i64..=200, 1_i64..=1_000);
    let sizes = (1_i64..100_000_000, any::<bool>(), proptest::option::of(1_i64..=20), any::<bool>());
    let texts = ("[0-9А-Яа-яA-Z/-]{1,32}", "К[^\\x00;,]{0,60}", "С[А-Яа-я &<>\"']{0,60}");
    (kinds, finishings, place, sizes, texts, 1_i64..=1_000_000_000_000_000).prop_map(
        |(kind, finishing, (section, floor, position), (area, has_parts, rooms, is_studio), texts, price)| {
            let (number, building, project) = texts;
            let area = Area::from_units(area).unwrap();
            let is_home = matches!(kind, ObjectKind::Flat | ObjectKind::Apartment);
            PublicOffer {
                id: PropertyObjectId::generate(),
                facts: ObjectFacts {
                    number: Text::parse(number).unwrap(),
                    kind,
                    section: Whole::parse(section).unwrap(),
                    floor: Whole::parse(floor).unwrap(),
                    position_on_floor: Whole::parse(position).unwrap(),
                    rooms: rooms.map(|rooms| Whole::parse(rooms).unwrap()),
                    is_studio: is_studio && is_home,
                    area_total: area,
                    area_living: has_parts.then_some(area),
                    area_kitchen: has_parts.then_some(area),
                    finishing,
                    price: Price { amount_minor: Whole::parse(price).unwrap(), currency: Currency::RUB },
                    layout_file_id: None,
                },
                building: BuildingFacts {
                    name: Text::parse(building).unwrap(),
                    sections_count: Whole::literal::<100>(),
                    floors_total: Whole::literal::<200>(),
                    state: BuildingState::UnderConstruction,
                    ready_year: None,
                    ready_quarter: None,
                },
                project: OfferProject {
                    name: Text::parse(project).unwrap(),
                    city: Text::parse("Казань").unwrap(),
                    address: Text::parse("ул. Мира, 1").unwrap(),
                    latitude: None,
                    longitude: None,
                    published_at: Some(OffsetDateTime::UNIX_EPOCH),
                },
                updated_at: OffsetDateTime::UNIX_EPOCH,
            }
        },
    )
}

/// RULE-CHS-079: a feed of format version 1 has this text. The entity tag contains the version.
#[test]
fn feed_of_format_version_1_has_fixed_text() {
    let offer = PublicOffer {
        id: PropertyObjectId::generate(),
        facts: ObjectFacts {
            number: Text::parse("7").unwrap(),
            kind: ObjectKind::Flat,
            section: Whole::literal::<1>(),
            floor: Whole::literal::<5>(),
            position_on_floor: Whole::literal::<3>(),
            rooms: Some(Whole::literal::<2>()),
            is_studio: false,
            area_total: Area::literal::<4_550>(),
            area_living: Some(Area::literal::<2_000>()),
            area_kitchen: Some(Area::literal::<1_000>()),
            finishing: Finishing::None,
            price: Price { amount_minor: Whole::literal::<6_500_005>(), currency: Currency::RUB },
            layout_file_id: None,
        },
        building: BuildingFacts {
            name: Text::parse("Корпус 1").unwrap(),
            sections_count: Whole::literal::<3>(),
            floors_total: Whole::literal::<10>(),
            state: BuildingState::Planned,
            ready_year: Some(Whole::literal::<2027>()),
            ready_quarter: Some(Whole::literal::<2>()),
        },
        project: OfferProject {
            name: Text::parse("Сосны").unwrap(),
            city: Text::parse("Казань").unwrap(),
            address: Text::parse("ул. Мира, 1").unwrap(),
            latitude: None,
            longitude: None,
            published_at: Some(OffsetDateTime::UNIX_EPOCH),
        },
        updated_at: OffsetDateTime::UNIX_EPOCH,
    };
    let seller =
        FeedSeller { name: DeveloperName::parse("Ромашка").unwrap(), phone: None, website: None };
    let mut file = feed_start(OffsetDateTime::UNIX_EPOCH).into_bytes();
    write_offer(&mut file, &seller, &offer).unwrap();
    file.extend_from_slice(feed_end().as_bytes());
    let expected = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<realty-feed xmlns=\"{NAMESPACE}\">\n\
         <generation-date>1970-01-01T00:00:00Z</generation-date>\n\
         <offer internal-id=\"{}\"><type>продажа</type><category>квартира</category>\
         <property-type>жилая</property-type><creation-date>1970-01-01T00:00:00Z</creation-date>\
         <last-update-date>1970-01-01T00:00:00Z</last-update-date>\
         <location><locality-name>Казань</locality-name><address>ул. Мира, 1</address>\
         <apartment>7</apartment></location>\
         <sales-agent><organization>Ромашка</organization><category>застройщик</category></sales-agent>\
         <deal-status>первичная продажа</deal-status>\
         <price><value>65000.05</value><currency>RUB</currency></price>\
         <area><value>45.50</value><unit>кв. м</unit></area>\
         <living-space><value>20.00</value><unit>кв. м</unit></living-space>\
         <kitchen-space><value>10.00</value><unit>кв. м</unit></kitchen-space>\
         <rooms>2</rooms><renovation>без отделки</renovation><new-flat>1</new-flat>\
         <section>1</section><floor>5</floor><position-on-floor>3</position-on-floor>\
         <floors-total>10</floors-total><building-name>Сосны</building-name>\
         <building-section>Корпус 1</building-section><building-state>unfinished</building-state>\
         <built-year>2027</built-year><ready-quarter>2</ready-quarter></offer>\n</realty-feed>\n",
        offer.id
    );
    let written = String::from_utf8(file).unwrap();
    assert_eq!((FEED_FORMAT_VERSION, written), (1, expected), "a changed feed needs a new version");
}

proptest! {
    /// RULE-CHS-079: the reader reads what the writer writes.
    #[test]
    fn written_offer_is_read_back(offer in public_offer()) {
        let seller = FeedSeller {
            name: DeveloperName::parse("Ромашка & Ко").unwrap(),
            phone: None,
            website: None,
        };
        let mut file = feed_start(OffsetDateTime::UNIX_EPOCH).into_bytes();
        write_offer(&mut file, &seller, &offer).unwrap();
        file.extend_from_slice(feed_end().as_bytes());
        let mut reader = FeedReader::new(&*file, FeedLimits::DEFAULT).unwrap();
        let item = reader.next_offer().unwrap().unwrap();
        let id = offer.id.to_string();
        prop_assert_eq!(item.internal_id.as_ref().unwrap().as_str(), id.as_str());
        let read = item.offer.map_err(|problems| TestCaseError::fail(format!("{problems:?}")))?;
        let facts = offer.facts;
        prop_assert_eq!(
            (read.number, read.kind, read.section, read.floor, read.position_on_floor),
            (Some(facts.number), facts.kind, Some(facts.section), facts.floor, Some(facts.position_on_floor))
        );
        prop_assert_eq!((read.rooms, read.is_studio, read.price), (facts.rooms, facts.is_studio, facts.price));
        prop_assert_eq!(
            (read.area_total, read.area_living, read.area_kitchen, read.finishing),
            (facts.area_total, facts.area_living, facts.area_kitchen, Some(facts.finishing))
        );
    }
}
