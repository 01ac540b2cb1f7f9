//! A project: a residential complex of a developer.

use std::fmt::{self, Display, Formatter};

use auth::{CompanyId, UserId};
use diesel::deserialize::FromSqlRow;
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::prelude::*;
use diesel::serialize::{Output, ToSql};
use diesel::sql_types::Double;
use diesel::{deserialize, serialize};
use serde::{Deserialize, Deserializer, Serialize};
use time::OffsetDateTime;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};
use values::{Code, Invalid, Number, Text, fold, read_number};

use super::{Edited, ExternalId, FileId, ProjectId};
use crate::error::{PROJECT_DEVELOPER_NOT_PUBLISHED, PROJECT_INVALID_TRANSITION};
use crate::schema::project;

pub type ProjectName = Text<1, 256>;
pub type ProjectDescription = Text<0, 4000>;
pub type City = Text<1, 128>;
pub type Address = Text<1, 512>;
pub type Latitude = Degrees<90>;
pub type Longitude = Degrees<180>;

/// A number of degrees in `-MAX..=MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, AsExpression, FromSqlRow)]
#[serde(transparent)]
#[diesel(sql_type = Double)]
pub struct Degrees<const MAX: i32>(f64);

impl<const MAX: i32> Degrees<MAX> {
    /// Checks a number of degrees.
    ///
    /// # Errors
    /// `out_of_range` with `min` and `max`.
    pub fn parse(degrees: f64) -> Result<Self, Invalid> {
        let max = f64::from(MAX);
        if (-max..=max).contains(&degrees) {
            return Ok(Self(degrees));
        }
        Err(Invalid { code: "out_of_range", args: vec![("min", (-MAX).into()), ("max", MAX.into())] })
    }
}

impl<const MAX: i32> Display for Degrees<MAX> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl<'de, const MAX: i32> Deserialize<'de> for Degrees<MAX> {
    fn deserialize<D: Deserializer<'de>>(degrees: D) -> Result<Self, D::Error> {
        let parse = |number| match number {
            // A number that is too large for `i32` is out of range, too.
            Number::Whole(whole) => Self::parse(i32::try_from(whole).map_or(f64::INFINITY, f64::from)),
            Number::Fraction(degrees) => Self::parse(degrees),
        };
        read_number(degrees, parse, || Self(0.0))
    }
}

impl<const MAX: i32> ToSql<Double, Pg> for Degrees<MAX> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<Double, Pg>::to_sql(&self.0, out)
    }
}

impl<const MAX: i32> deserialize::FromSql<Double, Pg> for Degrees<MAX> {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        <f64 as deserialize::FromSql<Double, Pg>>::from_sql(value).map(Self)
    }
}

impl<const MAX: i32> PartialSchema for Degrees<MAX> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Number).minimum(Some(-MAX)).maximum(Some(MAX)).into()
    }
}

impl<const MAX: i32> ToSchema for Degrees<MAX> {
    fn name() -> std::borrow::Cow<'static, str> {
        std::borrow::Cow::Owned(format!("Degrees_{MAX}"))
    }
}

values::text_enum! {
    /// The market segment of a project.
    pub enum ProjectClass {
        Economy,
        Comfort,
        Business,
        Elite,
    }
}

values::text_enum! {
    /// The visibility of a project. Guests see a Published project of a Published developer.
    pub enum ProjectStatus {
        Draft,
        Published,
        Hidden,
    }
}

/// The fields of a project that managers write.
#[derive(Clone, Debug, PartialEq, Queryable, Selectable, Insertable, AsChangeset, Serialize, ToSchema)]
#[diesel(table_name = project, check_for_backend(Pg))]
#[diesel(treat_none_as_null = true, treat_none_as_default_value = false)]
#[serde(rename_all = "PascalCase")]
pub struct ProjectFacts {
    pub name: ProjectName,
    pub description: Option<ProjectDescription>,
    pub class: ProjectClass,
    pub city: City,
    pub address: Address,
    pub latitude: Option<Latitude>,
    pub longitude: Option<Longitude>,
    pub cover_file_id: Option<FileId>,
}

