//! Deserialization of values, with all errors of a request reported together.

use std::cell::RefCell;
use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::invalid::{FieldError, Invalid};

/// The maximum number of errors that one response reports.
pub const MAX_ERRORS: usize = 16;

/// The errors of a request. Their pointers begin at the member that is being read.
#[derive(Default)]
struct Errors {
    found: Vec<FieldError>,
    /// The pointer of the failure that ends the reading.
    failure: String,
}

thread_local! {
    /// The errors of the request that this thread reads.
    static ERRORS: RefCell<Option<Errors>> = const { RefCell::new(None) };
}

/// Runs `read` and collects up to [`MAX_ERRORS`] errors of the values. serde alone stops at the
/// first one.
///
/// The result contains a placeholder for each invalid value. Any other failure ends the reading,
/// and `describe` converts it into the last error.
pub fn collect_errors<T, E>(
    read: impl FnOnce() -> Result<T, E>,
    describe: impl FnOnce(String, E) -> FieldError,
) -> (Option<T>, Vec<FieldError>) {
    /// Ends the collection even if `read` panics.
    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            ERRORS.set(None);
        }
    }

    ERRORS.set(Some(Errors::default()));
    let _end = End;
    let result = read();
    let Errors { found: mut errors, failure } = ERRORS.take().unwrap_or_default();
    let value = result.map_err(|error| errors.push(describe(failure, error))).ok();
    errors.truncate(MAX_ERRORS);
    (value, errors)
}

/// Reads a member of an object or an item of a list. The pointers of its errors begin with `name`.
pub fn read_member<T, E>(name: &impl ToString, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let earlier = ERRORS.with_borrow(|errors| errors.as_ref().map_or(0, |errors| errors.found.len()));
    let result = read();
    ERRORS.with_borrow_mut(|errors| {
        let Some(Errors { found, failure }) = errors else { return };
        let pointers = found.iter_mut().skip(earlier).map(|error| &mut error.field);
        for pointer in pointers.chain(result.is_err().then_some(failure)) {
            let name = name.to_string().replace('~', "~0").replace('/', "~1");
            *pointer = format!("/{name}{pointer}");
        }
    });
    result
}

/// Returns the parsed value, or collects its error and returns `placeholder`. Call this function at
/// the end of a `Deserialize` implementation.
///
/// # Errors
/// The error of `parsed`, if no [`collect_errors`] is running or the maximum number of errors is
/// reached.
pub fn read<T, E: Error>(parsed: Result<T, Invalid>, placeholder: impl FnOnce() -> T) -> Result<T, E> {
    parsed.or_else(|invalid| {
        let code = invalid.code;
        let is_collected = ERRORS.with_borrow_mut(|errors| {
            let Some(Errors { found, .. }) = errors else { return false };
            found.push(FieldError { field: String::new(), invalid });
            found.len() < MAX_ERRORS
        });
        if is_collected { Ok(placeholder()) } else { Err(E::custom(code)) }
    })
}

/// Implements `Deserialize` of a value that is a text on the wire.
///
/// # Errors
/// The error of `parse`, or `invalid_type` for a JSON value of another type. [`read`] collects or
/// returns this error.
pub fn read_text<'de, D: Deserializer<'de>, T>(
    text: D,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
    placeholder: impl FnOnce() -> T,
) -> Result<T, D::Error> {
    read(text.deserialize_any(TextVisitor(parse))?, placeholder)
}

/// Implements `Deserialize` of a value that is a number on the wire.
///
/// # Errors
/// The error of `parse`, or `invalid_type` for a JSON value of another type. [`read`] collects or
/// returns this error.
pub fn read_number<'de, D: Deserializer<'de>, T>(
    number: D,
    parse: impl FnOnce(Number) -> Result<T, Invalid>,
    placeholder: impl FnOnce() -> T,
) -> Result<T, D::Error> {
    read(number.deserialize_any(NumberVisitor(parse))?, placeholder)
}

/// Reads a member that is present, null included. With `#[serde(default)]` an absent member is
/// `None`.
pub fn read_present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    member: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(member).map(Some)
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

#[cfg(test)]
mod tests {
    use super::{MAX_ERRORS, collect_errors};
    use crate::{FieldError, Invalid, Whole};

    /// Reads a list with this number of invalid items. Returns whether the reading ended, and the
    /// number of errors.
    fn read_invalid(count: usize) -> (bool, usize) {
        let json = serde_json::to_string(&vec![10; count]).unwrap();
        let (list, errors) = collect_errors(
            || serde_json::from_str::<Vec<Whole<0, 9>>>(&json),
            |field, _| FieldError { field, invalid: Invalid::new("invalid_json") },
        );
        (list.is_none(), errors.len())
    }

    /// A response reports up to 16 errors. The last one ends the reading.
    #[test]
    fn reading_ends_at_the_maximum_of_errors() {
        assert_eq!(read_invalid(0), (false, 0));
        assert_eq!(read_invalid(MAX_ERRORS - 1), (false, MAX_ERRORS - 1));
        assert_eq!(read_invalid(MAX_ERRORS), (true, MAX_ERRORS));
        assert_eq!(read_invalid(MAX_ERRORS + 4), (true, MAX_ERRORS));
    }

    /// A failure that is no invalid value ends the reading and is the last error.
    #[test]
    fn failure_ends_the_reading_and_is_described() {
        let (list, errors) = collect_errors(
            || serde_json::from_str::<Vec<Whole<0, 9>>>("[10, 11, "),
            |field, error| FieldError {
                field,
                invalid: Invalid::new("invalid_json").with("line", error.line()),
            },
        );
        assert_eq!(list, None);
        let codes: Vec<_> = errors.iter().map(|error| error.invalid.to_string()).collect();
        assert_eq!(codes, ["out_of_range", "out_of_range", "invalid_json"]);
    }

    /// The collection ends with a panic, so the errors of the next request are not collected.
    #[test]
    fn panic_ends_the_collection() {
        let read = || -> Result<(), ()> { panic!("a failed read") };
        let collect =
            || collect_errors(read, |field, ()| FieldError { field, invalid: Invalid::new("failed") });
        assert!(std::panic::catch_unwind(collect).is_err());
        assert!(serde_json::from_str::<Whole<0, 9>>("10").is_err());
    }
}
