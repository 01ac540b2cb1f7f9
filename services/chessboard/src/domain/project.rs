//! A project: what a developer builds in one place.

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

use super::{FileId, ProjectId};
use crate::db::schema::project;
use crate::error::{PROJECT_DEVELOPER_NOT_PUBLISHED, PROJECT_INVALID_TRANSITION};

pub type ProjectName = Text<1, 256>;
pub type ProjectDescription = Text<0, 4000>;
pub type City = Text<1, 128>;
pub type Address = Text<1, 512>;
pub type Latitude = Degrees<90>;
pub type Longitude = Degrees<180>;

/// Degrees of `-MAX..=MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, AsExpression, FromSqlRow)]
#[serde(transparent)]
#[diesel(sql_type = Double)]
pub struct Degrees<const MAX: i32>(f64);

impl<const MAX: i32> Degrees<MAX> {
    /// # Errors
    /// `out_of_range` (with `min` and `max`)
    pub fn parse(degrees: f64) -> Result<Self, Invalid> {
        let max = f64::from(MAX);
        if (-max..=max).contains(&degrees) {
            return Ok(Self(degrees));
        }
        Err(Invalid { code: "out_of_range", args: vec![("min", (-MAX).into()), ("max", MAX.into())] })
    }
}

impl<'de, const MAX: i32> Deserialize<'de> for Degrees<MAX> {
    fn deserialize<D: Deserializer<'de>>(degrees: D) -> Result<Self, D::Error> {
        let parse = |number| match number {
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
    /// What a project is built for.
    pub enum ProjectClass {
        Economy,
        Comfort,
        Business,
        Elite,
    }
}

values::text_enum! {
    /// Guests see what is Published, of a developer who is.
    pub enum ProjectStatus {
        Draft,
        Published,
        Hidden,
    }
}

/// What a project is described by.
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

/// The aggregate, which is also its row and its answer.
#[derive(Clone, Debug, Queryable, Selectable, Insertable, Serialize, ToSchema)]
#[diesel(table_name = project, check_for_backend(Pg), treat_none_as_default_value = false)]
#[serde(rename_all = "PascalCase")]
pub struct Project {
    pub id: ProjectId,
    pub tenant_id: CompanyId,
    #[serde(flatten)]
    #[diesel(embed)]
    pub facts: ProjectFacts,
    pub status: ProjectStatus,
    /// When it was published first.
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
    /// For `Version` of the next change.
    pub version: i64,
}

impl Project {
    pub fn new(tenant_id: CompanyId, facts: ProjectFacts, by: UserId, now: OffsetDateTime) -> Self {
        Self {
            id: ProjectId::generate(),
            tenant_id,
            facts,
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

    /// By which it is found and lists sort it.
    pub fn lower_name(&self) -> String {
        fold(self.facts.name.as_str())
    }

    /// By which it is found.
    pub fn lower_city(&self) -> String {
        fold(self.facts.city.as_str())
    }

    /// Publishes it; its developer is Published or not.
    ///
    /// # Errors
    /// [`PROJECT_INVALID_TRANSITION`], [`PROJECT_DEVELOPER_NOT_PUBLISHED`] (INV-PRJ-1)
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

    /// # Errors
    /// [`PROJECT_INVALID_TRANSITION`]
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

    pub fn touch(&mut self, by: UserId, now: OffsetDateTime) {
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
        let new = Project::new(CompanyId::generate(), facts, UserId::generate(), OffsetDateTime::UNIX_EPOCH);
        Project { status, ..new }
    }

    /// The table of moves, and INV-PRJ-1.
    #[test]
    fn a_project_moves_as_the_table_says() {
        use ProjectStatus::{Draft, Hidden, Published};
        let (by, now) = (UserId::generate(), OffsetDateTime::UNIX_EPOCH);
        for (from, published, publishing, hiding) in [
            (Draft, true, Ok(()), Err(PROJECT_INVALID_TRANSITION)),
            (Draft, false, Err(PROJECT_DEVELOPER_NOT_PUBLISHED), Err(PROJECT_INVALID_TRANSITION)),
            (Published, true, Err(PROJECT_INVALID_TRANSITION), Ok(())),
            (Published, false, Err(PROJECT_INVALID_TRANSITION), Ok(())),
            (Hidden, true, Ok(()), Err(PROJECT_INVALID_TRANSITION)),
            (Hidden, false, Err(PROJECT_DEVELOPER_NOT_PUBLISHED), Err(PROJECT_INVALID_TRANSITION)),
        ] {
            assert_eq!(project(from).publish(published, by, now), publishing, "{from}");
            assert_eq!(project(from).hide(by, now), hiding, "{from}");
        }
    }

    #[test]
    fn the_first_publication_is_the_one_that_is_kept() {
        let (by, first) = (UserId::generate(), OffsetDateTime::UNIX_EPOCH);
        let mut moved = project(ProjectStatus::Draft);
        moved.publish(true, by, first).unwrap();
        moved.hide(by, first).unwrap();
        moved.publish(true, by, first + time::Duration::HOUR).unwrap();
        assert_eq!(moved.published_at, Some(first));
    }

    #[test]
    fn degrees_are_within_their_bounds() {
        for json in ["90", "-90", "55.751244", "0", "-0.0", "9e1"] {
            serde_json::from_str::<Latitude>(json).unwrap();
        }
        for json in ["90.0000001", "-91", "1e300", "\"1\"", "9223372036854775807"] {
            assert!(serde_json::from_str::<Latitude>(json).is_err(), "{json}");
        }
        serde_json::from_str::<Longitude>("180").unwrap();
        assert!(serde_json::from_str::<Longitude>("-180.5").is_err());
    }
}
