//! Typed ids. The compiler rejects a `PostId` where a `SelectionId` is required.

#[doc(hidden)]
pub use {diesel, serde, utoipa, uuid, values};

use serde::{Deserialize, Deserializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use uuid::Uuid;
use values::{Invalid, read_text};

/// An id in a request that refers to an entity. The nil id is rejected with `empty_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<T>(pub T);

impl<'de, T: From<Uuid>> Deserialize<'de> for Reference<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| match text.parse::<Uuid>() {
            Ok(id) if id.is_nil() => Err(Invalid::new("empty_id")),
            Ok(id) => Ok(Self(id.into())),
            Err(_) => Err(Invalid::new("invalid_type")),
        };
        read_text(deserializer, parse, || Self(Uuid::nil().into()))
    }
}

impl<T: utoipa::PartialSchema> utoipa::PartialSchema for Reference<T> {
    fn schema() -> RefOr<Schema> {
        T::schema()
    }
}

impl<T: utoipa::ToSchema> utoipa::ToSchema for Reference<T> {
    fn name() -> std::borrow::Cow<'static, str> {
        T::name()
    }
}

/// Declares a typed id over [`uuid::Uuid`], as in `typed_id!(SelectionId);`. A doc comment may
/// precede the name.
///
/// On the wire and in the database the id is a plain UUID. `generate` creates a UUIDv7. Such ids
/// sort by time, so new rows are added at the end of an index. Any UUID is accepted as input.
#[macro_export]
macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            $crate::serde::Serialize,
            $crate::diesel::AsExpression, $crate::diesel::FromSqlRow,
        )]
        #[serde(crate = "ids::serde", transparent)]
        #[diesel(sql_type = $crate::diesel::sql_types::Uuid)]
        pub struct $name($crate::uuid::Uuid);

        impl $name {
            /// Creates a time-ordered id.
            #[expect(clippy::disallowed_methods, reason = "the only place that creates ids")]
            pub fn generate() -> Self {
                Self($crate::uuid::Uuid::now_v7())
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let parse = |id: &str| id.parse().map_err(|_| $crate::values::Invalid::new("invalid_type"));
                $crate::values::read_text(deserializer, parse, || Self($crate::uuid::Uuid::nil()))
            }
        }

        impl From<$crate::uuid::Uuid> for $name {
            fn from(id: $crate::uuid::Uuid) -> Self {
                Self(id)
            }
        }

        impl From<$name> for $crate::uuid::Uuid {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $crate::diesel::serialize::ToSql<$crate::diesel::sql_types::Uuid, $crate::diesel::pg::Pg> for $name {
            fn to_sql<'b>(
                &'b self,
                out: &mut $crate::diesel::serialize::Output<'b, '_, $crate::diesel::pg::Pg>,
            ) -> $crate::diesel::serialize::Result {
                $crate::diesel::serialize::ToSql::<$crate::diesel::sql_types::Uuid, $crate::diesel::pg::Pg>::to_sql(&self.0, out)
            }
        }

        impl $crate::diesel::deserialize::FromSql<$crate::diesel::sql_types::Uuid, $crate::diesel::pg::Pg> for $name {
            fn from_sql(value: $crate::diesel::pg::PgValue<'_>) -> $crate::diesel::deserialize::Result<Self> {
                $crate::diesel::deserialize::FromSql::<$crate::diesel::sql_types::Uuid, $crate::diesel::pg::Pg>::from_sql(value).map(Self)
            }
        }

        impl $crate::utoipa::PartialSchema for $name {
            fn schema() -> $crate::utoipa::openapi::RefOr<$crate::utoipa::openapi::schema::Schema> {
                $crate::utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type($crate::utoipa::openapi::schema::Type::String)
                    .format(Some($crate::utoipa::openapi::schema::SchemaFormat::KnownFormat(
                        $crate::utoipa::openapi::schema::KnownFormat::Uuid,
                    )))
                    .into()
            }
        }

        impl $crate::utoipa::ToSchema for $name {}
    };
}
