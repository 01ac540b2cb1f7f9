//! Enums of the API.

/// Declares an enum whose variants have the same names in JSON, in text columns and in documents:
/// `text_enum! { /// The readers of a post. pub enum Audience { Everyone, Members } }`
///
/// The enum implements `FromStr`, `Into<&'static str>` and `Display`.
#[macro_export]
macro_rules! text_enum {
    ($(#[doc = $doc:literal])* $visibility:vis enum $name:ident {
        $($(#[doc = $about:literal])* $(#[strum($($strum:tt)*)])? $variant:ident),+ $(,)?
    }) => {
        $(#[doc = $doc])*
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
        #[schema(description = $crate::describe_values(
            &[$($doc),*],
            &[$((stringify!($variant), &[$($about),*])),+],
        ))]
        $visibility enum $name { $($(#[doc = $about])* $(#[strum($($strum)*)])? $variant),+ }

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

/// Returns the description of an enumeration for API documents: its comment, and then the comments
/// of its values.
#[doc(hidden)]
pub fn describe_values(about: &[&str], values: &[(&str, &[&str])]) -> String {
    let join =
        |lines: &[&str], separator| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(separator);
    let mut description = join(about, "\n");
    let described = values.iter().filter(|(_, about)| !about.is_empty());
    for (at, (value, about)) in described.enumerate() {
        let separator = if at == 0 { "\n\n" } else { "\n" };
        description.extend([separator, "- `", value, "`: ", &join(about, " ")]);
    }
    description
}

#[cfg(test)]
mod tests {
    use super::describe_values;

    /// RULE-ALL-110: the description of an enumeration explains its values.
    #[test]
    fn description_contains_comments_of_values() {
        let values: [(&str, &[&str]); 3] =
            [("Open", &[" It has room", " for a book."]), ("Full", &[]), ("Gone", &[" It is removed."])];
        let described = describe_values(&[" The state of a shelf.", " `Gone` is final."], &values);
        let comments = "\n\n- `Open`: It has room for a book.\n- `Gone`: It is removed.";
        assert_eq!(described, format!("The state of a shelf.\n`Gone` is final.{comments}"));
        assert_eq!(describe_values(&[" A color."], &[("Red", &[])]), "A color.");
    }
}
