//! Web addresses.

use url::Url;
use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat};

use crate::checked::{Checked, Rule};
use crate::invalid::Invalid;
use crate::text::Text;

/// The rule for absolute http and https addresses without a user name, of at most `MAX` Unicode
/// scalar values. They are stored as sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HttpAddress<const MAX: usize> {}

/// An absolute http or https address.
pub type WebAddress<const MAX: usize> = Checked<HttpAddress<MAX>>;

impl<const MAX: usize> Rule for HttpAddress<MAX> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        Text::<1, MAX>::parse(raw)?;
        // Browsers correct white space, backslashes and missing slashes. This rule rejects them.
        let has_clean_characters = !raw.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\');
        let has_scheme = ["http://", "https://"].iter().any(|scheme| {
            let (beginning, rest) = raw.split_at_checked(scheme.len()).unwrap_or_default();
            beginning.eq_ignore_ascii_case(scheme) && !rest.starts_with('/')
        });
        // A user name can imitate a host, and a password would be public.
        let authority = raw.split("//").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
        let has_no_user = authority.is_some_and(|authority| !authority.contains('@'));
        let is_address = has_clean_characters
            && has_scheme
            && has_no_user
            && Url::parse(raw).is_ok_and(|url| url.has_host());
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

    /// RULE-ALL-009: web addresses are parsed and stored as written.
    #[test]
    fn absolute_http_address_is_stored_as_written() {
        for address in [
            "https://example.org",
            "HTTP://Example.org:8080/a?b=c#d",
            "https://пример.рф/о-нас",
            "https://example.org/@name?mail=a@b",
        ] {
            assert_eq!(WebAddress::<256>::parse(address).unwrap().as_str(), address);
        }
    }

    /// RULE-ALL-009: the rule checks only the form of an address, so a private host is accepted.
    #[test]
    fn address_of_a_private_host_is_accepted() {
        for address in ["http://[::1]/", "http://127.0.0.1", "http://localhost", "https://intranet"] {
            assert_eq!(WebAddress::<256>::parse(address).unwrap().as_str(), address);
        }
    }

    /// RULE-ALL-009: a text that is no web address is rejected.
    #[test]
    fn text_that_is_no_http_address_is_rejected() {
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
    fn address_of_invalid_length_is_rejected() {
        let longest_valid = format!("https://example.org/{}", "я".repeat(236));
        assert!(WebAddress::<256>::parse(&longest_valid).is_ok());
        assert_eq!(WebAddress::<256>::parse(&format!("{longest_valid}я")).unwrap_err().code, "too_long");
        assert_eq!(WebAddress::<256>::parse("").unwrap_err().code, "too_short");
    }
}
