//! What has changed in a profile: its log, its version and its event all follow from that.

use super::{Developer, SyncSource};

values::text_enum! {
    /// A member of a profile that somebody can change; never its value.
    pub enum DeveloperField {
        ContactEmail,
        ContactPhone,
        Description,
        ExternalChessboardDeveloperId,
        FoundedYear,
        Highlights,
        LegalName,
        LogoFileId,
        Name,
        SyncSource,
        Website,
    }
}

impl DeveloperField {
    /// INV-DEV-3: whether the outside system is its master where there is one.
    fn is_synced(self) -> bool {
        matches!(self, Self::Name | Self::LegalName | Self::LogoFileId | Self::FoundedYear)
    }
}

impl Developer {
    /// The members that somebody can change and has, by name; the status apart.
    pub fn fields_changed_since(&self, before: &Self) -> Vec<DeveloperField> {
        use DeveloperField as Field;
        let outside_id = |of: &Self| of.external_chessboard_developer_id;
        [
            (Field::ContactEmail, self.contact_email != before.contact_email),
            (Field::ContactPhone, self.contact_phone != before.contact_phone),
            (Field::Description, self.description != before.description),
            (Field::ExternalChessboardDeveloperId, outside_id(self) != outside_id(before)),
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

    /// INV-DEV-3: of what a person has changed, what is the outside system's to change.
    pub fn synced_fields_changed_since(&self, before: &Self) -> Vec<DeveloperField> {
        if before.sync_source == SyncSource::Platform {
            return Vec::new();
        }
        self.fields_changed_since(before).into_iter().filter(|field| field.is_synced()).collect()
    }

    /// Whether its version has to grow.
    pub fn differs_from(&self, before: &Self) -> bool {
        self.status != before.status
            || self.is_deleted() != before.is_deleted()
            || !self.fields_changed_since(before).is_empty()
    }

    /// Whether another outside profile, or a later version of it, has been followed.
    pub fn is_synced_otherwise_than(&self, before: &Self) -> bool {
        let link = |of: &Self| (of.external_chessboard_developer_id, of.replica_version);
        link(self) != link(before)
    }

    /// Whether anything differs that is no reason for a conflict, but for the count of projects.
    pub fn has_other_books_than(&self, before: &Self) -> bool {
        self.hidden_by_identity != before.hidden_by_identity || self.is_synced_otherwise_than(before)
    }

    /// Whether others are told of it.
    pub fn matters_to_others(&self, before: Option<&Self>) -> bool {
        use DeveloperField::{Highlights, LogoFileId, Name};
        let Some(before) = before.filter(|before| !before.is_deleted()) else { return true };
        let told = |field: &DeveloperField| matches!(field, Name | LogoFileId | Highlights);
        self.status != before.status || self.fields_changed_since(before).iter().any(told)
    }
}
