//! Values refuse what they are read from; all that is wrong with a request is told at once.

use std::cell::RefCell;
use std::fmt;

use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::Invalid;

/// How far one reading has come.
struct Reading {
    to_let_pass: usize,
    refused: Option<Invalid>,
}

thread_local! {
    static READING: RefCell<Option<Reading>> = const { RefCell::new(None) };
}

/// Reads something, and lets the first `to_let_pass` refusals of its values pass: so whoever reads again and again is
/// told one refusal after the other, each with its place. Answers the refusal that it came to, if any. What it has
/// read is worth something only if nothing was let pass.
pub fn read_past<T>(to_let_pass: usize, read: impl FnOnce() -> T) -> (T, Option<Invalid>) {
    /// A reading ends even if it panics.
    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            READING.set(None);
        }
    }

    READING.set(Some(Reading { to_let_pass, refused: None }));
    let _end = End;
    let read = read();
    let reading = READING.take();
    (read, reading.and_then(|reading| reading.refused))
}

/// For `Deserialize` of a value: what was parsed of what was read, or `none` of it where its refusal is let pass.
///
/// # Errors
/// The refusal.
pub fn read<T, E: Error>(parsed: Result<T, Invalid>, none: impl FnOnce() -> T) -> Result<T, E> {
    parsed.or_else(|invalid| {
        READING.with_borrow_mut(|reading| match reading {
            Some(reading) if reading.to_let_pass > 0 => {
                reading.to_let_pass -= 1;
                Ok(none())
            }
            reading => {
                let error = E::custom(invalid.code);
                if let Some(reading) = reading {
                    reading.refused = Some(invalid);
                }
                Err(error)
            }
        })
    })
}

/// For `Deserialize` of a value that is made of a text: as [`read`], where something else than a text is refused like a
/// text that cannot be parsed (`invalid_type`), and can be let pass like it.
///
/// # Errors
/// The refusal.
pub fn read_text<'de, D: Deserializer<'de>, T>(
    text: D,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
    none: impl FnOnce() -> T,
) -> Result<T, D::Error> {
    read(text.deserialize_any(OnlyText(parse))?, none)
}

/// For `Deserialize` of a value that is made of a number: as [`read_text`].
///
/// # Errors
/// The refusal.
pub fn read_number<'de, D: Deserializer<'de>, T>(
    number: D,
    parse: impl FnOnce(Number) -> Result<T, Invalid>,
    none: impl FnOnce() -> T,
) -> Result<T, D::Error> {
    read(number.deserialize_any(OnlyNumber(parse))?, none)
}

/// A number as JSON has it.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Whole(i64),
    Fraction(f64),
}

/// Takes whatever comes, and parses what is a number.
struct OnlyNumber<P>(P);

impl<'de, T, P: FnOnce(Number) -> Result<T, Invalid>> Visitor<'de> for OnlyNumber<P> {
    type Value = Result<T, Invalid>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok((self.0)(Number::Whole(number)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            // Beyond the bounds of everything.
            Err(_) => self.visit_f64(f64::INFINITY),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok((self.0)(Number::Fraction(number)))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Err(Invalid::new("invalid_type")))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        self.visit_unit()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.visit_unit()
    }
}

/// Takes whatever comes, and parses what is a text.
struct OnlyText<P>(P);

impl<'de, T, P: FnOnce(&str) -> Result<T, Invalid>> Visitor<'de> for OnlyText<P> {
    type Value = Result<T, Invalid>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok((self.0)(text))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Err(Invalid::new("invalid_type")))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        self.visit_bool(false)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        self.visit_bool(false)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        self.visit_bool(false)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        self.visit_bool(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        self.visit_bool(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.visit_bool(false)
    }
}
