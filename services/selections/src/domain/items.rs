//! The ordered list of a selection.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::PropertyObjectId;

/// Items of one selection (INV-SEL-004).
pub const MAX_ITEMS: u16 = 200;

/// A property object in a selection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Item {
    pub property_object_id: PropertyObjectId,
    /// From 0, without gaps.
    pub sort_order: u32,
    #[serde(with = "time::serde::rfc3339")]
    pub added_at: OffsetDateTime,
}

/// Why a list was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemsError {
    /// INV-SEL-004
    #[error("more than {MAX_ITEMS} items")]
    TooMany,
    /// INV-SEL-003; where the second one stood in the request.
    #[error("item {0} is there twice")]
    Duplicate(usize),
}

/// Property objects in their order: at most 200, none twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemOrder(Vec<PropertyObjectId>);

impl ItemOrder {
    /// Sorts what was asked for by its `SortOrder` (INV-SEL-006). An item without one counts as
    /// standing where it stands in the list; ties keep the order of the list.
    ///
    /// # Errors
    /// [`ItemsError`]
    pub fn parse(asked: Vec<(PropertyObjectId, Option<i32>)>) -> Result<Self, ItemsError> {
        if asked.len() > usize::from(MAX_ITEMS) {
            return Err(ItemsError::TooMany);
        }
        let mut seen = HashSet::with_capacity(asked.len());
        if let Some(second) = asked.iter().position(|(id, _)| !seen.insert(*id)) {
            return Err(ItemsError::Duplicate(second));
        }
        let mut keyed: Vec<(i64, PropertyObjectId)> = (0..)
            .zip(asked)
            .map(|(position, (id, sort_order))| (sort_order.map_or(position, i64::from), id))
            .collect();
        keyed.sort_by_key(|(sort_order, _)| *sort_order);
        Ok(Self(keyed.into_iter().map(|(_, id)| id).collect()))
    }

    /// The items in this order, numbered 0..N-1; those that were in `before` keep when they were added.
    pub fn number(&self, before: &[Item], now: OffsetDateTime) -> Vec<Item> {
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

    fn asked(max: usize) -> impl Strategy<Value = Vec<(PropertyObjectId, Option<i32>)>> {
        proptest::collection::vec((any::<u8>().prop_map(id), any::<Option<i32>>()), 0..max)
    }

    proptest! {
        /// INV-SEL-006: whatever was sent, the list is numbered 0..N-1 in the order of `SortOrder`.
        #[test]
        fn sort_order_is_normalized(asked in asked(40)) {
            if let Ok(order) = ItemOrder::parse(asked.clone()) {
                let items = order.number(&[], OffsetDateTime::UNIX_EPOCH);
                prop_assert_eq!(items.len(), asked.len());
                let key = |id: PropertyObjectId| {
                    let position = asked.iter().position(|(asked, _)| *asked == id).unwrap();
                    (asked[position].1.map_or(i64::try_from(position).unwrap(), i64::from), position)
                };
                for (index, item) in items.iter().enumerate() {
                    prop_assert_eq!(item.sort_order as usize, index);
                    if index > 0 {
                        prop_assert!(key(items[index - 1].property_object_id) < key(item.property_object_id));
                    }
                }
            }
        }

        /// INV-SEL-003: the second of two equal objects is found, wherever it stands.
        #[test]
        fn a_duplicate_is_found(asked in asked(40)) {
            let second = (0..asked.len()).find(|at| asked[..*at].iter().any(|(id, _)| *id == asked[*at].0));
            prop_assert_eq!(ItemOrder::parse(asked).err(), second.map(ItemsError::Duplicate));
        }

        /// A repeat of a replacement is the same list, down to when its items were added.
        #[test]
        fn a_repeat_changes_nothing(asked in asked(40)) {
            if let Ok(order) = ItemOrder::parse(asked) {
                let first = order.number(&[], OffsetDateTime::UNIX_EPOCH);
                let later = OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR;
                prop_assert_eq!(order.number(&first, later), first);
            }
        }
    }

    /// INV-SEL-004
    #[test]
    fn two_hundred_items_fit_and_one_more_does_not() {
        let asked = |count: u16| (0..count).map(|n| (Uuid::from_u128(n.into()).into(), None)).collect();
        assert!(ItemOrder::parse(asked(MAX_ITEMS)).is_ok());
        assert_eq!(ItemOrder::parse(asked(MAX_ITEMS + 1)), Err(ItemsError::TooMany));
    }
}
