//! Addresses of the web.

use url::Url;
use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat};

use crate::{Checked, Invalid, Rule, Text};

/// An absolute address of http or https without a user name, of `MAX` Unicode scalar values at most, kept as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HttpAddress<const MAX: usize> {}

/// An address of the web.
pub type WebAddress<const MAX: usize> = Checked<HttpAddress<MAX>>;

impl<const MAX: usize> Rule for HttpAddress<MAX> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        Text::<1, MAX>::parse(raw)?;
        // What browsers mend (white space, backslashes, missing slashes) is not an address yet.
        let is_tidy = !raw.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\');
        let has_scheme = ["http://", "https://"].iter().any(|scheme| {
            let (beginning, rest) = raw.split_at_checked(scheme.len()).unwrap_or_default();
            beginning.eq_ignore_ascii_case(scheme) && !rest.starts_with('/')
        });
        // A user name looks like the host, and a password would be public.
        let authority = raw.split("//").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
        let is_anonymous = authority.is_some_and(|authority| !authority.contains('@'));
        let is_address =
            is_tidy && has_scheme && is_anonymous && Url::parse(raw).is_ok_and(|url| url.has_host());
        if is_address { Ok(raw.to_owned()) } else { Err(Invalid::new("bad_url")) }
    }

    fn name() -> String {
        format!("WebAddress_{MAX}")
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.format(Some(SchemaFormat::Custom("iri".to_owned())))
            .min_length(Some(1))
            .max_length(Some(MAX))
            .pattern(Some("^[Hh][Tt][Tt][Pp][Ss]?://[^\\s\\\\]+$"))
            .examples(["https://example.org/about"])
    }
}

#[cfg(test)]
mod tests {
    use super::WebAddress;

    #[test]
    fn an_absolute_http_address_is_kept_as_written() {
        for address in [
            "https://example.org",
            "HTTP://Example.org:8080/a?b=c#d",
            "https://пример.рф/о-нас",
            "https://example.org/@name?mail=a@b",
        ] {
            assert_eq!(WebAddress::<256>::parse(address).unwrap().as_str(), address);
        }
    }

    /// The rule is about the form of an address. Whether its host is public is not checked.
    #[test]
    fn an_address_of_a_host_that_is_not_public_is_kept() {
        for address in ["http://[::1]/", "http://127.0.0.1", "http://localhost", "https://intranet"] {
            assert_eq!(WebAddress::<256>::parse(address).unwrap().as_str(), address);
        }
    }

    #[test]
    fn what_is_no_absolute_http_address_is_refused() {
        for address in [
            "example.org",
            "//example.org",
            "/about",
            "ftp://example.org",
            "javascript:alert(1)",
            "http:example.org",
            "http:///example.org/",
            "https://",
            "https:\\\\example.org",
            " https://example.org",
            "https://example.org/a b",
            "https://exa mple.org",
            "https://example.org\n",
            "https://[::1",
            "https://a:b",
            "https://example.org@evil.example/",
            "https://user:secret@example.org",
            "https://@example.org",
            "https://user@example.org?a",
        ] {
            assert_eq!(WebAddress::<256>::parse(address).unwrap_err().code, "bad_url", "{address}");
        }
    }

    #[test]
    fn an_address_has_no_more_characters_than_it_may_have() {
        let longest = format!("https://example.org/{}", "я".repeat(236));
        assert!(WebAddress::<256>::parse(&longest).is_ok());
        assert_eq!(WebAddress::<256>::parse(&format!("{longest}я")).unwrap_err().code, "too_long");
        assert_eq!(WebAddress::<256>::parse("").unwrap_err().code, "too_short");
    }
}
