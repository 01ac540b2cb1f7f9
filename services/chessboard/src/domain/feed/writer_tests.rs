//! Tests of the writer.

use proptest::prelude::*;
use time::OffsetDateTime;
use values::{Currency, Text, Whole};

use super::{
    FeedLimits, FeedReader, FeedSeller, OfferProject, PublicOffer, feed_end, feed_start, write_offer,
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
