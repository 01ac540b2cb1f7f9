//! A developer: the root of projects, buildings and objects, with a profile that two masters write.

use ::db::Json;
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Code, Email, Phone, Private, Text, WebAddress, Whole, fold};

use super::{Author, Company, DeveloperField, FileId, Highlights, OutsideId};
use crate::db::schema::{developer, outside_profile};
use crate::error::DEVELOPER_INVALID_TRANSITION;

pub type DeveloperName = Text<1, 256>;
pub type LegalName = Text<0, 512>;
pub type Description = Text<0, 4000>;
pub type Website = WebAddress<256>;
pub type ContactPhone = Private<Phone>;
pub type ContactEmail = Private<Email<256>>;
pub type FoundedYear = Whole<1900, 2100>;

/// What stands between the names by which the platform finds a developer. It may be in a name, too.
pub const SEPARATOR: char = '\n';

values::text_enum! {
    /// Whether guests see the profile, and what is below it.
    pub enum DeveloperStatus {
        Draft,
        Published,
        Hidden,
    }
}

values::text_enum! {
    /// Who is the master of the replica fields: `Name`, `LegalName`, `LogoFileId`, `FoundedYear`.
    pub enum SyncSource {
        Platform,
        ExternalChessboard,
    }
}

/// A move that a person makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Publish,
    Hide,
    Withdraw,
}

impl DeveloperStatus {
    /// Where a move leads to.
    ///
    /// # Errors
    /// [`DEVELOPER_INVALID_TRANSITION`]
    pub fn after(self, made: Move) -> Result<Self, Code> {
        match (made, self) {
            (Move::Publish, Self::Draft | Self::Hidden) => Ok(Self::Published),
            (Move::Hide, Self::Published) => Ok(Self::Hidden),
            (Move::Withdraw, Self::Published) => Ok(Self::Draft),
            _ => Err(DEVELOPER_INVALID_TRANSITION),
        }
    }
}

/// What a person writes, but for the names.
#[derive(Clone, Debug, Default)]
pub struct Details {
    pub description: Option<Description>,
    pub logo_file_id: Option<FileId>,
    pub website: Option<Website>,
    pub contact_phone: Option<ContactPhone>,
    pub contact_email: Option<ContactEmail>,
    pub founded_year: Option<FoundedYear>,
    pub highlights: Highlights,
}

/// What a person writes.
#[derive(Clone, Debug)]
pub struct Profile {
    pub name: DeveloperName,
    pub legal_name: Option<LegalName>,
    pub details: Details,
}

/// What the outside system tells of a profile: the replica fields, under its own id and version.
#[derive(Clone, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = outside_profile, check_for_backend(Pg), treat_none_as_null = true)]
pub struct OutsideProfile {
    pub outside_id: OutsideId,
    pub company_id: CompanyId,
    pub version: i64,
    pub name: DeveloperName,
    pub legal_name: Option<LegalName>,
    pub logo_file_id: Option<FileId>,
    pub founded_year: Option<FoundedYear>,
}

/// The aggregate, which is also its row and its answer.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = developer, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Developer {
    /// The id of its company, and the `TenantId` of all that is below.
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
    /// Counted in the background.
    #[schema(minimum = 0)]
    pub projects_published_count: i32,
    pub external_chessboard_developer_id: Option<OutsideId>,
    pub sync_source: SyncSource,
    /// Of the outside event that was applied last.
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
    /// For `Version` of the next change.
    pub version: i64,
    /// Identity hid it last, and may publish it again.
    #[serde(skip)]
    pub hidden_by_identity: bool,
}

impl Developer {
    /// A new profile, in Draft.
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

