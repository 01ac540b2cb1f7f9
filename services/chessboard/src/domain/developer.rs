//! A developer with its profile.
//!
//! Users and identity write the profile, and the external chessboard system replicates into it.

use ::db::Json;
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Code, Email, Phone, Private, Text, WebAddress, Whole, fold, is_blank};

use super::{
    Author, Company, DeveloperField, DeveloperName, ExternalDeveloperId, FileId, Highlights, LegalName,
};
use crate::error::DEVELOPER_INVALID_TRANSITION;
use crate::schema::{developer, external_profile};

pub type Description = Text<0, 4000>;
pub type Website = WebAddress<256>;
pub type ContactPhone = Private<Phone>;
pub type ContactEmail = Private<Email<256>>;
pub type FoundedYear = Whole<1900, 2100>;

values::text_enum! {
    /// The visibility of a profile. Only a Published profile and its projects are in the catalog.
    pub enum DeveloperStatus {
        Draft,
        Published,
        Hidden,
    }
}

values::text_enum! {
    /// The owner of the replica fields `Name`, `LegalName`, `LogoFileId` and `FoundedYear`.
    pub enum SyncSource {
        Platform,
        ExternalChessboard,
    }
}

/// A change of a profile's status by a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    Publish,
    Hide,
    Withdraw,
}

impl DeveloperStatus {
    /// Returns the status after a transition.
    ///
    /// # Errors
    /// [`DEVELOPER_INVALID_TRANSITION`] if the status does not allow the transition.
    pub fn after(self, transition: Transition) -> Result<Self, Code> {
        match (transition, self) {
            (Transition::Publish, Self::Draft | Self::Hidden) => Ok(Self::Published),
            (Transition::Hide, Self::Published) => Ok(Self::Hidden),
            (Transition::Withdraw, Self::Published) => Ok(Self::Draft),
            _ => Err(DEVELOPER_INVALID_TRANSITION),
        }
    }
}

/// The fields of a profile that users write, without the names.
#[derive(Clone, Debug, Default)]
pub struct ProfileDetails {
    pub description: Option<Description>,
    pub logo_file_id: Option<FileId>,
    pub website: Option<Website>,
    pub contact_phone: Option<ContactPhone>,
    pub contact_email: Option<ContactEmail>,
    pub founded_year: Option<FoundedYear>,
    pub highlights: Highlights,
}

/// The fields of a profile that users write.
#[derive(Clone, Debug)]
pub struct Profile {
    pub name: DeveloperName,
    pub legal_name: Option<LegalName>,
    pub details: ProfileDetails,
}

/// A profile of the external chessboard system: the replica fields with their own id and version.
#[derive(Clone, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = external_profile, check_for_backend(Pg), treat_none_as_null = true)]
pub struct ExternalProfile {
    pub external_id: ExternalDeveloperId,
    pub company_id: CompanyId,
    pub version: i64,
    pub name: DeveloperName,
    pub legal_name: Option<LegalName>,
    pub logo_file_id: Option<FileId>,
    pub founded_year: Option<FoundedYear>,
}

/// The aggregate. It is also the database row and the HTTP response.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = developer, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Developer {
    /// The id of the company. It is also the `TenantId` of projects, buildings and objects.
    pub id: CompanyId,
    pub status: DeveloperStatus,
    pub name: DeveloperName,
    pub legal_name: Option<LegalName>,
    pub description: Option<Description>,
    pub logo_file_id: Option<FileId>,
    pub website: Option<Website>,
    pub contact_phone: Option<ContactPhone>,
    pub contact_email: Option<ContactEmail>,
    pub founded_year: Option<FoundedYear>,
    #[schema(value_type = Highlights)]
    pub highlights: Json<Highlights>,
    /// Number of live Published projects, counted in the background.
    #[schema(minimum = 0)]
    pub projects_published_count: i32,
    pub external_chessboard_developer_id: Option<ExternalDeveloperId>,
    pub sync_source: SyncSource,
    /// Version of the last applied external event.
    pub replica_version: Option<i64>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_synced_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    pub created_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    pub updated_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339::option")]
    pub deleted_at: Option<OffsetDateTime>,
    pub deleted_by_user_id: Option<UserId>,
    /// The current version, for `Version` in a change.
    pub version: i64,
    /// True if the identity cascade hid the profile last and may publish it again.
    #[serde(skip)]
    pub hidden_by_identity: bool,
}

impl Developer {
    /// Creates a profile in Draft.
    pub fn new(id: CompanyId, profile: Profile, by: Author, now: OffsetDateTime) -> Self {
        let Profile { name, legal_name, details } = profile;
        Self {
            id,
            status: DeveloperStatus::Draft,
            name,
            legal_name,
            description: details.description,
            logo_file_id: details.logo_file_id,
            website: details.website,
            contact_phone: details.contact_phone,
            contact_email: details.contact_email,
            founded_year: details.founded_year,
            highlights: Json(details.highlights),
            projects_published_count: 0,
            external_chessboard_developer_id: None,
            sync_source: SyncSource::Platform,
            replica_version: None,
            last_synced_at: None,
            created_at: now,
            created_by_user_id: by.user_id,
            updated_at: now,
            updated_by_user_id: by.user_id,
            deleted_at: None,
            deleted_by_user_id: None,
            version: 1,
            hidden_by_identity: false,
        }
    }

