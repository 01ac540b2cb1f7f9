//! What is going to be taken back says so, long before: `Deprecation` (RFC 9745) since when, `Sunset` (RFC 8594) until when.

use anyhow::{Context, ensure};
use serde_json::Value;
use time::format_description::well_known::Rfc2822;
use time::{Duration, OffsetDateTime};

use crate::client::Response;

/// How long callers have after they were told.
const NOTICE: Duration = Duration::days(180);

/// Whether an answer tells of its end as its operation does: of one that is marked as `deprecated` every answer does, of
/// any other none.
///
/// # Errors
/// What it lacks, or has too much.
pub(crate) fn check(operation: &Value, answer: &Response) -> anyhow::Result<()> {
    let (deprecation, sunset) = (answer.header("deprecation"), answer.header("sunset"));
    if operation["deprecated"] != true {
        ensure!(deprecation.is_empty() && sunset.is_empty(), "its operation is not documented as deprecated");
        return Ok(());
    }
    let since = deprecation.strip_prefix('@').and_then(|seconds| seconds.parse().ok());
    let since = since.with_context(|| format!("since when it is deprecated is not told: {deprecation:?}"))?;
    let since = OffsetDateTime::from_unix_timestamp(since)?;
    let until = OffsetDateTime::parse(sunset, &Rfc2822)
        .with_context(|| format!("until when it is there is not told: {sunset:?}"))?;
    ensure!(until - since >= NOTICE, "it ends {} after it was deprecated", until - since);
    Ok(())
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::{Value, json};

    use super::check;
    use crate::client::Response;

    fn answer(headers: &[(&'static str, &'static str)]) -> Response {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers = headers.iter().map(header).collect();
        Response { status: 200, headers, body: Value::Null, text: String::new() }
    }

    #[test]
    fn what_is_deprecated_tells_since_when_and_has_180_days() {
        // 1 January 2027; 30 June is 180 days later.
        let since = ("deprecation", "@1798761600");
        let until = |date| answer(&[since, ("sunset", date)]);
        let deprecated = json!({"deprecated": true});
        check(&deprecated, &until("Wed, 30 Jun 2027 00:00:00 GMT")).unwrap();
        for wrong in [
            until("Tue, 29 Jun 2027 23:59:59 GMT"),
            until("soon"),
            answer(&[since]),
            answer(&[("deprecation", "true"), ("sunset", "Wed, 30 Jun 2027 00:00:00 GMT")]),
            answer(&[("sunset", "Wed, 30 Jun 2027 00:00:00 GMT")]),
            answer(&[]),
        ] {
            assert!(check(&deprecated, &wrong).is_err(), "{:?}", wrong.headers);
        }
    }

    #[test]
    fn nothing_else_says_that_it_ends() {
        check(&json!({}), &answer(&[])).unwrap();
        assert!(check(&json!({}), &answer(&[("deprecation", "@1798761600")])).is_err());
        let sunset = answer(&[("sunset", "Wed, 30 Jun 2027 00:00:00 GMT")]);
        assert!(check(&json!({"deprecated": false}), &sunset).is_err());
    }
}