/// The aggregate. It is also the database row and the HTTP response.
#[derive(Clone, Debug, Queryable, Selectable, Insertable, Serialize, ToSchema)]
#[diesel(table_name = project, check_for_backend(Pg), treat_none_as_default_value = false)]
#[serde(rename_all = "PascalCase")]
pub struct Project {
    pub id: ProjectId,
    pub tenant_id: CompanyId,
    /// Id in another system of the company.
    pub external_id: Option<ExternalId>,
    #[serde(flatten)]
    #[diesel(embed)]
    pub facts: ProjectFacts,
    pub status: ProjectStatus,
    /// Time of the first publication.
    #[serde(with = "time::serde::rfc3339::option")]
    pub published_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    pub created_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    pub updated_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339::option")]
    pub deleted_at: Option<OffsetDateTime>,
    /// The current version, for `Version` in a change.
    pub version: i64,
}

impl Project {
    pub fn new(tenant_id: CompanyId, fields: Edited<ProjectFacts>, by: UserId, now: OffsetDateTime) -> Self {
        Self {
            id: ProjectId::generate(),
            tenant_id,
            external_id: fields.external_id.apply(None),
            facts: fields.facts,
            status: ProjectStatus::Draft,
            published_at: None,
            created_at: now,
            created_by_user_id: by,
            updated_at: now,
            updated_by_user_id: by,
            deleted_at: None,
            version: 1,
        }
    }

    /// Returns the folded name, by which lists sort and search.
    pub fn folded_name(&self) -> String {
        fold(self.facts.name.as_str())
    }

    /// Returns the folded city, by which filters compare and facets count.
    pub fn folded_city(&self) -> String {
        fold(self.facts.city.as_str())
    }

    /// Replaces the fields that managers write. Returns false if nothing changed.
    pub fn update(&mut self, fields: Edited<ProjectFacts>, by: UserId, now: OffsetDateTime) -> bool {
        let external_id = fields.external_id.apply(self.external_id.clone());
        if self.facts == fields.facts && self.external_id == external_id {
            return false;
        }
        (self.facts, self.external_id) = (fields.facts, external_id);
        self.touch(by, now);
        true
    }

    /// Publishes the project.
    ///
    /// # Errors
    /// - [`PROJECT_INVALID_TRANSITION`] if the project is Published already.
    /// - [`PROJECT_DEVELOPER_NOT_PUBLISHED`] if the developer is not Published (INV-PRJ-1).
    pub fn publish(
        &mut self,
        developer_is_published: bool,
        by: UserId,
        now: OffsetDateTime,
    ) -> Result<(), Code> {
        if self.status == ProjectStatus::Published {
            return Err(PROJECT_INVALID_TRANSITION);
        }
        if !developer_is_published {
            return Err(PROJECT_DEVELOPER_NOT_PUBLISHED);
        }
        self.status = ProjectStatus::Published;
        self.published_at.get_or_insert(now);
        self.touch(by, now);
        Ok(())
    }

    /// Hides the project.
    ///
    /// # Errors
    /// [`PROJECT_INVALID_TRANSITION`] if the project is not Published.
    pub fn hide(&mut self, by: UserId, now: OffsetDateTime) -> Result<(), Code> {
        if self.status != ProjectStatus::Published {
            return Err(PROJECT_INVALID_TRANSITION);
        }
        self.status = ProjectStatus::Hidden;
        self.touch(by, now);
        Ok(())
    }

    pub fn delete(&mut self, by: UserId, now: OffsetDateTime) {
        self.deleted_at = Some(now);
        self.touch(by, now);
    }

    fn touch(&mut self, by: UserId, now: OffsetDateTime) {
        self.updated_at = now;
        self.updated_by_user_id = by;
    }
}

#[cfg(test)]
mod tests {
    use auth::{CompanyId, UserId};
    use time::OffsetDateTime;
    use values::Text;

    use super::{Latitude, Longitude, Project, ProjectClass, ProjectFacts, ProjectStatus};
    use crate::domain::{Edited, ExternalIdEdit};
    use crate::error::{PROJECT_DEVELOPER_NOT_PUBLISHED, PROJECT_INVALID_TRANSITION};

