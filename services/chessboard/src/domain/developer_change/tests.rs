//! The changes of a profile, their comparison and their log entries.

use ::db::Json;
use auth::{CompanyId, UserId};
use time::OffsetDateTime;
use values::{Dialled, Phone, Private, Text};

use super::{Developer, DeveloperField, SyncSource};
use crate::domain::author::ActorKind;
use crate::domain::developer::{DeveloperStatus, ExternalProfile, Profile, ProfileDetails, Transition};
use crate::domain::log::{LogEntry, LogKind};
use crate::domain::{
    Author, Company, CompanyStatus, CompanyType, DeveloperName, ExternalDeveloperId, FileId, Highlights,
};
use crate::error::DEVELOPER_INVALID_TRANSITION;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn profile(name: &str) -> Profile {
    let details = ProfileDetails {
        description: Text::parse("Homes").ok(),
        logo_file_id: Some(FileId::generate()),
        ..ProfileDetails::default()
    };
    Profile {
        name: DeveloperName::parse(name).unwrap(), legal_name: Text::parse("ООО Ёлка").ok(), details
    }
}

fn developer() -> Developer {
    Developer::new(CompanyId::generate(), profile("Ёлка"), Author::user(UserId::generate()), NOW)
}

fn external(version: i64) -> ExternalProfile {
    ExternalProfile {
        external_id: ExternalDeveloperId::generate(),
        company_id: CompanyId::generate(),
        version,
        name: DeveloperName::parse("Сосна").unwrap(),
        legal_name: None,
        logo_file_id: None,
        founded_year: "1999".parse().ok(),
    }
}

/// Each changed field is named, and no other one.
#[test]
fn each_changed_field_is_named() {
    use DeveloperField as Field;
    let before = developer();
    let phone = Phone::from_dialled(&Dialled::<32>::parse("+74951234567").unwrap(), "RU".parse().unwrap());
    let phone = Private::new(phone.unwrap());
    let email = || Private::new(values::Email::parse("anna@example.org").unwrap());
    let highlights = || Json(Highlights { years_on_market: "3".parse().ok(), ..Highlights::default() });
    let external_id = Some(ExternalDeveloperId::generate());
    let own = || before.clone();
    for (after, field) in [
        (Developer { contact_email: Some(email()), ..own() }, Field::ContactEmail),
        (Developer { contact_phone: Some(phone), ..own() }, Field::ContactPhone),
        (Developer { description: None, ..own() }, Field::Description),
        (
            Developer { external_chessboard_developer_id: external_id, ..own() },
            Field::ExternalChessboardDeveloperId,
        ),
        (Developer { founded_year: "1999".parse().ok(), ..own() }, Field::FoundedYear),
        (Developer { highlights: highlights(), ..own() }, Field::Highlights),
        (Developer { legal_name: None, ..own() }, Field::LegalName),
        (Developer { logo_file_id: None, ..own() }, Field::LogoFileId),
        (Developer { name: DeveloperName::parse("Сосна").unwrap(), ..own() }, Field::Name),
        (Developer { sync_source: SyncSource::ExternalChessboard, ..own() }, Field::SyncSource),
        (
            Developer { website: values::WebAddress::parse("https://example.org").ok(), ..own() },
            Field::Website,
        ),
    ] {
        assert_eq!(after.fields_changed_since(&before), [field]);
        assert!(after.differs_from(&before), "{field}");
        let is_published = matches!(field, Field::Name | Field::LogoFileId | Field::Highlights);
        assert_eq!(after.changes_event(Some(&before)), is_published, "{field}");
        let is_replica =
            matches!(field, Field::Name | Field::LegalName | Field::LogoFileId | Field::FoundedYear);
        assert_eq!(field.is_replica_field(), is_replica, "{field}");
        assert_eq!(after.replica_fields_changed_since(&before), []);
        let linked = Developer { sync_source: SyncSource::ExternalChessboard, ..own() };
        let changed = Developer { sync_source: SyncSource::ExternalChessboard, ..after }
            .replica_fields_changed_since(&linked);
        assert_eq!(changed, if is_replica { vec![field] } else { vec![] });
    }
}

