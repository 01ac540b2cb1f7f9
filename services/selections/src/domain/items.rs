//! The ordered items of a selection.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::PropertyObjectId;

/// Maximum number of items of a selection (INV-SEL-004).
pub const MAX_ITEMS: u16 = 200;

/// A property object in a selection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Item {
    pub property_object_id: PropertyObjectId,
    /// Position in the list, from 0 and without gaps.
    pub sort_order: u32,
    #[serde(with = "time::serde::rfc3339")]
    pub added_at: OffsetDateTime,
}

/// Reason for refusing a list of items.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemsError {
    /// The list exceeds [`MAX_ITEMS`] (INV-SEL-004).
    #[error("more than {MAX_ITEMS} items")]
    TooMany,
    /// The object at this position is in the list already (INV-SEL-003).
    #[error("item {0} repeats an object")]
    Duplicate(usize),
}

/// Distinct property objects in their order, at most [`MAX_ITEMS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemOrder(Vec<PropertyObjectId>);

impl ItemOrder {
    /// Sorts the requested items by `SortOrder` (INV-SEL-006).
    ///
    /// An item without `SortOrder` is sorted by its position in the request. Ties keep the order of
    /// the request.
    pub fn parse(requested: Vec<(PropertyObjectId, Option<i32>)>) -> Result<Self, ItemsError> {
        if requested.len() > usize::from(MAX_ITEMS) {
            return Err(ItemsError::TooMany);
        }
        let mut seen = HashSet::with_capacity(requested.len());
        if let Some(second) = requested.iter().position(|(id, _)| !seen.insert(*id)) {
            return Err(ItemsError::Duplicate(second));
        }
        let mut keyed: Vec<(i64, PropertyObjectId)> = (0..)
            .zip(requested)
            .map(|(position, (id, sort_order))| (sort_order.map_or(position, i64::from), id))
            .collect();
        keyed.sort_by_key(|(sort_order, _)| *sort_order);
        Ok(Self(keyed.into_iter().map(|(_, id)| id).collect()))
    }

    /// Returns the items, numbered 0..N-1. Objects that were in the list `before` keep their
    /// `added_at`.
    pub fn to_items(&self, before: &[Item], now: OffsetDateTime) -> Vec<Item> {
        let added: HashMap<_, _> =
            before.iter().map(|item| (item.property_object_id, item.added_at)).collect();
        (0..)
            .zip(&self.0)
            .map(|(sort_order, id)| Item {
                property_object_id: *id,
                sort_order,
                added_at: added.get(id).copied().unwrap_or(now),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::{ItemOrder, ItemsError, MAX_ITEMS};
    use crate::domain::PropertyObjectId;

    fn id(number: u8) -> PropertyObjectId {
        Uuid::from_u128(number.into()).into()
    }

    fn requested(max: usize) -> impl Strategy<Value = Vec<(PropertyObjectId, Option<i32>)>> {
        proptest::collection::vec((any::<u8>().prop_map(id), any::<Option<i32>>()), 0..max)
    }

    proptest! {
        /// INV-SEL-006: the items are numbered 0..N-1 in the order of `SortOrder`, and ties keep
        /// their order.
        #[test]
        fn arbitrary_sort_orders_are_normalized(requested in requested(40)) {
            if let Ok(order) = ItemOrder::parse(requested.clone()) {
                let items = order.to_items(&[], OffsetDateTime::UNIX_EPOCH);
                prop_assert_eq!(items.len(), requested.len());
                let key = |id: PropertyObjectId| {
                    let position = requested.iter().position(|(other, _)| *other == id).unwrap();
                    (requested[position].1.map_or(i64::try_from(position).unwrap(), i64::from), position)
                };
                for (index, item) in items.iter().enumerate() {
                    prop_assert_eq!(item.sort_order as usize, index);
                    if index > 0 {
                        prop_assert!(key(items[index - 1].property_object_id) < key(item.property_object_id));
                    }
                }
            }
        }

        /// INV-SEL-003: the position of the second occurrence is reported.
        #[test]
        fn duplicate_object_at_any_position_is_found(requested in requested(40)) {
            let second =
                (0..requested.len()).find(|at| requested[..*at].iter().any(|(id, _)| *id == requested[*at].0));
            prop_assert_eq!(ItemOrder::parse(requested).err(), second.map(ItemsError::Duplicate));
        }

        /// RULE-SEL-006: a repeated replacement gives the same list with the same times.
        #[test]
        fn repeated_list_keeps_items_and_times(requested in requested(40)) {
            if let Ok(order) = ItemOrder::parse(requested) {
                let first = order.to_items(&[], OffsetDateTime::UNIX_EPOCH);
                let later = OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR;
                prop_assert_eq!(order.to_items(&first, later), first);
            }
        }
    }

    /// INV-SEL-004: 200 items fit, and 201 do not.
    #[test]
    fn list_of_more_than_200_items_is_refused() {
        let requested = |count: u16| (0..count).map(|n| (Uuid::from_u128(n.into()).into(), None)).collect();
        assert!(ItemOrder::parse(requested(MAX_ITEMS)).is_ok());
        assert_eq!(ItemOrder::parse(requested(MAX_ITEMS + 1)), Err(ItemsError::TooMany));
    }
}
