//! The aggregate of selections.

use std::collections::HashSet;

use auth::UserId;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Text;

use super::{Item, ItemOrder, PropertyObjectId, PublicCode, SelectionId};

pub type Title = Text<1, 200>;
pub type Description = Text<0, 2000>;

/// An owner's ordered list of property objects. Only the owner changes it (INV-SEL-002).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub id: SelectionId,
    pub owner_user_id: UserId,
    /// The code that opens the selection. It never changes (INV-SEL-005).
    pub public_code: PublicCode,
    pub title: Title,
    pub description: Option<Description>,
    pub items: Vec<Item>,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    /// Time of the soft delete. References to a deleted selection still resolve (INV-SEL-009).
    pub deleted_at: Option<OffsetDateTime>,
    pub version: i64,
}

/// A changed member, as `selection-updated` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum ChangedField {
    Title,
    Description,
    Items,
}

impl Selection {
    pub fn new(
        owner_user_id: UserId,
        public_code: PublicCode,
        title: Title,
        description: Option<Description>,
        order: &ItemOrder,
        now: OffsetDateTime,
    ) -> Self {
        Self {
            id: SelectionId::generate(),
            owner_user_id,
            public_code,
            title,
            description,
            items: order.to_items(&[], now),
            created_at: now,
            updated_at: now,
            deleted_at: None,
            version: 1,
        }
    }

    /// Replaces title and description, and returns the fields that changed.
    pub fn replace_metadata(
        &mut self,
        title: Title,
        description: Option<Description>,
        now: OffsetDateTime,
    ) -> Vec<ChangedField> {
        let mut changed = Vec::new();
        if self.title != title {
            self.title = title;
            changed.push(ChangedField::Title);
        }
        if self.description != description {
            self.description = description;
            changed.push(ChangedField::Description);
        }
        if !changed.is_empty() {
            self.touch(now);
        }
        changed
    }

    /// Replaces the list and returns the added items in their order.
    ///
    /// Returns `None` if the list is identical.
    pub fn replace_items(&mut self, order: &ItemOrder, now: OffsetDateTime) -> Option<Vec<Item>> {
        let items = order.to_items(&self.items, now.max(self.updated_at));
        if items == self.items {
            return None;
        }
        let before: HashSet<PropertyObjectId> =
            self.items.iter().map(|item| item.property_object_id).collect();
        let added = items.iter().filter(|item| !before.contains(&item.property_object_id)).cloned().collect();
        self.items = items;
        self.touch(now);
        Some(added)
    }

    /// Marks the selection as deleted (INV-SEL-009).
    pub fn delete(&mut self, now: OffsetDateTime) {
        self.touch(now);
        self.deleted_at = Some(self.updated_at);
    }

    /// Records the time of a change. It never goes back, although clocks of replicas differ.
    fn touch(&mut self, now: OffsetDateTime) {
        self.updated_at = now.max(self.updated_at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::{ChangedField, Selection, Title};
    use crate::domain::{ItemOrder, PublicCode};

    fn order(numbers: &[u8]) -> ItemOrder {
        let mut distinct = numbers.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        distinct.sort_by_key(|number| numbers.iter().position(|other| other == number));
        ItemOrder::parse(distinct.iter().map(|n| (Uuid::from_u128((*n).into()).into(), None)).collect())
            .unwrap()
    }

    fn selection(items: &[u8]) -> Selection {
        let code = PublicCode::generate(&mut rand::rng());
        let title = Title::parse("Spring").unwrap();
        Selection::new(Uuid::nil().into(), code, title, None, &order(items), OffsetDateTime::UNIX_EPOCH)
    }

    proptest! {
        /// RULE-SEL-031: the added items are those that were not in the list before.
        #[test]
        fn replacement_returns_the_added_items(before: Vec<u8>, after: Vec<u8>) {
            let mut selection = selection(&before);
            let later = OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR;
            let added = selection.replace_items(&order(&after), later);
            prop_assert_eq!(added.is_none(), order(&before) == order(&after));
            for item in added.into_iter().flatten() {
                prop_assert_eq!(item.added_at, later);
                prop_assert!(selection.items.contains(&item));
            }
            prop_assert_eq!(selection.replace_items(&order(&after), later), None);
        }
    }

    /// RULE-SEL-030: the same title and description change no field.
    #[test]
    fn identical_metadata_changes_no_field() {
        let mut selection = selection(&[]);
        let before = selection.clone();
        let later = OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR;
        assert_eq!(selection.replace_metadata(before.title.clone(), None, later), []);
        assert_eq!(selection, before);
        assert_eq!(
            selection.replace_metadata(Title::parse("Summer").unwrap(), None, later),
            [ChangedField::Title]
        );
    }
}
