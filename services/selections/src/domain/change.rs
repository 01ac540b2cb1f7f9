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
    /// Compares the object with its present data. An object without data is not public.
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
/// `objects` has the data when an object was added, and its present data if it is public. An object
/// that was not public when it was added has none.
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