    /// Returns the restored profile in Draft.
    ///
    /// The link to the external system, the count of projects and the creation stay. Replica fields
    /// that the external system owns stay, too (INV-DEV-3). All other fields that users write have
    /// the values of `profile`.
    #[must_use]
    pub fn restored(&self, mut profile: Profile, by: Author, now: OffsetDateTime) -> Self {
        if self.sync_source == SyncSource::ExternalChessboard {
            profile.name.clone_from(&self.name);
            profile.legal_name.clone_from(&self.legal_name);
            profile.details.logo_file_id = self.logo_file_id;
            profile.details.founded_year = self.founded_year;
        }
        Self {
            external_chessboard_developer_id: self.external_chessboard_developer_id,
            sync_source: self.sync_source,
            replica_version: self.replica_version,
            last_synced_at: self.last_synced_at,
            projects_published_count: self.projects_published_count,
            created_at: self.created_at,
            created_by_user_id: self.created_by_user_id,
            version: self.version,
            ..Self::new(self.id, profile, by, now)
        }
    }

    /// Links the profile to an external id, unless it is linked already.
    pub fn link(&mut self, external_id: ExternalDeveloperId) {
        if self.external_chessboard_developer_id.is_none() {
            self.external_chessboard_developer_id = Some(external_id);
            self.sync_source = SyncSource::ExternalChessboard;
            // A linked profile has a replica version even before its first external event.
            self.replica_version = Some(0);
        }
    }

    /// Makes the platform the owner of all fields again.
    pub fn release(&mut self) {
        self.external_chessboard_developer_id = None;
        self.sync_source = SyncSource::Platform;
        self.replica_version = None;
    }

    pub fn is_deleted(&self) -> bool {
        self.deleted_at.is_some()
    }

    pub fn is_published(&self) -> bool {
        self.status == DeveloperStatus::Published
    }

    /// Returns the folded name, by which lists sort and guests search.
    pub fn folded_name(&self) -> String {
        fold(self.name.as_str())
    }

    /// Returns both folded names with a line break between them.
    ///
    /// The administrator's search matches this text. A folded query has no line break, so no match
    /// spans both names.
    pub fn search_text(&self) -> String {
        let legal_name = self.legal_name.as_ref().map(Text::as_str).unwrap_or_default();
        format!("{}\n{}", self.folded_name(), fold(legal_name))
    }

    /// Replaces the fields that users write.
    pub fn replace_profile(&mut self, profile: Profile) {
        let Profile { name, legal_name, details } = profile;
        self.name = name;
        self.legal_name = legal_name;
        self.description = details.description;
        self.logo_file_id = details.logo_file_id;
        self.website = details.website;
        self.contact_phone = details.contact_phone;
        self.contact_email = details.contact_email;
        self.founded_year = details.founded_year;
        self.highlights = Json(details.highlights);
    }

    /// Changes the status on behalf of a user, which takes the profile out of the identity cascade.
    ///
    /// # Errors
    /// [`DEVELOPER_INVALID_TRANSITION`] if the status does not allow the transition.
    pub fn apply_transition(&mut self, transition: Transition) -> Result<(), Code> {
        self.status = self.status.after(transition)?;
        self.hidden_by_identity = false;
        Ok(())
    }

    /// Applies a change of the company: its names and the status cascade.
    pub fn apply_company(&mut self, before: Option<&Company>, current: &Company) {
        // A field that did not change in the company stays, because a user may have edited it.
        if let Some(before) = before.filter(|_| self.sync_source == SyncSource::Platform) {
            if before.name != current.name {
                self.name = current.name.clone();
            }
            if before.legal_name != current.legal_name {
                self.legal_name.clone_from(&current.legal_name);
            }
        }
        if !current.is_active() && self.is_published() {
            self.status = DeveloperStatus::Hidden;
            self.hidden_by_identity = true;
        } else {
            self.publish_again(current);
        }
    }

    /// Publishes a profile that the identity cascade hid, if its company is Active again.
    ///
    /// If only replica fields are missing, the profile stays in the cascade: the external event may
    /// arrive later, because two topics have no common order. Any other missing field removes the
    /// profile from the cascade.
    pub fn publish_again(&mut self, company: &Company) {
        if !company.is_active() || !self.hidden_by_identity {
            return;
        }
        let missing = self.missing_fields();
        let is_external = self.sync_source == SyncSource::ExternalChessboard;
        let may_arrive = is_external && missing.iter().all(|field| field.is_replica_field());
        if missing.is_empty() {
            self.status = DeveloperStatus::Published;
        }
        self.hidden_by_identity = !missing.is_empty() && may_arrive;
    }

