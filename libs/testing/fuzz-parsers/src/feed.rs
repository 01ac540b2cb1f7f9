//! Feeds in YRL.

use std::fmt::Debug;
use std::io::{BufReader, Write};

use chessboard::parsers::{
    BuildingFacts, BuildingState, DeveloperName, FeedItem, FeedLimits, FeedOffer, FeedReader, FeedSeller,
    Finishing, ObjectFacts, ObjectKind, OfferProject, PropertyObjectId, PublicOffer, ReadError, feed_end,
    feed_start, write_offer,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use time::OffsetDateTime;
use values::{Text, Whole};

/// Limits that a small file can exceed.
const LIMITS: FeedLimits = FeedLimits {
    file_bytes: 1024 * 1024,
    ratio: 100,
    ratio_from_bytes: 64 * 1024,
    event_bytes: 128 * 1024,
    offer_bytes: 16 * 1024,
    offers: 20,
    depth: 8,
};

/// Size of the buffer of a file, in bytes. It is below the limits of a size, as in production.
const BUFFER_BYTES: usize = 1024;

/// Maximum number of names of ignored elements, and of `*` for the others, as in `chessboard`.
const MAX_IGNORED: usize = 101;

/// Maximum number of problems of an offer, as in `chessboard`.
const MAX_PROBLEMS: usize = 20;

/// Number of offers that are written and read again.
const MAX_WRITTEN_OFFERS: usize = 3;

/// Reads a file, and the same file compressed.
///
/// Both have the same offers. An accepted offer is read the same after it is written.
pub fn feed(data: &[u8]) {
    let items = read(data);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    if encoder.write_all(data).is_ok()
        && let Ok(compressed) = encoder.finish()
        && !data.starts_with(&[0x1f, 0x8b])
    {
        assert_eq!(read(&compressed), items);
    }
    for offer in items.into_iter().filter_map(|item| item.offer.ok()).take(MAX_WRITTEN_OFFERS) {
        check_written(offer);
    }
}

fn read(file: &[u8]) -> Vec<FeedItem> {
    let file = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut reader = valid(FeedReader::new(file, LIMITS));
    let mut items = Vec::new();
    loop {
        match reader.next_offer() {
            Ok(Some(item)) => {
                assert!(item.offer.as_ref().err().is_none_or(|problems| problems.len() <= MAX_PROBLEMS));
                items.push(item);
            }
            Ok(None) | Err(ReadError::Rejected(_)) => break,
            Err(ReadError::Source(error)) => panic!("{error}"),
        }
    }
    assert!(items.len() <= LIMITS.offers as usize);
    assert!(reader.ignored_elements().len() <= MAX_IGNORED);
    items
}

fn check_written(offer: FeedOffer) {
    // YRL has no category for a storage.
    if offer.kind == ObjectKind::Storage {
        return;
    }
    // XML cannot contain these characters, so the writer leaves them out.
    let is_writable = |number: &Text<1, 32>| {
        !number.as_str().contains(|c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'))
    };
    let number = offer.number.filter(is_writable).unwrap_or_else(|| valid(Text::parse("1")));
    let written = FeedOffer {
        number: Some(number.clone()),
        section: Some(offer.section.unwrap_or(Whole::literal::<1>())),
        position_on_floor: Some(offer.position_on_floor.unwrap_or(Whole::literal::<1>())),
        finishing: Some(offer.finishing.unwrap_or(Finishing::None)),
        ..offer
    };
    let public = PublicOffer {
        id: PropertyObjectId::generate(),
        facts: ObjectFacts {
            number,
            kind: written.kind,
            section: written.section.unwrap_or(Whole::literal::<1>()),
            floor: written.floor,
            position_on_floor: written.position_on_floor.unwrap_or(Whole::literal::<1>()),
            rooms: written.rooms,
            is_studio: written.is_studio,
            area_total: written.area_total,
            area_living: written.area_living,
            area_kitchen: written.area_kitchen,
            finishing: written.finishing.unwrap_or(Finishing::None),
            price: written.price,
            layout_file_id: None,
        },
        building: BuildingFacts {
            name: valid(Text::parse("1")),
            sections_count: Whole::literal::<100>(),
            floors_total: Whole::literal::<200>(),
            state: BuildingState::Planned,
            ready_year: None,
            ready_quarter: None,
        },
        project: OfferProject {
            name: valid(Text::parse("1")),
            city: valid(Text::parse("1")),
            address: valid(Text::parse("1")),
            latitude: None,
            longitude: None,
            published_at: None,
        },
        updated_at: OffsetDateTime::UNIX_EPOCH,
    };
    let seller = FeedSeller { name: valid(DeveloperName::parse("1")), phone: None, website: None };
    let mut file = feed_start(OffsetDateTime::UNIX_EPOCH).into_bytes();
    valid(write_offer(&mut file, &seller, &public));
    file.extend_from_slice(feed_end().as_bytes());
    let offers: Vec<_> = read(&file).into_iter().map(|item| item.offer).collect();
    assert_eq!(offers, [Ok(written)]);
}

/// Returns the value of a result that is never an error.
fn valid<T, E: Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error:?}"))
}
