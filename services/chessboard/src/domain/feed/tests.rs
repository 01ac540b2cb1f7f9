//! Tests of the reader.

use std::fmt::Write as _;
use std::io::{self, BufReader, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use values::{Currency, Whole};

use super::offer::BuildingNames;
use super::{FeedItem, FeedLimits, FeedReader, FileRefusal, ReadError};
use crate::domain::{Area, Finishing, ObjectKind};

const COMPLEX: &str = include_str!("../../../tests/data/feeds/complex.yrl");
const REJECTED: &str = include_str!("../../../tests/data/feeds/rejected.yrl");

/// Small limits, so that small files exceed them.
const LIMITS: FeedLimits = FeedLimits {
    file_bytes: 16 * 1024 * 1024,
    ratio: 100,
    ratio_from_bytes: 64 * 1024,
    event_bytes: 128 * 1024,
    offer_bytes: 256 * 1024,
    offers: 3,
    depth: 5,
};

fn read(file: &[u8]) -> Result<Vec<FeedItem>, FileRefusal> {
    // The buffer is smaller than each limit, as in production.
    let mut reader = FeedReader::new(BufReader::new(file), LIMITS).unwrap();
    let mut items = Vec::new();
    loop {
        match reader.next_offer() {
            Ok(Some(item)) => items.push(item),
            Ok(None) => return Ok(items),
            Err(ReadError::Rejected(refusal)) => return Err(refusal),
            Err(ReadError::Source(error)) => panic!("{error}"),
        }
    }
}

fn rejection_code(file: &[u8]) -> &'static str {
    read(file).unwrap_err().code
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn feed(offers: &str) -> String {
    format!("<realty-feed>{offers}</realty-feed>")
}

/// RULE-CHS-071: a file of a sales department is read with its units, commas and notations.
#[test]
fn file_of_developer_is_read_in_its_notations() {
    let items = read(COMPLEX.as_bytes()).unwrap();
    let offers: Vec<_> = items.iter().map(|item| item.offer.clone().unwrap()).collect();
    let lines: Vec<_> = items.iter().map(|item| item.line).collect();
    assert_eq!(lines, [5, 36, 49]);
    let ids: Vec<_> = items.iter().map(|item| item.internal_id.as_ref().unwrap().as_str()).collect();
    assert_eq!(ids, ["А-101", "А-102", "А-103"]);
    let [flat, studio, apartment] = &offers[..] else { panic!("{offers:?}") };
    assert_eq!(flat.number.as_ref().unwrap().as_str(), "101");
    assert_eq!((flat.kind, flat.floor.get(), flat.is_studio), (ObjectKind::Flat, 5, false));
    assert_eq!((flat.area_total.units(), flat.area_living.map(Area::units)), (4_510, Some(2_055)));
    assert_eq!((flat.area_kitchen, flat.rooms.map(Whole::get)), (None, Some(2)));
    assert_eq!((flat.price.amount_minor.get(), flat.price.currency), (650_000_000, Currency::RUB));
    assert_eq!(flat.finishing, Some(Finishing::Finished));
    assert_eq!((studio.is_studio, studio.rooms, studio.area_total.units()), (true, None, 2_480));
    assert_eq!((studio.price.amount_minor.get(), studio.finishing), (395_000_050, None));
    assert_eq!((apartment.kind, apartment.rooms.map(Whole::get)), (ObjectKind::Apartment, Some(4)));
    assert_eq!(
        (
            apartment.section.map(Whole::get),
            apartment.position_on_floor.map(Whole::get),
            apartment.floor.get()
        ),
        (Some(2), Some(4), -1)
    );
}

/// RULE-CHS-072: an offer names its building and its residential complex.
#[test]
fn offer_names_building_and_complex() {
    let items = read(COMPLEX.as_bytes()).unwrap();
    let names = |id: Option<&str>, name: Option<&str>, section: Option<&str>| BuildingNames {
        house_id: None,
        complex_id: id.map(str::to_owned),
        complex_name: name.map(str::to_owned),
        section: section.map(str::to_owned),
    };
    assert_eq!(items[0].building, names(Some("12345"), Some("ЖК «Сосны»"), Some("Корпус 1")));
    assert_eq!(items[1].building, names(Some("12345"), None, Some("Корпус 1")));
    assert_eq!(items[2].building, names(None, Some("Сосны & ели"), None));
}

/// RULE-CHS-071: a rejected offer has all its problems, each with its line and its element.
#[test]
fn rejected_offer_has_all_problems_with_lines() {
    let items = read(REJECTED.as_bytes()).unwrap();
    let problems = |item: &FeedItem| {
        let problems = item.offer.clone().unwrap_err();
        problems
            .into_iter()
            .map(|problem| {
                let value = problem.value.unwrap_or_default();
                format!("{} {} {} {value}", problem.line, problem.element, problem.code).trim().to_owned()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        problems(&items[0]),
        [
            "3 type not_for_sale аренда",
            "4 category unsupported_category комната",
            "6 price/value ambiguous_number 6,500",
            "7 price/currency unsupported_currency ЁЁЁ",
            "8 price/unit price_per_metre кв. м",
            "12 area/unit unsupported_unit га",
            "14 rooms invalid_rooms много",
            "15 floor floor_above_total 12",
            "17 renovation unknown_renovation хорошее",
        ]
    );
    assert_eq!(
        problems(&items[1]),
        [
            "19 internal-id required",
            "22 studio not_a_home 1",
            "24 area/value too_precise 13.255",
            "26 floor invalid_number цоколь",
            "27 yandex-building-id several_buildings 12, 13",
            "29 building-name several_buildings Ели",
            "30 ready-quarter out_of_range 5",
            "31 status not_for_sale SOLD",
        ]
    );
    assert!(problems(&items[2]).contains(&"33 internal-id duplicate_id 2".to_owned()));
    assert!(problems(&items[2]).contains(&"33 price/value required".to_owned()));
}

/// RULE-CHS-071: elements that are not understood are counted by their names.
#[test]
fn ignored_elements_are_counted() {
    let mut reader = FeedReader::new(COMPLEX.as_bytes(), LIMITS).unwrap();
    while reader.next_offer().unwrap().is_some() {}
    let count = |name: &str| reader.ignored_elements().get(name).copied();
    assert_eq!(
        (count("sales-agent"), count("location/country"), count("description")),
        (Some(1), Some(1), Some(1))
    );
    assert_eq!((count("sales-agent/phone"), count("rooms"), count("location")), (None, None, None));
}

/// RULE-CHS-070: a file with a DTD or an entity of its own is rejected.
#[test]
fn file_with_dtd_or_entity_is_rejected() {
    let bomb = "<!DOCTYPE realty-feed [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]>";
    let external = "<!DOCTYPE realty-feed SYSTEM \"file:///etc/passwd\">";
    for prolog in [bomb, external, "<!DOCTYPE realty-feed>"] {
        assert_eq!(rejection_code(format!("{prolog}{}", feed("")).as_bytes()), "dtd_forbidden");
    }
    assert_eq!(rejection_code(feed("<offer><rooms>&b;</rooms></offer>").as_bytes()), "entity_forbidden");
    assert_eq!(rejection_code(feed("<offer internal-id=\"&b;\"/>").as_bytes()), "entity_forbidden");
    assert_eq!(
        read(feed("<offer internal-id=\"&#65;&#49;\"/>").as_bytes()).unwrap()[0]
            .internal_id
            .as_ref()
            .unwrap()
            .as_str(),
        "A1"
    );
}

/// RULE-CHS-070: a file that is not YRL, not whole or in another encoding is rejected.
#[test]
fn file_that_is_not_whole_yrl_is_rejected() {
    for (file, code) in [
        ("", "not_xml"),
        ("Привет", "not_xml"),
        ("<realty-feed><offer></realty-feed>", "not_xml"),
        ("<realty-feed><offer internal-id=1/></realty-feed>", "not_xml"),
        ("<realty-feed></realty-feed><realty-feed/>", "not_yrl"),
        ("<realty-feed><offer internal-id=\"1\">", "truncated"),
        ("<yml_catalog/>", "not_yrl"),
        ("<realty-feed xmlns=\"http://example.org\"/>", "not_yrl"),
        ("<?xml version=\"1.0\" encoding=\"windows-1251\"?><realty-feed/>", "encoding_unsupported"),
        ("<realty-feed><a><b><c><d><e/></d></c></b></a></realty-feed>", "too_deep"),
    ] {
        assert_eq!(rejection_code(file.as_bytes()), code, "{file}");
    }
    assert_eq!(
        rejection_code(b"<realty-feed><offer><rooms>\xff</rooms></offer></realty-feed>"),
        "encoding_unsupported"
    );
    assert!(
        read(
            "<y:realty-feed xmlns:y=\"http://webmaster.yandex.ru/schemas/feed/realty/2010-06\"/>".as_bytes()
        )
        .is_ok()
    );
    assert!(read("\u{feff}<realty-feed/>\n".as_bytes()).is_ok());
}

/// RULE-CHS-070: a file or an offer above a limit is rejected. A file at the limit is read.
#[test]
fn file_above_limit_is_rejected() {
    let offers = |count: usize| feed(&"<offer/>".repeat(count));
    assert_eq!(read(offers(3).as_bytes()).unwrap().len(), 3);
    assert_eq!(rejection_code(offers(4).as_bytes()), "too_many_offers");
    let text = |bytes: usize| feed(&format!("<offer><rooms>{}</rooms></offer>", "1".repeat(bytes)));
    let problems = read(text(2_000).as_bytes()).unwrap()[0].offer.clone().unwrap_err();
    assert!(problems.iter().any(|problem| problem.code == "text_too_long" && problem.element == "rooms"));
    assert_eq!(rejection_code(text(300 * 1024).as_bytes()), "text_too_long");
    assert_eq!(
        rejection_code(format!("<!--{}--><realty-feed/>", "x".repeat(300 * 1024)).as_bytes()),
        "text_too_long"
    );
    let large = feed(&format!("<offer>{}</offer>", "<image>x</image>".repeat(20_000)));
    let problems = read(large.as_bytes()).unwrap()[0].offer.clone().unwrap_err();
    assert!(problems.iter().any(|problem| problem.code == "offer_too_large"));
}

/// RULE-CHS-071: an offer has at most 20 problems, however many elements it repeats.
#[test]
fn offer_with_100_000_repeated_elements_has_20_problems() {
    let mut repeated = String::new();
    for rooms in 0..100_000 {
        write!(repeated, "<rooms>{rooms}</rooms>").unwrap();
    }
    let file = feed(&format!("<offer internal-id=\"1\">{repeated}</offer>"));
    let items = read(file.as_bytes()).unwrap();
    let problems = items[0].offer.as_ref().unwrap_err();
    assert_eq!(problems.len(), 20);
    assert!(problems.iter().all(|problem| problem.code == "repeated_element"), "{problems:?}");
}

/// RULE-CHS-070: an element beyond the size of an offer is not read.
#[test]
fn element_beyond_size_of_offer_is_not_read() {
    let file = |bytes: usize| {
        let text = "x".repeat(bytes);
        feed(&format!("<offer><description>{text}</description><rooms>много</rooms></offer>"))
    };
    let limits = FeedLimits { offer_bytes: 1_000, ..LIMITS };
    let codes = |file: String| {
        let mut reader = FeedReader::new(file.as_bytes(), limits).unwrap();
        let problems = reader.next_offer().unwrap().unwrap().offer.unwrap_err();
        problems.iter().map(|problem| problem.code).collect::<Vec<_>>()
    };
    let (small, large) = (codes(file(100)), codes(file(2_000)));
    assert!(small.contains(&"invalid_rooms") && !small.contains(&"offer_too_large"), "{small:?}");
    assert!(large.contains(&"offer_too_large") && !large.contains(&"invalid_rooms"), "{large:?}");
}

/// RULE-CHS-070: a compressed file is read, and a damaged one or a bomb is rejected.
#[test]
fn compressed_file_is_read_and_bomb_is_rejected() {
    assert_eq!(read(&gzip(COMPLEX.as_bytes())).unwrap(), read(COMPLEX.as_bytes()).unwrap());
    let two_parts = [gzip(&COMPLEX.as_bytes()[..700]), gzip(&COMPLEX.as_bytes()[700..])].concat();
    assert_eq!(read(&two_parts).unwrap().len(), 3);
    let whole = gzip(COMPLEX.as_bytes());
    assert_eq!(rejection_code(&whole[..whole.len() / 2]), "damaged");
    let bomb = feed(&format!("<offer>{}</offer>", "<a>x</a>".repeat(1_000_000)));
    assert_eq!(rejection_code(&gzip(bomb.as_bytes())), "compressed_too_much");
    let nested = gzip(&gzip(COMPLEX.as_bytes()));
    assert!(read(&nested).is_err());
}

/// RULE-CHS-070: a file above the decompressed size is rejected.
#[test]
fn file_above_decompressed_size_is_rejected() {
    let limits = FeedLimits { file_bytes: 1_000, ..LIMITS };
    let file = feed(&"<a/>".repeat(300));
    let mut reader = FeedReader::new(file.as_bytes(), limits).unwrap();
    let Err(ReadError::Rejected(refusal)) = reader.next_offer() else { panic!("the file was read") };
    assert_eq!(refusal.code, "file_too_large");
}

/// RULE-CHS-070: a failure of the storage does not reject the file.
#[test]
fn storage_failure_does_not_reject_file() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the database is down"))
        }
    }
    let file = BufReader::new(io::Cursor::new("<realty-feed>").chain(Failing));
    let mut reader = FeedReader::new(file, LIMITS).unwrap();
    assert!(matches!(reader.next_offer(), Err(ReadError::Source(_))));
}