    /// The same developer come back, with the link that it had and nothing else of its profile.
    #[must_use]
    pub fn restored(&self, profile: Profile, by: Author, now: OffsetDateTime) -> Self {
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

    /// Has the outside system's events of this id apply from now on, unless another's do already.
    pub fn link(&mut self, outside: OutsideId) {
        if self.external_chessboard_developer_id.is_none() {
            self.external_chessboard_developer_id = Some(outside);
            self.sync_source = SyncSource::ExternalChessboard;
            self.replica_version = Some(0);
        }
    }

    /// The outside system is its master no longer.
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

    /// By which lists sort it, and guests find it.
    pub fn lower_name(&self) -> String {
        fold(self.name.as_str())
    }

    /// In which the platform finds it: both names, with [`SEPARATOR`] between them.
    pub fn search_text(&self) -> String {
        let legal_name = self.legal_name.as_ref().map(Text::as_str).unwrap_or_default();
        format!("{}{SEPARATOR}{}", self.lower_name(), fold(legal_name))
    }

    /// Replaces what a person writes.
    pub fn describe(&mut self, profile: Profile) {
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

    /// By a person's move: from now on the status is not identity's to change back.
    ///
    /// # Errors
    /// [`DEVELOPER_INVALID_TRANSITION`]
    pub fn make(&mut self, made: Move) -> Result<(), Code> {
        self.status = self.status.after(made)?;
        self.hidden_by_identity = false;
        Ok(())
    }

    /// What became of its company, which was `before` what it is `now`.
    pub fn follow(&mut self, before: Option<&Company>, now: &Company) {
        // Only what changed there: a person's edit outlives other news of the company.
        if let Some(before) = before.filter(|_| self.sync_source == SyncSource::Platform) {
            if before.name != now.name {
                self.name = now.name.clone();
            }
            if before.legal_name != now.legal_name {
                self.legal_name.clone_from(&now.legal_name);
            }
        }
        if !now.is_active() && self.is_published() {
            self.status = DeveloperStatus::Hidden;
            self.hidden_by_identity = true;
        } else if now.is_active() && self.hidden_by_identity {
            self.hidden_by_identity = false;
            if self.lacks().is_empty() {
                self.status = DeveloperStatus::Published;
            }
        }
    }

    /// Whether the outside system has told of it under this version or a later one.
    pub fn knows(&self, version: i64) -> bool {
        self.replica_version.is_some_and(|known| version <= known)
    }

    /// Takes over what the outside system tells, and is its replica from now on.
    pub fn replicate(&mut self, outside: OutsideProfile, now: OffsetDateTime) {
        self.name = outside.name;
        self.legal_name = outside.legal_name;
        self.logo_file_id = outside.logo_file_id;
        self.founded_year = outside.founded_year;
        self.external_chessboard_developer_id = Some(outside.outside_id);
        self.sync_source = SyncSource::ExternalChessboard;
        self.replica_version = Some(outside.version);
        self.last_synced_at = Some(now);
    }

    /// Soft. What was published is hidden, so that those who follow learn of it.
    pub fn delete(&mut self, by: UserId, now: OffsetDateTime) {
        if self.is_published() {
            self.status = DeveloperStatus::Hidden;
        }
        self.deleted_at = Some(now);
        self.deleted_by_user_id = Some(by);
    }

    /// INV-DEV-5: what has to be filled before it is published. White space fills nothing.
    pub fn lacks(&self) -> Vec<DeveloperField> {
        let is_blank = |text: &str| text.chars().all(char::is_whitespace);
        let description = self.description.as_ref().map(Text::as_str).unwrap_or_default();
        [
            (DeveloperField::Name, is_blank(self.name.as_str())),
            (DeveloperField::LogoFileId, self.logo_file_id.is_none()),
            (DeveloperField::Description, is_blank(description)),
        ]
        .into_iter()
        .filter_map(|(field, is_lacking)| is_lacking.then_some(field))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::OffsetDateTime;

    use super::{Details, Developer, DeveloperStatus, Move, Profile};
    use crate::domain::{Author, Company, CompanyStatus, CompanyType, FileId};

    /// What may happen to a profile that is filled, or not.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Company(CompanyStatus),
        Person(Move),
        Fills(bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        use CompanyStatus::{Active, Archived, Suspended};
        let company = prop::sample::select(vec![Active, Suspended, Archived]).prop_map(Step::Company);
        let person =
            prop::sample::select(vec![Move::Publish, Move::Hide, Move::Withdraw]).prop_map(Step::Person);
        prop::collection::vec(prop_oneof![company, person, any::<bool>().prop_map(Step::Fills)], 0..30)
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
        /// Section 4: nobody but people publishes a Draft, identity publishes only what it hid last, and nothing is Published
        /// while its company is not Active.
        #[test]
        fn identity_follows_the_company_and_people_decide(steps in steps()) {
            let now = OffsetDateTime::UNIX_EPOCH;
            let mut told = company(CompanyStatus::Active);
            let profile = Profile { name: told.name.clone(), legal_name: None, details: Details::default() };
            let mut developer = Developer::new(told.id, profile, Author::identity(), now);
            let mut hidden_by_identity = false;
            for step in steps {
                let before = developer.status;
                match step {
                    Step::Company(status) => {
                        let known = std::mem::replace(&mut told, company(status));
                        developer.follow(Some(&known), &told);
                        match (before, developer.status) {
                            (DeveloperStatus::Published, DeveloperStatus::Hidden) => {
                                prop_assert!(!told.is_active());
                                hidden_by_identity = true;
                            }
                            (DeveloperStatus::Hidden, DeveloperStatus::Published) => {
                                prop_assert!(told.is_active() && hidden_by_identity);
                                hidden_by_identity = false;
                            }
                            (from, to) => {
                                prop_assert_eq!(from, to);
                                hidden_by_identity &= !told.is_active();
                            }
                        }
                    }
                    Step::Person(made) => {
                        let mut moved = developer.clone();
                        let may = made != Move::Publish || told.is_active() && developer.lacks().is_empty();
                        if may && moved.make(made).is_ok() {
                            developer = moved;
                            hidden_by_identity = false;
                        }
                    }
                    Step::Fills(is_filled) => {
                        developer.logo_file_id = is_filled.then(|| FileId::from(uuid::Uuid::from_u128(7)));
                        developer.description =
                            is_filled.then(|| super::Description::parse("x").unwrap());
                    }
                }
                prop_assert!(!developer.is_published() || told.is_active());
                prop_assert_eq!(developer.hidden_by_identity, hidden_by_identity);
            }
        }
    }
}