/// A change of the status or a deletion raises the version. Bookkeeping alone does not.
#[test]
fn status_or_deletion_raises_version_and_bookkeeping_does_not() {
    let before = developer();
    assert!(!before.differs_from(&before) && !before.changes_event(Some(&before)));
    let published = Developer { status: DeveloperStatus::Published, ..before.clone() };
    assert!(published.differs_from(&before) && published.changes_event(Some(&before)));
    let deleted = Developer { deleted_at: Some(NOW), ..before.clone() };
    assert!(deleted.differs_from(&before) && !deleted.changes_event(Some(&before)));
    assert!(before.changes_event(Some(&deleted)) && before.changes_event(None));
    let cascaded = Developer { hidden_by_identity: true, ..before.clone() };
    let synchronized = Developer { replica_version: Some(3), ..before.clone() };
    assert!(!cascaded.differs_from(&before) && !synchronized.differs_from(&before));
    assert!(cascaded.has_other_bookkeeping_than(&before) && !cascaded.has_other_sync_state_than(&before));
    assert!(synchronized.has_other_bookkeeping_than(&before));
    assert!(synchronized.has_other_sync_state_than(&before));
    assert!(!before.has_other_bookkeeping_than(&before));
}

/// A change has an entry for its fields, its status, and its deletion or restoration.
#[test]
fn change_has_an_entry_of_each_kind() {
    let (before, by) = (developer(), Author::user(UserId::generate()));
    let kinds = |entries: &[LogEntry]| entries.iter().map(|entry| entry.kind).collect::<Vec<_>>();
    let created = LogEntry::for_change(None, &before, by);
    assert_eq!(kinds(&created), [LogKind::Created]);
    assert_eq!(created[0].sync_source, Some(SyncSource::Platform));
    assert!(LogEntry::for_change(Some(&before), &before, by).is_empty());
    let mut after = Developer { description: None, status: DeveloperStatus::Published, ..before.clone() };
    let changed = LogEntry::for_change(Some(&before), &after, by);
    assert_eq!(kinds(&changed), [LogKind::FieldsChanged, LogKind::StatusChanged]);
    assert_eq!(changed[0].changed_fields, [DeveloperField::Description]);
    let statuses = (changed[1].from, changed[1].to);
    assert_eq!(statuses, (Some(DeveloperStatus::Draft), Some(DeveloperStatus::Published)));
    let published = after.clone();
    after.delete(by.user_id, NOW);
    assert_eq!((after.status, after.deleted_at), (DeveloperStatus::Hidden, Some(NOW)));
    assert_eq!(after.deleted_by_user_id, Some(by.user_id));
    let deleted = LogEntry::for_change(Some(&published), &after, by);
    assert_eq!(kinds(&deleted), [LogKind::StatusChanged, LogKind::Deleted]);
    let restored = LogEntry::for_change(Some(&after), &before, by);
    assert_eq!(kinds(&restored), [LogKind::StatusChanged, LogKind::Restored]);
    assert_eq!(restored[1].sync_source, Some(SyncSource::Platform));
}

/// A restored profile keeps its link, its counts and its creation. An external one keeps the
/// replica fields, too.
#[test]
fn restored_profile_keeps_its_link() {
    let mut own = developer();
    own.projects_published_count = 4;
    own.version = 7;
    let later = NOW + time::Duration::HOUR;
    let by = Author::user(UserId::generate());
    let restored = own.restored(profile("Сосна"), by, later);
    assert_eq!(restored.name.as_str(), "Сосна");
    assert_eq!((restored.version, restored.projects_published_count), (7, 4));
    assert_eq!((restored.created_at, restored.created_by_user_id), (NOW, own.created_by_user_id));
    own.apply_external(ExternalProfile { name: own.name.clone(), ..external(5) }, later);
    assert_eq!((own.replica_version, own.last_synced_at), (Some(5), Some(later)));
    assert!(own.has_applied(5) && own.has_applied(4) && !own.has_applied(6));
    let restored = own.restored(profile("Сосна"), by, later);
    assert_eq!((restored.name.as_str(), restored.legal_name.is_none()), ("Ёлка", true));
    assert_eq!((restored.logo_file_id, restored.founded_year), (None, own.founded_year));
    assert_eq!(restored.sync_source, SyncSource::ExternalChessboard);
    assert_eq!(restored.external_chessboard_developer_id, own.external_chessboard_developer_id);
    assert_eq!((restored.replica_version, restored.last_synced_at), (Some(5), Some(later)));
}

/// A profile is linked once. After its release it has no link.
#[test]
fn profile_is_linked_once_and_released() {
    let (mut linked, first) = (developer(), ExternalDeveloperId::generate());
    assert!(!linked.has_applied(0));
    linked.link(first);
    linked.link(ExternalDeveloperId::generate());
    assert_eq!(linked.external_chessboard_developer_id, Some(first));
    assert_eq!((linked.sync_source, linked.replica_version), (SyncSource::ExternalChessboard, Some(0)));
    linked.release();
    assert_eq!((linked.external_chessboard_developer_id, linked.replica_version), (None, None));
    assert_eq!(linked.sync_source, SyncSource::Platform);
}

