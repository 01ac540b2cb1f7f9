//! Strict JSON types, and the JSON pointers of errors.
//!
//! By default serde accepts a list for an object, and an object for the name of an enum's variant.
//! Both are type errors in a request.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use values::read_member;

/// A wrapper of a deserializer, and of its visitors and nested values.
pub(crate) struct Strict<T>(pub(crate) T);

macro_rules! forward_strict {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* Strict(visitor))
        }
    )*}
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    forward_strict! {
        deserialize_any() deserialize_bool()
        deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64() deserialize_i128()
        deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
        deserialize_f32() deserialize_f64() deserialize_char() deserialize_str() deserialize_string()
        deserialize_bytes() deserialize_byte_buf() deserialize_option() deserialize_unit()
        deserialize_unit_struct(name: &'static str) deserialize_newtype_struct(name: &'static str)
        deserialize_seq() deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_map() deserialize_identifier() deserialize_ignored_any()
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Strict(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_str(VariantName(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty))*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*}
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128) visit_f64(f64)
        visit_char(char) visit_str(&str) visit_borrowed_str(&'de str) visit_string(String)
        visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Elements { elements, index: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Members { members, name: String::new() })
    }
}

/// The elements of a list. The pointers of errors in them begin with their index.
struct Elements<A> {
    elements: A,
    index: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let element = read_member(&self.index, || self.elements.next_element_seed(Strict(seed)));
        self.index += 1;
        element
    }
}

/// The members of an object. The pointers of errors in them begin with their name.
struct Members<A> {
    members: A,
    name: String,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let Some(name) = self.members.next_key()? else { return Ok(None) };
        self.name = name;
        read_member(&self.name, || seed.deserialize(StrDeserializer::new(&self.name)).map(Some))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        read_member(&self.name, || self.members.next_value_seed(Strict(seed)))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(value))
    }
}

/// A visitor that accepts an enum's variant only by its name.
struct VariantName<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for VariantName<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        self.0.visit_enum(StrDeserializer::new(name))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::value::RawValue;

    use super::Strict;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Shelf {
        books: Vec<Book>,
        kept: Option<Box<Book>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Book {
        title: String,
        state: State,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum State {
        New,
        Used,
    }

    fn read<T: DeserializeOwned>(json: &str) -> Result<T, serde_json::Error> {
        T::deserialize(Strict(&mut serde_json::Deserializer::from_str(json)))
    }

    /// RULE-ALL-001: well-typed JSON is read.
    #[test]
    fn well_typed_json_is_read() {
        let shelf = r#"{"books": [{"title": "a", "state": "New"}], "kept": {"state": "Used", "title": "b"}, "x": [[]]}"#;
        let book = |title: &str, state| Book { title: title.to_owned(), state };
        let kept = Some(Box::new(book("b", State::Used)));
        assert_eq!(read::<Shelf>(shelf).unwrap(), Shelf { books: vec![book("a", State::New)], kept });
        let parts: Vec<Box<RawValue>> = read("[{\"a\": 1}, 2]").unwrap();
        assert_eq!(parts[0].get(), "{\"a\": 1}");
    }

    /// RULE-ALL-001: a mistyped member is refused.
    #[test]
    fn list_as_object_and_object_as_variant_are_refused() {
        for shelf in [
            r"[[], null]",
            r#"{"books": [["a", "New"]], "kept": null}"#,
            r#"{"books": [], "kept": ["a", "New"]}"#,
            r#"{"books": [{"title": "a", "state": {"New": null}}], "kept": null}"#,
            r#"{"books": [{"title": "a", "state": ["New"]}], "kept": null}"#,
            r#"{"books": [{"title": "a", "state": 0}], "kept": null}"#,
            r#"{"books": [{"title": "a", "state": "new"}], "kept": null}"#,
        ] {
            assert!(read::<Shelf>(shelf).unwrap_err().is_data(), "{shelf}");
        }
    }
}
