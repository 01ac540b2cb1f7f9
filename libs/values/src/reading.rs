//! Deserialization of values, with all errors of a request reported together.

use std::cell::RefCell;
use std::fmt;

use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::invalid::Invalid;

/// The state of one pass over a request.
struct Pass {
    /// The number of errors that are still ignored.
    ignored_left: usize,
    error: Option<Invalid>,
}

thread_local! {
    static PASS: RefCell<Option<Pass>> = const { RefCell::new(None) };
}

/// Runs `read` and ignores the first `ignored` errors of the values. Returns the result of `read`
/// and the first error that was not ignored, if there is one.
///
/// The caller repeats the call with a growing `ignored`, so it finds each error with its path in
/// the request. The result contains a placeholder for each ignored error.
pub fn read_ignoring_errors<T>(ignored: usize, read: impl FnOnce() -> T) -> (T, Option<Invalid>) {
    /// Ends the pass even if `read` panics.
    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            PASS.set(None);
        }
    }

    PASS.set(Some(Pass { ignored_left: ignored, error: None }));
    let _end = End;
    let result = read();
    let pass = PASS.take();
    (result, pass.and_then(|pass| pass.error))
}

/// Finishes the `Deserialize` of a value: returns the parsed value, or `placeholder` for an ignored
/// error.
///
/// # Errors
/// The error of `parsed`, unless it is ignored.
pub fn read<T, E: Error>(parsed: Result<T, Invalid>, placeholder: impl FnOnce() -> T) -> Result<T, E> {
    parsed.or_else(|invalid| {
        PASS.with_borrow_mut(|pass| match pass {
            Some(pass) if pass.ignored_left > 0 => {
                pass.ignored_left -= 1;
                Ok(placeholder())
            }
            pass => {
                let error = E::custom(invalid.code);
                if let Some(pass) = pass {
                    pass.error = Some(invalid);
                }
                Err(error)
            }
        })
    })
}

/// Implements `Deserialize` of a value that is a text on the wire, with [`read`].
///
/// # Errors
/// The error of `parse`, or `invalid_type` for a JSON value of another type, unless it is ignored.
pub fn read_text<'de, D: Deserializer<'de>, T>(
    text: D,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
    placeholder: impl FnOnce() -> T,
) -> Result<T, D::Error> {
    read(text.deserialize_any(TextVisitor(parse))?, placeholder)
}

/// Implements `Deserialize` of a value that is a number on the wire, with [`read`].
///
/// # Errors
/// The error of `parse`, or `invalid_type` for a JSON value of another type, unless it is ignored.
pub fn read_number<'de, D: Deserializer<'de>, T>(
    number: D,
    parse: impl FnOnce(Number) -> Result<T, Invalid>,
    placeholder: impl FnOnce() -> T,
) -> Result<T, D::Error> {
    read(number.deserialize_any(NumberVisitor(parse))?, placeholder)
}

/// A JSON number.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Whole(i64),
    Fraction(f64),
}

/// Accepts every JSON value and parses numbers.
struct NumberVisitor<P>(P);

impl<'de, T, P: FnOnce(Number) -> Result<T, Invalid>> Visitor<'de> for NumberVisitor<P> {
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
            // The number is above the bounds of all integer types.
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

/// Accepts every JSON value and parses texts.
struct TextVisitor<P>(P);

impl<'de, T, P: FnOnce(&str) -> Result<T, Invalid>> Visitor<'de> for TextVisitor<P> {
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
