//! The words of a file and their values. Letter case, spaces and points have no effect.

use crate::domain::{Finishing, ObjectKind};

/// Returns the text in lower case, with `ё` as `е` and without spaces, points, quotes and
/// underscores.
fn plain(text: &str) -> String {
    let is_ignored = |c: char| c.is_whitespace() || matches!(c, '.' | '"' | '«' | '»' | '_');
    let kept = text.chars().filter(|c| !is_ignored(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == 'ё' { 'е' } else { c }).collect()
}

/// Returns the value of a yes-or-no element.
pub fn flag(text: &str) -> Option<bool> {
    match plain(text).as_str() {
        "1" | "true" | "да" | "yes" | "+" => Some(true),
        "0" | "false" | "нет" | "no" | "-" => Some(false),
        _ => None,
    }
}

/// Returns true if the element `type` says that the object is for sale.
pub fn is_sale_type(text: &str) -> bool {
    matches!(plain(text).as_str(), "продажа" | "sale" | "sell")
}

/// Returns the kind of an object by the element `category`.
pub fn kind(text: &str) -> Option<ObjectKind> {
    Some(match plain(text).as_str() {
        "квартира" | "flat" | "новостройка" => ObjectKind::Flat,
        "апартаменты" | "апартамент" | "apartment" | "apartments" => {
            ObjectKind::Apartment
        }
        "гараж" | "garage" | "машиноместо" | "машино-место" | "паркинг" | "parking" | "parkingplace" => {
            ObjectKind::Parking
        }
        "кладовая" | "кладовка" | "storage" | "storageroom" => ObjectKind::Storage,
        "коммерческая" | "commercial" => ObjectKind::Commercial,
        _ => return None,
    })
}

/// Returns the finishing by the element `renovation`.
pub fn finishing(text: &str) -> Option<Finishing> {
    Some(match plain(text).as_str() {
        "безотделки" | "нет" | "черновая" | "черноваяотделка" | "none" | "rough" | "shell" => {
            Finishing::None
        }
        "предчистовая"
        | "предчистоваяотделка"
        | "подчистовую"
        | "подчистовуюотделку"
        | "whitebox"
        | "вайтбокс" => Finishing::PreFinish,
        "чистовая"
        | "чистоваяотделка"
        | "сотделкой"
        | "подключ"
        | "евро"
        | "евроремонт"
        | "косметический"
        | "дизайнерский"
        | "finished"
        | "fine"
        | "turnkey" => Finishing::Finished,
        "смебелью" | "меблированная" | "furnished" | "чистоваясмебелью" | "сотделкойимебелью" => {
            Finishing::Furnished
        }
        _ => return None,
    })
}

/// Returns true for the square metre.
pub fn is_square_metre(text: &str) -> bool {
    matches!(
        plain(text).as_str(),
        "квм" | "м2" | "м²" | "кв" | "квметр" | "квметры" | "sqm" | "m2" | "m²" | "квадратныйметр"
    )
}

/// Returns true for a price of the whole object.
pub fn is_whole_object(text: &str) -> bool {
    matches!(plain(text).as_str(), "объект" | "заобъект" | "total" | "весьобъект" | "all")
}

/// Returns the ISO 4217 code of the rouble, and any other text in upper case. `RUR` is the former
/// code of the rouble.
pub fn currency(text: &str) -> String {
    match plain(text).as_str() {
        "rub" | "rur" | "руб" | "рубль" | "рублей" | "₽" => "RUB".to_owned(),
        code => code.to_uppercase(),
    }
}

/// The value of the element `rooms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomsWord {
    Studio,
    OpenPlan,
    Number(i64),
}

/// Returns the value of the element `rooms`.
pub fn rooms(text: &str) -> Option<RoomsWord> {
    match plain(text).as_str() {
        "студия" | "studio" | "ст" => return Some(RoomsWord::Studio),
        "свободнаяпланировка" | "свободная" | "openplan" | "open-plan" => {
            return Some(RoomsWord::OpenPlan);
        }
        _ => {}
    }
    // `plain` removes points and would turn `1.0` into 10, so only the word after the number passes
    // through it.
    let text = text.trim();
    let end = text.rfind(|c: char| c.is_ascii_digit()).map_or(0, |last| last + 1);
    let (digits, word) = text.split_at(end);
    let is_known = word.is_empty() || matches!(plain(word).as_str(), "+" | "иболее" | "-комнатная" | "-к");
    let number = super::number::parse_integer(digits).ok().filter(|_| is_known)?;
    Some(if text == "0" { RoomsWord::Studio } else { RoomsWord::Number(number) })
}

