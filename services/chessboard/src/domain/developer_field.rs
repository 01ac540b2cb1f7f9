//! The names of a profile's fields, for the log and for errors.

values::text_enum! {
    /// The name of a profile's field, never its value.
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
    /// Returns true for the fields that the external system owns after it has linked the profile.
    pub fn is_replica_field(self) -> bool {
        matches!(self, Self::Name | Self::LegalName | Self::LogoFileId | Self::FoundedYear)
    }
}
