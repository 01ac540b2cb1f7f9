//! An import of a feed.

use std::num::NonZeroU32;

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use values::Code;

use super::{BuildingId, FeedImportId, FeedUploadId};
use crate::error::{CONFLICT, FEED_IMPORT_INVALID_TRANSITION, FEED_UPLOADS_LIMIT_EXCEEDED};
use crate::schema::feed_import;

values::text_enum! {
    /// The state of an import.
    pub enum FeedImportState {
        /// Waits for its file.
        Created,
        /// Receives its file.
        Uploading,
        /// Waits for the validation.
        Uploaded,
        /// Reads the file.
        Validating,
        /// Waits for the manager, who applies or deletes it.
        Validated,
        /// Changes the objects.
        Applying,
        /// All buildings are applied, or stay as they are.
        Applied,
        /// The file is rejected as a whole, and `Refusal` has the reason.
        Failed,
    }
}

values::text_enum! {
    /// The state of a building in an import.
    pub enum FeedBuildingState {
        /// Nothing changes.
        Unchanged,
        /// All offers are accepted.
        Ready,
        /// An offer is rejected, so nothing is applied without `SkipRejected`.
        Blocked,
        /// The changes are made.
        Applied,
        /// The building changed after the validation, so nothing is applied.
        Outdated,
    }
}

/// The aggregate and the database row.
#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = feed_import, check_for_backend(Pg), treat_none_as_default_value = false)]
pub struct FeedImport {
    pub id: FeedImportId,
    pub tenant_id: CompanyId,
    /// The building of all offers, if the manager has chosen one.
    pub building_id: Option<BuildingId>,
    pub state: FeedImportState,
    /// The newest upload. Chunks of older uploads are ignored.
    pub upload_id: Option<FeedUploadId>,
    pub file_bytes: i64,
    pub refusal_code: Option<String>,
    pub refusal_line: Option<i64>,
    pub offers_count: i32,
    pub rejected_count: i32,
    /// True if rejected offers do not prevent the accepted ones of their building.
    pub skip_rejected: bool,
    pub created_at: OffsetDateTime,
    pub created_by_user_id: UserId,
    pub updated_at: OffsetDateTime,
    /// The user who has applied the import.
    pub applied_by_user_id: Option<UserId>,
    pub version: i64,
}

impl FeedImport {
    pub fn new(
        tenant_id: CompanyId,
        building_id: Option<BuildingId>,
        by: UserId,
        now: OffsetDateTime,
    ) -> Self {
        Self {
            id: FeedImportId::generate(),
            tenant_id,
            building_id,
            state: FeedImportState::Created,
            upload_id: None,
            file_bytes: 0,
            refusal_code: None,
            refusal_line: None,
            offers_count: 0,
            rejected_count: 0,
            skip_rejected: false,
            created_at: now,
            created_by_user_id: by,
            updated_at: now,
            applied_by_user_id: None,
            version: 1,
        }
    }

    /// Begins an upload, which replaces an unfinished one.
    ///
    /// # Errors
    /// [`FEED_IMPORT_INVALID_TRANSITION`] if an upload of the import has ended.
    pub fn begin_upload(&mut self, now: OffsetDateTime) -> Result<FeedUploadId, Code> {
        if !matches!(self.state, FeedImportState::Created | FeedImportState::Uploading) {
            return Err(FEED_IMPORT_INVALID_TRANSITION);
        }
        let upload = FeedUploadId::generate();
        self.upload_id = Some(upload);
        self.enter(FeedImportState::Uploading, now);
        Ok(upload)
    }

    /// Ends an upload.
    ///
    /// # Errors
    /// [`CONFLICT`] if another upload has begun, or if this upload has already ended.
    pub fn finish_upload(
        &mut self,
        upload: FeedUploadId,
        bytes: i64,
        now: OffsetDateTime,
    ) -> Result<(), Code> {
        if self.state != FeedImportState::Uploading || self.upload_id != Some(upload) {
            return Err(CONFLICT);
        }
        self.file_bytes = bytes;
        self.enter(FeedImportState::Uploaded, now);
        Ok(())
    }

    /// Begins to apply the validated changes.
    ///
    /// # Errors
    /// [`FEED_IMPORT_INVALID_TRANSITION`] if the import is not Validated.
    pub fn apply(&mut self, skip_rejected: bool, by: UserId, now: OffsetDateTime) -> Result<(), Code> {
        if self.state != FeedImportState::Validated {
            return Err(FEED_IMPORT_INVALID_TRANSITION);
        }
        (self.skip_rejected, self.applied_by_user_id) = (skip_rejected, Some(by));
        self.enter(FeedImportState::Applying, now);
        Ok(())
    }

    /// Changes the state. `db::feed_import::save` raises the version.
    pub fn enter(&mut self, state: FeedImportState, now: OffsetDateTime) {
        self.state = state;
        self.updated_at = now;
    }
}

/// The default of `FEED_MAX_UPLOADS_PER_HOUR` in the charts: up to 1.25 GiB for each developer.
pub const CHART_MAX_UPLOADS: u32 = 20;

/// Checks the uploads of an hour, the new one included.
///
/// # Errors
/// [`FEED_UPLOADS_LIMIT_EXCEEDED`] with the rest of the hour as `Retry-After`.
pub fn check_uploads(
    uploads: i32,
    hour_began_at: OffsetDateTime,
    max: NonZeroU32,
    now: OffsetDateTime,
) -> Result<(), Code> {
    if u32::try_from(uploads).is_ok_and(|uploads| uploads <= max.get()) {
        return Ok(());
    }
    let end = hour_began_at + time::Duration::HOUR;
    Err(FEED_UPLOADS_LIMIT_EXCEEDED.with_arg("max", max.get().into()).retry_at(end, now))
}

#[cfg(test)]
mod tests {
    use auth::{CompanyId, UserId};
    use time::OffsetDateTime;

    use super::{FeedImport, FeedImportState};
    use crate::error::{CONFLICT, FEED_IMPORT_INVALID_TRANSITION};

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    /// RULE-CHS-075: only the newest upload can end, and only once.
    #[test]
    fn only_newest_upload_ends_once() {
        let mut import = FeedImport::new(CompanyId::generate(), None, UserId::generate(), NOW);
        let first = import.begin_upload(NOW).unwrap();
        let second = import.begin_upload(NOW).unwrap();
        assert_eq!(import.finish_upload(first, 1, NOW), Err(CONFLICT));
        assert_eq!(import.finish_upload(second, 2, NOW), Ok(()));
        assert_eq!((import.state, import.file_bytes), (FeedImportState::Uploaded, 2));
        assert_eq!(import.finish_upload(second, 2, NOW), Err(CONFLICT));
        assert_eq!(import.begin_upload(NOW), Err(FEED_IMPORT_INVALID_TRANSITION));
    }

    /// RULE-CHS-075: only a Validated import is applied.
    #[test]
    fn only_validated_import_is_applied() {
        use FeedImportState::{
            Applied, Applying, Created, Failed, Uploaded, Uploading, Validated, Validating,
        };
        for state in [Created, Uploading, Uploaded, Validating, Validated, Applying, Applied, Failed] {
            let mut import = FeedImport::new(CompanyId::generate(), None, UserId::generate(), NOW);
            import.enter(state, NOW);
            let applied = import.apply(false, UserId::generate(), NOW);
            assert_eq!(applied.is_ok(), state == Validated, "{state}");
        }
    }
}
