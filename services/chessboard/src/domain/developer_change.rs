//! The comparison of a profile before and after a change.
//!
//! The comparison decides the log entries, the version and the event of a change.

#[cfg(test)]
mod tests;

use super::{Developer, DeveloperField, SyncSource};

impl Developer {
    /// Returns the changed fields, sorted by name, without the status.
    pub fn fields_changed_since(&self, before: &Self) -> Vec<DeveloperField> {
        use DeveloperField as Field;
        let external_id = |developer: &Self| developer.external_chessboard_developer_id;
        [
            (Field::ContactEmail, self.contact_email != before.contact_email),
            (Field::ContactPhone, self.contact_phone != before.contact_phone),
            (Field::Description, self.description != before.description),
            (Field::ExternalChessboardDeveloperId, external_id(self) != external_id(before)),
            (Field::FoundedYear, self.founded_year != before.founded_year),
            (Field::Highlights, self.highlights != before.highlights),
            (Field::LegalName, self.legal_name != before.legal_name),
            (Field::LogoFileId, self.logo_file_id != before.logo_file_id),
            (Field::Name, self.name != before.name),
            (Field::SyncSource, self.sync_source != before.sync_source),
            (Field::Website, self.website != before.website),
        ]
        .into_iter()
        .filter_map(|(field, has_changed)| has_changed.then_some(field))
        .collect()
    }

    /// Returns the changed fields that only the external system may change (INV-DEV-3).
    pub fn replica_fields_changed_since(&self, before: &Self) -> Vec<DeveloperField> {
        if before.sync_source == SyncSource::Platform {
            return Vec::new();
        }
        self.fields_changed_since(before).into_iter().filter(|field| field.is_replica_field()).collect()
    }

    /// Returns true if the change raises the version.
    pub fn differs_from(&self, before: &Self) -> bool {
        self.status != before.status
            || self.is_deleted() != before.is_deleted()
            || !self.fields_changed_since(before).is_empty()
    }

    /// Returns true if the external id or the applied external version differs.
    pub fn has_other_sync_state_than(&self, before: &Self) -> bool {
        let link = |developer: &Self| (developer.external_chessboard_developer_id, developer.replica_version);
        link(self) != link(before)
    }

    /// Returns true if the state of the identity cascade or of the synchronization differs.
    ///
    /// If nothing else differs, the change raises no version, so a concurrent edit does not
    /// conflict with it. The count of projects is not compared, because only a recount writes it.
    pub fn has_other_bookkeeping_than(&self, before: &Self) -> bool {
        self.hidden_by_identity != before.hidden_by_identity || self.has_other_sync_state_than(before)
    }

    /// Returns true if the change is published as `developer-upserted`.
    pub fn changes_event(&self, before: Option<&Self>) -> bool {
        use DeveloperField::{Highlights, LogoFileId, Name};
        let Some(before) = before.filter(|before| !before.is_deleted()) else { return true };
        let is_published = |field: &DeveloperField| matches!(field, Name | LogoFileId | Highlights);
        self.status != before.status || self.fields_changed_since(before).iter().any(is_published)
    }
}