/// A user publishes, hides and withdraws a profile as in the table.
#[test]
fn transition_follows_the_table() {
    use DeveloperStatus::{Draft, Hidden, Published};
    let refused = Err(DEVELOPER_INVALID_TRANSITION);
    for (transition, draft, published, hidden) in [
        (Transition::Publish, Ok(Published), refused, Ok(Published)),
        (Transition::Hide, refused, Ok(Hidden), refused),
        (Transition::Withdraw, refused, Ok(Draft), refused),
    ] {
        assert_eq!(
            [Draft, Published, Hidden].map(|status| status.after(transition)),
            [draft, published, hidden]
        );
    }
    let mut published = Developer { hidden_by_identity: true, ..developer() };
    assert_eq!(published.apply_transition(Transition::Publish), Ok(()));
    assert!(published.is_published() && !published.hidden_by_identity);
}

/// A company renames its profile, unless the external system owns the names. A suspension hides a
/// published profile until the company is active again.
#[test]
fn company_renames_and_hides_its_profile() {
    let company = |status, name| Company {
        id: CompanyId::generate(),
        kind: CompanyType::Developer,
        status,
        name: DeveloperName::parse(name).unwrap(),
        legal_name: None,
        version: 1,
    };
    let (before, renamed) = (company(CompanyStatus::Active, "Ёлка"), company(CompanyStatus::Active, "Сосна"));
    assert!(before.is_developer() && before.is_active());
    assert!(!Company { kind: CompanyType::Agency, ..before.clone() }.is_developer());
    let mut own = developer();
    own.apply_company(Some(&before), &renamed);
    assert_eq!((own.name.as_str(), own.legal_name.is_some()), ("Сосна", true));
    let with_legal_name = Company { legal_name: Text::parse("ООО Ель").ok(), ..renamed.clone() };
    own.apply_company(Some(&renamed), &with_legal_name);
    assert_eq!(own.legal_name, with_legal_name.legal_name);
    let mut external_profile = Developer { sync_source: SyncSource::ExternalChessboard, ..developer() };
    external_profile.apply_company(Some(&before), &renamed);
    assert_eq!(external_profile.name.as_str(), "Ёлка");
    let suspended = company(CompanyStatus::Suspended, "Сосна");
    own.apply_transition(Transition::Publish).unwrap();
    own.apply_company(Some(&with_legal_name), &suspended);
    assert_eq!((own.status, own.hidden_by_identity), (DeveloperStatus::Hidden, true));
    let external_without_logo =
        Developer { sync_source: SyncSource::ExternalChessboard, logo_file_id: None, ..own.clone() };
    for (mut hidden, status, stays_in_cascade) in [
        (own.clone(), DeveloperStatus::Published, false),
        (Developer { logo_file_id: None, ..own }, DeveloperStatus::Hidden, false),
        (external_without_logo.clone(), DeveloperStatus::Hidden, true),
        (Developer { description: None, ..external_without_logo }, DeveloperStatus::Hidden, false),
    ] {
        hidden.apply_company(Some(&suspended), &company(CompanyStatus::Active, "Сосна"));
        assert_eq!((hidden.status, hidden.hidden_by_identity), (status, stays_in_cascade));
    }
}

/// A publication needs a description and a logo, and searches match both names.
#[test]
fn publication_needs_a_description_and_a_logo() {
    let mut own = developer();
    assert_eq!(own.missing_fields(), []);
    assert_eq!((own.folded_name().as_str(), own.search_text().as_str()), ("елка", "елка\nооо елка"));
    let details = ProfileDetails::default();
    own.replace_profile(Profile { name: DeveloperName::parse("Ель").unwrap(), legal_name: None, details });
    assert_eq!((own.name.as_str(), own.legal_name.is_none()), ("Ель", true));
    assert_eq!(own.missing_fields(), [DeveloperField::LogoFileId, DeveloperField::Description]);
}

/// A system has a fixed user id.
#[test]
fn system_has_a_fixed_user_id() {
    let id = |number: u128| {
        UserId::from(uuid::Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0000 + number))
    };
    assert_eq!(Author::identity(), Author { kind: ActorKind::Identity, user_id: id(1) });
    assert_eq!(Author::external_sync(), Author { kind: ActorKind::ExternalChessboard, user_id: id(2) });
}
