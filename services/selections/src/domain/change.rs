//! Changes of the objects of a selection since they were added.

use std::collections::HashMap;

use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Money;

use super::{Item, PropertyObjectId, ShownObject};

/// Status and price of a public object when it was added.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedObject {
    pub status: Option<String>,
    pub price: Option<Money>,
}

/// A change of an object since it was added to a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum ObjectChange {
    Sold,
    /// The catalog no longer shows the object, or its developer no longer sells it.
    Withdrawn,
    PriceUp,
    PriceDown,
}

/// An object of a selection that has changed since it was added.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ItemChange {
    property_object_id: PropertyObjectId,
    #[serde(with = "time::serde::rfc3339")]
    added_at: OffsetDateTime,
    /// The changes, at least one.
    changes: Vec<ObjectChange>,
    /// Price when the object was added. Null while the catalog does not show the object.
    price_when_added: Option<Money>,
    /// Present price. Null while the catalog does not show the object.
    price: Option<Money>,
}

impl AddedObject {
    /// Compares the object with its present data, which is `None` if the object is not public.
    fn changes(&self, now: Option<&ShownObject>) -> Vec<ObjectChange> {
        let Some(now) = now else { return vec![ObjectChange::Withdrawn] };
        let became = |status| now.status.as_deref() == Some(status) && self.status.as_deref() != Some(status);
        let change_of_price = match (self.price, now.price) {
            (Some(then), Some(now)) if then.currency == now.currency => {
                if now.amount_minor > then.amount_minor {
                    Some(ObjectChange::PriceUp)
                } else {
                    (now.amount_minor < then.amount_minor).then_some(ObjectChange::PriceDown)
                }
            }
            _ => None,
        };
        let sold = became("Sold").then_some(ObjectChange::Sold);
        let withdrawn = became("Unavailable").then_some(ObjectChange::Withdrawn);
        [sold, withdrawn, change_of_price].into_iter().flatten().collect()
    }
}

/// Returns the items that have changed, in their order.
///
/// `objects` maps an object to its data when it was added and, if it is public, its present data.
/// It has no entry for an object that was not public when it was added.
pub fn changes_of(
    items: &[Item],
    objects: &HashMap<PropertyObjectId, (AddedObject, Option<ShownObject>)>,
) -> Vec<ItemChange> {
    let change_of = |item: &Item| {
        let (added, now) = objects.get(&item.property_object_id)?;
        let changes = added.changes(now.as_ref());
        (!changes.is_empty()).then(|| ItemChange {
            property_object_id: item.property_object_id,
            added_at: item.added_at,
            changes,
            price_when_added: added.price.filter(|_| now.is_some()),
            price: now.as_ref().and_then(|now| now.price),
        })
    };
    items.iter().filter_map(change_of).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;
    use time::OffsetDateTime;
    use uuid::Uuid;
    use values::{Currency, Money};

    use super::{AddedObject, ItemChange, ObjectChange, changes_of};
    use crate::domain::{Item, PropertyObjectId, ShownObject};

    fn price(amount_minor: i64, currency: &str) -> Money {
        Money { amount_minor, currency: currency.parse().unwrap() }
    }

    fn added(status: &str, price: Option<Money>) -> AddedObject {
        AddedObject { status: Some(status.to_owned()), price }
    }

    fn shown(status: &str, price: Option<Money>) -> ShownObject {
        serde_json::from_value(json!({"Status": status, "Price": price})).unwrap()
    }

    /// A status that the object had when it was added is no change. Prices are compared only within
    /// one currency.
    #[test]
    fn changed_status_and_price_are_reported() {
        use ObjectChange::{PriceDown, PriceUp, Sold, Withdrawn};
        let rub = |amount_minor| Some(Money { amount_minor, currency: Currency::RUB });
        for (then, now, expected) in [
            (added("Available", rub(100)), shown("Available", rub(100)), vec![]),
            (added("Available", rub(100)), shown("Booked", rub(101)), vec![PriceUp]),
            (added("Available", rub(100)), shown("Available", rub(99)), vec![PriceDown]),
            (added("Available", rub(100)), shown("Available", Some(price(101, "USD"))), vec![]),
            (added("Available", None), shown("Available", rub(100)), vec![]),
            (added("Available", rub(100)), shown("Available", None), vec![]),
            (added("Available", rub(100)), shown("Sold", rub(99)), vec![Sold, PriceDown]),
            (added("Sold", rub(100)), shown("Sold", rub(100)), vec![]),
            (added("Available", rub(100)), shown("Unavailable", rub(100)), vec![Withdrawn]),
            (added("Unavailable", rub(100)), shown("Unavailable", rub(100)), vec![]),
            (added("Unavailable", rub(100)), shown("Available", rub(100)), vec![]),
        ] {
            assert_eq!(then.changes(Some(&now)), expected, "{then:?} {now:?}");
        }
        assert_eq!(added("Available", rub(100)).changes(None), [Withdrawn]);
    }

    /// Only changed items are listed, in their order. An object that is not public shows no price.
    #[test]
    fn changed_items_are_listed_in_their_order() {
        let ids = [1, 2, 3, 4].map(|number| PropertyObjectId::from(Uuid::from_u128(number)));
        let [dearer, same, hidden, unknown] = ids;
        let rub = |amount| Some(price(amount, "RUB"));
        let added_at = OffsetDateTime::UNIX_EPOCH;
        let items = [unknown, hidden, same, dearer];
        let items: Vec<Item> = (0..)
            .zip(items)
            .map(|(sort_order, property_object_id)| Item { property_object_id, sort_order, added_at })
            .collect();
        let objects = HashMap::from([
            (dearer, (added("Available", rub(100)), Some(shown("Available", rub(101))))),
            (same, (added("Available", rub(100)), Some(shown("Available", rub(100))))),
            (hidden, (added("Available", rub(100)), None)),
        ]);
        let change = |property_object_id, changes, price_when_added, price| ItemChange {
            property_object_id,
            added_at,
            changes,
            price_when_added,
            price,
        };
        let expected = [
            change(hidden, vec![ObjectChange::Withdrawn], None, None),
            change(dearer, vec![ObjectChange::PriceUp], rub(100), rub(101)),
        ];
        assert_eq!(changes_of(&items, &objects), expected);
    }
}
