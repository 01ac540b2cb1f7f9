//! The aggregate of selections.

use std::collections::HashSet;

use auth::UserId;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Text;

use super::{Item, ItemOrder, ItemsError, MAX_ITEMS, PropertyObjectId, PublicCode, SelectionId};

pub type Title = Text<1, 200>;
pub type Description = Text<0, 2000>;

/// The state of the link that opens a selection by its public code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Link {
    /// False if the owner has switched the link off.
    pub is_enabled: bool,
    /// Time from which on the code opens nothing, in UTC. Null for a link without an end.
    #[serde(with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
}

/// An owner's ordered list of property objects. Only the owner and the collaborators whom the owner
/// names change it (INV-SEL-002).
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
    pub updated_by_user_id: UserId,
    pub link: Link,
}

/// A changed member, as `selection-updated` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum ChangedField {
    Title,
    Description,
    Items,
    Link,
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
            updated_by_user_id: owner_user_id,
            link: Link { is_enabled: true, expires_at: None },
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
            self.set_updated_at(now);
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
        self.set_updated_at(now);
        Some(added)
    }

    /// Adds an object at the end and returns its item. Returns `None` if the object is in the list.
    ///
    /// # Errors
    /// [`ItemsError::TooMany`] if the list is full.
    pub fn add_item(
        &mut self,
        object: PropertyObjectId,
        now: OffsetDateTime,
    ) -> Result<Option<Item>, ItemsError> {
        if self.items.iter().any(|item| item.property_object_id == object) {
            return Ok(None);
        }
        let count = u16::try_from(self.items.len()).unwrap_or(u16::MAX);
        if count >= MAX_ITEMS {
            return Err(ItemsError::TooMany);
        }
        self.set_updated_at(now);
        let added_at = self.updated_at;
        let item = Item { property_object_id: object, sort_order: count.into(), added_at };
        self.items.push(item.clone());
        Ok(Some(item))
    }

    /// Removes an object and closes the gap. Returns false if the object is not in the list.
    pub fn remove_item(&mut self, object: PropertyObjectId, now: OffsetDateTime) -> bool {
        let Some(position) = self.items.iter().position(|item| item.property_object_id == object) else {
            return false;
        };
        self.items.remove(position);
        for item in &mut self.items[position..] {
            item.sort_order -= 1;
        }
        self.set_updated_at(now);
        true
    }

    /// Replaces the state of the link. Returns false if it is the same.
    pub fn replace_link(&mut self, link: Link, now: OffsetDateTime) -> bool {
        if self.link == link {
            return false;
        }
        self.link = link;
        self.set_updated_at(now);
        true
    }

    /// Marks the selection as deleted (INV-SEL-009).
    pub fn delete(&mut self, now: OffsetDateTime) {
        self.set_updated_at(now);
        self.deleted_at = Some(self.updated_at);
    }

    /// Sets `updated_at`. Keeps the stored time if `now` is earlier, since clocks of replicas may
    /// differ.
    fn set_updated_at(&mut self, now: OffsetDateTime) {
        self.updated_at = now.max(self.updated_at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::{ChangedField, Description, Link, Selection, Title};
    use crate::domain::{Item, ItemOrder, ItemsError, MAX_ITEMS, PublicCode};
    use crate::error::{SOURCE_DELETED, SOURCE_EMPTY};

    /// Returns an object for each distinct number, in the order of the first occurrences.
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
            let former = order(&before).to_items(&[], later);
            let is_new = |item: &&Item| {
                former.iter().all(|other| other.property_object_id != item.property_object_id)
            };
            let expected: Vec<Item> = selection.items.iter().filter(is_new).cloned().collect();
            prop_assert!(expected.iter().all(|item| item.added_at == later));
            prop_assert_eq!(added.unwrap_or_default(), expected);
            prop_assert_eq!(selection.replace_items(&order(&after), later), None);
        }

        /// INV-SEL-003, INV-SEL-006, RULE-SEL-053: a single addition or removal equals a
        /// replacement of the whole list.
        #[test]
        fn single_change_equals_a_replacement(before: Vec<u8>, object: u8) {
            let (mut single, later) = (selection(&before), OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR);
            let mut whole = single.clone();
            let id = Uuid::from_u128(object.into()).into();
            let added = single.add_item(id, later).unwrap();
            let replaced = whole.replace_items(&order(&[&before[..], &[object]].concat()), later);
            prop_assert_eq!(added, replaced.map(|added| added[0].clone()));
            prop_assert_eq!(&single, &whole);
            let rest: Vec<u8> = before.iter().copied().filter(|other| *other != object).collect();
            prop_assert!(single.remove_item(id, later));
            whole.replace_items(&order(&rest), later);
            prop_assert_eq!(&single, &whole);
            prop_assert!(!single.remove_item(id, later));
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

    /// A changed description is named, and the time of the change is recorded. It never goes back.
    #[test]
    fn changed_description_is_named_and_its_time_recorded() {
        let (mut selection, later) = (selection(&[]), OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR);
        let description = Description::parse("Near the park").ok();
        let title = selection.title.clone();
        let changed = selection.replace_metadata(title.clone(), description.clone(), later);
        assert_eq!(changed, [ChangedField::Description]);
        assert_eq!((&selection.description, selection.updated_at), (&description, later));
        selection.replace_metadata(title, None, OffsetDateTime::UNIX_EPOCH);
        assert_eq!((selection.description, selection.updated_at), (None, later));
    }

    /// The same state of the link changes nothing.
    #[test]
    fn identical_link_changes_nothing() {
        let (mut selection, later) = (selection(&[]), OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR);
        let link = selection.link;
        assert!(!selection.replace_link(link, later));
        assert_eq!(selection.updated_at, OffsetDateTime::UNIX_EPOCH);
        let off = Link { is_enabled: false, ..link };
        assert!(selection.replace_link(off, later));
        assert_eq!((selection.link, selection.updated_at), (off, later));
    }

    /// A full list refuses a further object.
    #[test]
    fn full_list_refuses_a_further_object() {
        let mut selection = selection(&[]);
        let object = |number: u16| Uuid::from_u128(number.into()).into();
        for number in 0..MAX_ITEMS {
            assert!(selection.add_item(object(number), OffsetDateTime::UNIX_EPOCH).unwrap().is_some());
        }
        let refused = selection.add_item(object(MAX_ITEMS), OffsetDateTime::UNIX_EPOCH);
        assert_eq!(refused, Err(ItemsError::TooMany));
        assert_eq!(selection.add_item(object(0), OffsetDateTime::UNIX_EPOCH), Ok(None));
    }

    /// A deleted or empty selection is no source of a snapshot.
    #[test]
    fn deleted_or_empty_selection_is_no_source() {
        let later = OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR;
        assert_eq!(selection(&[]).check_source(), Err(SOURCE_EMPTY));
        let mut selection = selection(&[1]);
        assert_eq!(selection.check_source(), Ok(()));
        selection.delete(later);
        assert_eq!((selection.deleted_at, selection.updated_at), (Some(later), later));
        assert_eq!(selection.check_source(), Err(SOURCE_DELETED));
    }
}