    fn project(status: ProjectStatus) -> Project {
        let facts = ProjectFacts {
            name: Text::parse("Сосны").unwrap(),
            description: None,
            class: ProjectClass::Comfort,
            city: Text::parse("Казань").unwrap(),
            address: Text::parse("ул. Мира, 1").unwrap(),
            latitude: None,
            longitude: None,
            cover_file_id: None,
        };
        let fields = Edited { facts, external_id: ExternalIdEdit::Keep };
        let new = Project::new(CompanyId::generate(), fields, UserId::generate(), OffsetDateTime::UNIX_EPOCH);
        Project { status, ..new }
    }

    /// INV-PRJ-1, RULE-CHS-034, RULE-CHS-035: each transition of a project follows the table.
    /// Publishing requires a Published developer.
    #[test]
    fn project_transition_follows_table() {
        use ProjectStatus::{Draft, Hidden, Published};
        let (by, now) = (UserId::generate(), OffsetDateTime::UNIX_EPOCH);
        for (from, developer_is_published, publish_result, hide_result) in [
            (Draft, true, Ok(()), Err(PROJECT_INVALID_TRANSITION)),
            (Draft, false, Err(PROJECT_DEVELOPER_NOT_PUBLISHED), Err(PROJECT_INVALID_TRANSITION)),
            (Published, true, Err(PROJECT_INVALID_TRANSITION), Ok(())),
            (Published, false, Err(PROJECT_INVALID_TRANSITION), Ok(())),
            (Hidden, true, Ok(()), Err(PROJECT_INVALID_TRANSITION)),
            (Hidden, false, Err(PROJECT_DEVELOPER_NOT_PUBLISHED), Err(PROJECT_INVALID_TRANSITION)),
        ] {
            assert_eq!(project(from).publish(developer_is_published, by, now), publish_result, "{from}");
            assert_eq!(project(from).hide(by, now), hide_result, "{from}");
        }
    }

    /// INV-PRJ-1: `PublishedAt` is the time of the first publication.
    #[test]
    fn second_publication_keeps_published_at() {
        let (by, first) = (UserId::generate(), OffsetDateTime::UNIX_EPOCH);
        let mut project = project(ProjectStatus::Draft);
        project.publish(true, by, first).unwrap();
        project.hide(by, first).unwrap();
        project.publish(true, by, first + time::Duration::HOUR).unwrap();
        assert_eq!(project.published_at, Some(first));
    }

    /// RULE-CHS-023: a latitude or longitude out of its range is rejected.
    #[test]
    fn degrees_out_of_range_are_rejected() {
        for json in ["90", "-90", "55.751244", "0", "-0.0", "9e1"] {
            serde_json::from_str::<Latitude>(json).unwrap();
        }
        for json in ["90.0000001", "-91", "1e300", "\"1\"", "9223372036854775807"] {
            assert!(serde_json::from_str::<Latitude>(json).is_err(), "{json}");
        }
        serde_json::from_str::<Longitude>("180").unwrap();
        assert!(serde_json::from_str::<Longitude>("-180.5").is_err());
    }

    /// A change or a deletion records its author and its time. Searches match the folded texts.
    #[test]
    fn change_records_its_author_and_its_time() {
        let (by, later) = (UserId::generate(), OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR);
        let mut project = project(ProjectStatus::Draft);
        assert_eq!((project.folded_name().as_str(), project.folded_city().as_str()), ("сосны", "казань"));
        project.publish(true, by, later).unwrap();
        assert_eq!((project.updated_at, project.updated_by_user_id), (later, by));
        let deleted_at = later + time::Duration::HOUR;
        project.delete(by, deleted_at);
        assert_eq!((project.deleted_at, project.updated_at), (Some(deleted_at), deleted_at));
    }

    /// The schema of a latitude has both bounds.
    #[test]
    fn schema_of_degrees_has_both_bounds() {
        let schema = serde_json::to_value(<Latitude as utoipa::PartialSchema>::schema()).unwrap();
        assert_eq!((&schema["minimum"], &schema["maximum"]), (&(-90).into(), &90.into()));
    }
}
