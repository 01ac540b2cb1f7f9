//! Enums of the API.

/// Declares an enum whose variants have the same names in JSON, in text columns and in documents:
/// `text_enum! { /// The readers of a post. pub enum Audience { Everyone, Members } }`
///
/// The enum implements `FromStr`, `Into<&'static str>` and `Display`.
#[macro_export]
macro_rules! text_enum {
    ($(#[$doc:meta])* $visibility:vis enum $name:ident { $($(#[$about:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            $crate::serde::Serialize,
            $crate::strum::Display, $crate::strum::EnumString, $crate::strum::IntoStaticStr,
            $crate::strum::VariantNames,
            $crate::utoipa::ToSchema,
            $crate::diesel::AsExpression, $crate::diesel::FromSqlRow,
        )]
        #[serde(crate = "values::serde")]
        #[strum(crate = "values::strum")]
        #[diesel(sql_type = $crate::diesel::sql_types::Text)]
        $visibility enum $name { $($(#[$about])* $variant),+ }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(word: D) -> Result<Self, D::Error> {
                let parse = |word: &str| word.parse().map_err(|_| $crate::Invalid::new("unknown_value"));
                $crate::read_text(word, parse, || [$(Self::$variant),+][0])
            }
        }

        impl $crate::diesel::serialize::ToSql<$crate::diesel::sql_types::Text, $crate::diesel::pg::Pg> for $name {
            fn to_sql<'b>(
                &'b self,
                out: &mut $crate::diesel::serialize::Output<'b, '_, $crate::diesel::pg::Pg>,
            ) -> $crate::diesel::serialize::Result {
                std::io::Write::write_all(out, <&'static str>::from(*self).as_bytes())?;
                Ok($crate::diesel::serialize::IsNull::No)
            }
        }

        impl $crate::diesel::deserialize::FromSql<$crate::diesel::sql_types::Text, $crate::diesel::pg::Pg> for $name {
            fn from_sql(value: $crate::diesel::pg::PgValue<'_>) -> $crate::diesel::deserialize::Result<Self> {
                Ok(std::str::from_utf8(value.as_bytes())?.parse()?)
            }
        }
    };
}
