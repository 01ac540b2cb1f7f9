//! Versions in requests.

use serde::{Deserialize, Deserializer};
use values::{Invalid, Number, read_number};

/// Reads a version that a caller has seen, of a member that may be left out; any number of 64 bits may be one. What is none is
/// refused as a value is, so that it hides nothing else that is wrong.
///
/// # Errors
/// Those of the reading.
pub fn seen_version<'de, D: Deserializer<'de>>(version: D) -> Result<Option<i64>, D::Error> {
    struct Version(i64);

    impl<'de> Deserialize<'de> for Version {
        fn deserialize<D: Deserializer<'de>>(version: D) -> Result<Self, D::Error> {
            let parse = |number| match number {
                Number::Whole(number) => Ok(Self(number)),
                Number::Fraction(_) => Err(Invalid::new("invalid_type")),
            };
            read_number(version, parse, || Self(0))
        }
    }

    let version: Option<Version> = Option::deserialize(version)?;
    Ok(version.map(|Version(number)| number))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use values::Text;

    use crate::request::json::decode;

    /// What is no version is told of beside what follows on it.
    #[test]
    fn a_version_that_is_none_hides_nothing_else() {
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Seen {
            #[serde(default, deserialize_with = "super::seen_version")]
            version: Option<i64>,
            #[expect(dead_code, reason = "only decoding is tested")]
            name: Text<1, 3>,
        }
        for version in ["\"x\"", "1.5", "true", "[1]", "9223372036854775808"] {
            let problem =
                decode::<Seen>(format!(r#"{{"Version": {version}, "Name": ""}}"#).as_bytes()).unwrap_err();
            let told: Vec<_> =
                problem.details().errors.iter().map(|error| (&*error.field, error.invalid.code)).collect();
            assert_eq!(told, [("/Version", "invalid_type"), ("/Name", "too_short")], "{version}");
        }
        let seen = |body: &str| decode::<Seen>(body.as_bytes()).unwrap().version;
        assert_eq!(seen(r#"{"Name": "a"}"#), None);
        assert_eq!(seen(r#"{"Version": null, "Name": "a"}"#), None);
        assert_eq!(seen(r#"{"Version": -9223372036854775808, "Name": "a"}"#), Some(i64::MIN));
    }
}
