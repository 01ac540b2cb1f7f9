//! Bounded lists.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::PartialSchema;
use utoipa::openapi::schema::{ArrayBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};

use crate::invalid::Invalid;
use crate::reading::read;

/// A list of `MIN..=MAX` items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

impl<T, const MIN: usize, const MAX: usize> List<T, MIN, MAX> {
    /// # Errors
    /// `too_few` with `min`, or `too_many` with `max`.
    pub fn parse(items: Vec<T>) -> Result<Self, Invalid> {
        if items.len() < MIN {
            return Err(Invalid::new("too_few").with("min", MIN));
        }
        if items.len() > MAX {
            return Err(Invalid::new("too_many").with("max", MAX));
        }
        Ok(Self(items))
    }

    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    pub fn into_inner(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MAX: usize> Default for List<T, 0, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Deserialize<'de> for List<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(list: D) -> Result<Self, D::Error> {
        read(Self::parse(Vec::deserialize(list)?), || Self(Vec::new()))
    }
}

impl<T: utoipa::ToSchema, const MIN: usize, const MAX: usize> PartialSchema for List<T, MIN, MAX> {
    fn schema() -> RefOr<Schema> {
        let list = ArrayBuilder::new().items(Ref::from_schema_name(T::name()));
        list.min_items((MIN > 0).then_some(MIN)).max_items(Some(MAX)).into()
    }
}

impl<T: utoipa::ToSchema, const MIN: usize, const MAX: usize> utoipa::ToSchema for List<T, MIN, MAX> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("List_{}_{MIN}_{MAX}", T::name()))
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::List;

    /// A list has at least the minimum and at most the maximum of items.
    #[test]
    fn list_of_a_wrong_length_is_rejected() {
        for items in [vec![7], vec![7, 8], vec![7, 8, 9]] {
            let list = List::<i32, 1, 3>::parse(items.clone()).unwrap();
            assert_eq!(list.as_slice(), items);
            assert_eq!(list.into_inner(), items);
        }
        let too_few = List::<i32, 1, 3>::parse(vec![]).unwrap_err();
        assert_eq!((too_few.code, too_few.args), ("too_few", vec![("min", 1)]));
        let too_many = List::<i32, 1, 3>::parse(vec![0; 4]).unwrap_err();
        assert_eq!((too_many.code, too_many.args), ("too_many", vec![("max", 3)]));
        assert_eq!(List::<i32, 0, 3>::parse(vec![]).unwrap(), List::default());
    }
}