    /// Returns true if an external event of this version or a later one is applied (INV-DEV-4).
    pub fn has_applied(&self, version: i64) -> bool {
        self.replica_version.is_some_and(|applied| version <= applied)
    }

    /// Overwrites the replica fields and makes the external system their owner.
    pub fn apply_external(&mut self, external: ExternalProfile, now: OffsetDateTime) {
        self.name = external.name;
        self.legal_name = external.legal_name;
        self.logo_file_id = external.logo_file_id;
        self.founded_year = external.founded_year;
        self.external_chessboard_developer_id = Some(external.external_id);
        self.sync_source = SyncSource::ExternalChessboard;
        self.replica_version = Some(external.version);
        self.last_synced_at = Some(now);
    }

    /// Deletes the profile softly.
    ///
    /// A Published profile becomes Hidden, because its event reports the status but no deletion.
    pub fn delete(&mut self, by: UserId, now: OffsetDateTime) {
        if self.is_published() {
            self.status = DeveloperStatus::Hidden;
        }
        self.deleted_at = Some(now);
        self.deleted_by_user_id = Some(by);
    }

    /// Returns the fields that must be filled before a publication (INV-DEV-5).
    ///
    /// A blank text counts as not filled.
    pub fn missing_fields(&self) -> Vec<DeveloperField> {
        let description = self.description.as_ref().map(Text::as_str).unwrap_or_default();
        [
            (DeveloperField::Name, is_blank(self.name.as_str())),
            (DeveloperField::LogoFileId, self.logo_file_id.is_none()),
            (DeveloperField::Description, is_blank(description)),
        ]
        .into_iter()
        .filter_map(|(field, is_missing)| is_missing.then_some(field))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::OffsetDateTime;

    use super::{Developer, DeveloperStatus, Profile, ProfileDetails, Transition};
    use crate::domain::{Author, Company, CompanyStatus, CompanyType, FileId};

    /// A step in the history of a profile.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Company(CompanyStatus),
        User(Transition),
        Fill(bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        use CompanyStatus::{Active, Archived, Suspended};
        let company = prop::sample::select(vec![Active, Suspended, Archived]).prop_map(Step::Company);
        let user = prop::sample::select(vec![Transition::Publish, Transition::Hide, Transition::Withdraw])
            .prop_map(Step::User);
        prop::collection::vec(prop_oneof![company, user, any::<bool>().prop_map(Step::Fill)], 0..30)
    }

    fn company(status: CompanyStatus) -> Company {
        Company {
            id: uuid::Uuid::nil().into(),
            kind: CompanyType::Developer,
            status,
            name: super::DeveloperName::parse("Ромашка").unwrap(),
            legal_name: None,
            version: 1,
        }
    }

    proptest! {
        /// RULE-CHS-005: only users publish a Draft, and identity publishes only a profile that it
        /// hid last. No profile is Published while its company is not Active.
        #[test]
        fn identity_cascade_changes_only_published_and_cascaded_profiles(steps in steps()) {
            let now = OffsetDateTime::UNIX_EPOCH;
            let mut current = company(CompanyStatus::Active);
            let profile =
                Profile { name: current.name.clone(), legal_name: None, details: ProfileDetails::default() };
            let mut developer = Developer::new(current.id, profile, Author::identity(), now);
            let mut hidden_by_identity = false;
            for step in steps {
                let before = developer.status;
                match step {
                    Step::Company(status) => {
                        let previous = std::mem::replace(&mut current, company(status));
                        developer.apply_company(Some(&previous), &current);
                        match (before, developer.status) {
                            (DeveloperStatus::Published, DeveloperStatus::Hidden) => {
                                prop_assert!(!current.is_active());
                                hidden_by_identity = true;
                            }
                            (DeveloperStatus::Hidden, DeveloperStatus::Published) => {
                                prop_assert!(current.is_active() && hidden_by_identity);
                                hidden_by_identity = false;
                            }
                            (from, to) => {
                                prop_assert_eq!(from, to);
                                // If the company is Active again, an incomplete profile leaves the
                                // cascade, because the platform owns all its fields.
                                hidden_by_identity &= !current.is_active();
                            }
                        }
                    }
                    Step::User(transition) => {
                        let mut after = developer.clone();
                        let is_allowed = transition != Transition::Publish
                            || current.is_active() && developer.missing_fields().is_empty();
                        if is_allowed && after.apply_transition(transition).is_ok() {
                            developer = after;
                            hidden_by_identity = false;
                        }
                    }
                    Step::Fill(is_filled) => {
                        developer.logo_file_id = is_filled.then(|| FileId::from(uuid::Uuid::from_u128(7)));
                        developer.description =
                            is_filled.then(|| super::Description::parse("x").unwrap());
                    }
                }
                prop_assert!(!developer.is_published() || current.is_active());
                prop_assert_eq!(developer.hidden_by_identity, hidden_by_identity);
            }
        }
    }
}
