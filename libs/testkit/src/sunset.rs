//! The headers of deprecated operations: `Deprecation` (RFC 9745) and `Sunset` (RFC 8594).

use anyhow::{Context, ensure};
use serde_json::Value;
use time::format_description::well_known::Rfc2822;
use time::{Duration, OffsetDateTime};

use crate::response::Response;

/// Minimum time between the deprecation and the removal of an operation.
const NOTICE_PERIOD: Duration = Duration::days(180);

/// Checks that responses of a deprecated operation have both headers, and all others have none.
///
/// # Errors
/// If a header is missing, malformed or unexpected, or the notice period is too short.
pub(crate) fn check(operation: &Value, response: &Response) -> anyhow::Result<()> {
    let (deprecation, sunset) = (response.header("deprecation"), response.header("sunset"));
    if operation["deprecated"] != true {
        ensure!(deprecation.is_empty() && sunset.is_empty(), "its operation is not documented as deprecated");
        return Ok(());
    }
    let since = deprecation.strip_prefix('@').and_then(|seconds| seconds.parse().ok());
    let since = since.with_context(|| format!("the header Deprecation is not a time: {deprecation:?}"))?;
    let since = OffsetDateTime::from_unix_timestamp(since)?;
    let until = OffsetDateTime::parse(sunset, &Rfc2822)
        .with_context(|| format!("the header Sunset is not a date: {sunset:?}"))?;
    ensure!(until - since >= NOTICE_PERIOD, "the notice period is only {}", until - since);
    Ok(())
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::{Value, json};

    use super::check;
    use crate::response::Response;

    fn response(headers: &[(&'static str, &'static str)]) -> Response {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers = headers.iter().map(header).collect();
        Response { status: 200, headers, body: Value::Null, text: String::new() }
    }

    /// RULE-ALL-065: a deprecated operation has both headers, at least 180 days apart.
    #[test]
    fn deprecated_operation_needs_both_headers_180_days_apart() {
        // 1 January 2027; 30 June is 180 days later.
        let since = ("deprecation", "@1798761600");
        let until = |date| response(&[since, ("sunset", date)]);
        let deprecated = json!({"deprecated": true});
        check(&deprecated, &until("Wed, 30 Jun 2027 00:00:00 GMT")).unwrap();
        for wrong in [
            until("Tue, 29 Jun 2027 23:59:59 GMT"),
            until("soon"),
            response(&[since]),
            response(&[("deprecation", "true"), ("sunset", "Wed, 30 Jun 2027 00:00:00 GMT")]),
            response(&[("sunset", "Wed, 30 Jun 2027 00:00:00 GMT")]),
            response(&[]),
        ] {
            assert!(check(&deprecated, &wrong).is_err(), "{:?}", wrong.headers);
        }
    }

    /// RULE-ALL-065: an operation that is not deprecated has neither header.
    #[test]
    fn other_operation_must_have_neither_header() {
        check(&json!({}), &response(&[])).unwrap();
        assert!(check(&json!({}), &response(&[("deprecation", "@1798761600")])).is_err());
        let sunset = response(&[("sunset", "Wed, 30 Jun 2027 00:00:00 GMT")]);
        assert!(check(&json!({"deprecated": false}), &sunset).is_err());
    }
}