/// Returns true if the element `status` says that the object is available.
pub fn is_available_status(text: &str) -> bool {
    matches!(plain(text).as_str(), "available" | "свободно" | "свободна" | "впродаже" | "free" | "onsale")
}

/// Returns the number of a section, as in `2`, `секция 2` or `подъезд 2`.
pub fn section(text: &str) -> Option<i64> {
    // `plain` removes points and would turn `1.0` into 10, so only the word before the number
    // passes through it.
    let text = text.trim();
    let start = text.find(|c: char| c.is_ascii_digit() || matches!(c, '-' | '−'))?;
    let (word, digits) = text.split_at(start);
    let name = plain(word);
    let is_known = word.is_empty()
        || name == "№"
        || matches!(name.trim_end_matches('№'), "секция" | "подъезд" | "section" | "entrance");
    super::number::parse_integer(digits).ok().filter(|_| is_known)
}

/// Returns true if the text lists several identifiers of buildings, as in `12, 13` or `1;2`.
pub fn lists_several(text: &str) -> bool {
    let parts: Vec<_> = text.split([',', ';']).map(str::trim).collect();
    parts.len() > 1 && parts.iter().all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::{RoomsWord, currency, finishing, flag, is_square_metre, kind, lists_several, rooms, section};
    use crate::domain::{Finishing, ObjectKind};

    /// RULE-CHS-071: units, currencies and flags are read in each common notation.
    #[test]
    fn units_currencies_and_flags_are_read_in_each_notation() {
        for unit in ["кв. м", "кв.м", "Кв.м.", "м2", "м²", "sq.m", "sq. m", "sqm"] {
            assert!(is_square_metre(unit), "{unit}");
        }
        for unit in ["га", "hectare", "сотка", "sq. ft", ""] {
            assert!(!is_square_metre(unit), "{unit}");
        }
        for text in ["RUB", "rur", "руб.", "₽"] {
            assert_eq!(currency(text), "RUB");
        }
        assert_eq!(currency("usd"), "USD");
        assert_eq!([flag("1"), flag("да"), flag("+"), flag("true")], [Some(true); 4]);
        assert_eq!([flag("0"), flag("Нет"), flag("-"), flag("false")], [Some(false); 4]);
        assert_eq!(flag("2"), None);
    }

    /// RULE-CHS-071: rooms are a number, a studio or an open plan.
    #[test]
    fn rooms_are_number_studio_or_open_plan() {
        assert_eq!(rooms("3"), Some(RoomsWord::Number(3)));
        assert_eq!(rooms("4+"), Some(RoomsWord::Number(4)));
        assert_eq!(rooms("4 и более"), Some(RoomsWord::Number(4)));
        assert_eq!(rooms("2-комнатная"), Some(RoomsWord::Number(2)));
        assert_eq!(rooms("Студия"), Some(RoomsWord::Studio));
        assert_eq!(rooms("0"), Some(RoomsWord::Studio));
        assert_eq!(rooms("Свободная планировка"), Some(RoomsWord::OpenPlan));
        assert_eq!(
            (rooms("2 - комнатная"), rooms("-1")),
            (Some(RoomsWord::Number(2)), Some(RoomsWord::Number(-1)))
        );
        for text in ["две", "1.0", "1 0", "1_0", "0.", ".5", "2,5", "комнат 2", ""] {
            assert_eq!(rooms(text), None, "{text}");
        }
    }

    /// RULE-CHS-071: kinds, finishings and sections are read in Russian and English.
    #[test]
    fn kinds_finishings_and_sections_are_read_in_two_languages() {
        assert_eq!((kind("Квартира"), kind("flat")), (Some(ObjectKind::Flat), Some(ObjectKind::Flat)));
        assert_eq!((kind("машино-место"), kind("комната")), (Some(ObjectKind::Parking), None));
        assert_eq!(finishing("Чистовая отделка"), Some(Finishing::Finished));
        assert_eq!((finishing("White Box"), finishing("хорошее")), (Some(Finishing::PreFinish), None));
        assert_eq!((section("Секция 2"), section("подъезд №3"), section("4")), (Some(2), Some(3), Some(4)));
        assert_eq!((section("Секция. 2"), section("№ 5"), section("-1")), (Some(2), Some(5), Some(-1)));
        for text in ["А", "1.0", "секция 1.0", "1 0", ".5", "2А", "корпус 2", ""] {
            assert_eq!(section(text), None, "{text}");
        }
    }

    /// RULE-CHS-072: a list of numbers names several buildings, and a name with a comma does not.
    #[test]
    fn list_of_numbers_names_several_buildings() {
        assert!(lists_several("12, 13") && lists_several("1;2"));
        assert!(!lists_several("Корпус 3, секция 2") && !lists_several("12") && !lists_several("1,"));
    }
}
