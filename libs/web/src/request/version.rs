//! Entity versions in requests.

use serde::{Deserialize, Deserializer};
use values::{Invalid, Number, read_number};

/// Deserializes the optional version that a caller expects, an integer of 64 bits.
///
/// An invalid version does not end the reading, so a response also lists the other errors.
pub fn read_version<'de, D: Deserializer<'de>>(version: D) -> Result<Option<i64>, D::Error> {
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

    /// RULE-ALL-022: an invalid version hides no other error.
    #[test]
    fn invalid_version_hides_no_other_error() {
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Request {
            #[serde(default, deserialize_with = "super::read_version")]
            version: Option<i64>,
            #[expect(dead_code, reason = "only decoding is tested")]
            name: Text<1, 3>,
        }
        for version in ["\"x\"", "1.5", "true", "[1]", "9223372036854775808"] {
            let problem =
                decode::<Request>(format!(r#"{{"Version": {version}, "Name": ""}}"#).as_bytes()).unwrap_err();
            let errors: Vec<_> =
                problem.details().errors.iter().map(|error| (&*error.field, error.invalid.code)).collect();
            assert_eq!(errors, [("/Version", "invalid_type"), ("/Name", "too_short")], "{version}");
        }
        let version = |body: &str| decode::<Request>(body.as_bytes()).unwrap().version;
        assert_eq!(version(r#"{"Name": "a"}"#), None);
        assert_eq!(version(r#"{"Version": null, "Name": "a"}"#), None);
        assert_eq!(version(r#"{"Version": -9223372036854775808, "Name": "a"}"#), Some(i64::MIN));
    }
}