/// Writes the offers of a large file while it is read.
struct Generated {
    /// 0 for the start of the file, then the ids of the offers, then the end.
    next: u32,
    offers: u32,
    rest: Vec<u8>,
}

impl Read for Generated {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && self.next <= self.offers + 1 {
            self.rest = match self.next {
                0 => b"<realty-feed>\n".to_vec(),
                end if end > self.offers => b"</realty-feed>\n".to_vec(),
                id => format!(
                    "<offer internal-id=\"{id}\"><type>продажа</type><category>квартира</category>\
                     <location><apartment>{id}</apartment></location>\
                     <price><value>{}</value><currency>RUB</currency></price>\
                     <area><value>45,5</value><unit>кв.м</unit></area><floor>2</floor>\
                     <description>{}</description></offer>\n",
                    id + 1_000_000,
                    "Квартира у леса. ".repeat(40)
                )
                .into_bytes(),
            };
            self.next += 1;
        }
        let length = self.rest.len().min(out.len());
        out[..length].copy_from_slice(&self.rest[..length]);
        self.rest.drain(..length);
        Ok(length)
    }
}

/// RULE-CHS-070: a file of 100,000 offers is read offer by offer, in bounded memory.
#[test]
fn file_of_100_000_offers_is_read_in_bounded_memory() {
    let file = BufReader::new(Generated { next: 0, offers: 100_000, rest: Vec::new() });
    let mut reader = FeedReader::new(file, FeedLimits::DEFAULT).unwrap();
    let mut read = 0;
    while let Some(item) = reader.next_offer().unwrap() {
        read += 1;
        assert!(item.offer.is_ok() && item.line == read + 1);
    }
    assert_eq!(read, 100_000);
    assert!(reader.buffer_bytes() < 64 * 1024, "{}", reader.buffer_bytes());
}

proptest! {
    /// RULE-CHS-070: any bytes are read or rejected.
    #[test]
    fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
        let _ = read(&[b"<realty-feed><offer internal-id=\"1\">", &bytes[..], b"</offer></realty-feed>"].concat());
    }

    /// RULE-CHS-070: a file with any part replaced is read or rejected.
    #[test]
    fn mutilated_file_is_read_or_rejected(at in 0_usize..2_000, length in 0_usize..200, part in "[<>&;/a-z\"' ]{0,20}") {
        let mut file = COMPLEX.as_bytes().to_vec();
        let at = at.min(file.len());
        let end = (at + length).min(file.len());
        file.splice(at..end, part.into_bytes());
        let _ = read(&file);
    }
}
