//! Names of changed fields, for the audit log.

values::text_enum! {
    /// Name of a field that an update has changed. Entries never contain the values.
    pub enum ChangedField {
        Email,
        LegalName,
        Name,
        TaxNumber,
    }
}
