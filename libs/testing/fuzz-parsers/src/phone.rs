//! Phone numbers.

use values::{Dialled, Phone, PhoneRegion};

type Number = Dialled<64>;

const REGIONS: [&str; 8] = ["RU", "KZ", "UA", "US", "GB", "DE", "IT", "BR"];

/// Reads a dialled number in each region.
///
/// A stored number has at most 15 digits, and is the same number in every region.
pub fn phone(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(dialled) = Number::parse(text) else { return };
    assert_eq!(Number::parse(dialled.as_str()).as_ref(), Ok(&dialled));
    let regions = REGIONS.map(region);
    for region in regions {
        let Ok(phone) = Phone::from_dialled(&dialled, region) else { continue };
        let digits = phone.as_str().strip_prefix('+').unwrap_or_default();
        assert!((2..=15).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit()));
        let Ok(stored) = Number::parse(phone.as_str()) else { panic!("{phone:?} is refused") };
        for elsewhere in regions {
            assert_eq!(Phone::from_dialled(&stored, elsewhere).as_ref(), Ok(&phone));
        }
    }
}

fn region(code: &str) -> PhoneRegion {
    code.parse().unwrap_or(PhoneRegion::RU)
}
