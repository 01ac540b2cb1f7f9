//! Web addresses.

use url::Url;
use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat};

use crate::checked::{Checked, Rule};
use crate::host::ascii_name;
use crate::invalid::Invalid;
use crate::text::Text;

/// The rule for absolute http and https addresses of public hosts without a user name, of at most
/// `MAX` Unicode scalar values. They are stored as sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HttpAddress<const MAX: usize> {}

/// An absolute http or https address.
pub type WebAddress<const MAX: usize> = Checked<HttpAddress<MAX>>;

impl<const MAX: usize> Rule for HttpAddress<MAX> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        Text::<1, MAX>::parse(raw)?;
        if is_web_address(raw) { Ok(raw.to_owned()) } else { Err(Invalid::new("bad_url")) }
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

/// The names of private networks and of the reader's own computer (RFC 6761, RFC 6762, RFC 8375).
const PRIVATE_NAMES: [&str; 4] = [".localhost", ".local", ".internal", ".home.arpa"];

fn is_web_address(address: &str) -> bool {
    // Browsers correct white space, backslashes and missing slashes. This rule rejects them.
    // Characters that change the direction of the text would show another address.
    let has_clean_characters = !address.contains(|c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\\' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    });
    let has_scheme = ["http://", "https://"].iter().any(|scheme| {
        let (beginning, rest) = address.split_at_checked(scheme.len()).unwrap_or_default();
        beginning.eq_ignore_ascii_case(scheme) && !rest.starts_with('/')
    });
    let authority = address.split("//").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
    has_clean_characters
        && has_scheme
        && authority.is_some_and(is_public_authority)
        && Url::parse(address).is_ok()
}

/// Returns true for a host that guests can open, with or without a port.
///
/// A user name can imitate a host, and a password would be public. An IP address and a private name
/// belong to no public page.
fn is_public_authority(authority: &str) -> bool {
    let host = authority.split_once(':').map_or(authority, |(host, _)| host);
    let name = ascii_name(host.strip_suffix('.').unwrap_or(host));
    !authority.contains('@')
        && name.is_some_and(|name| PRIVATE_NAMES.iter().all(|private| !name.ends_with(private)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::WebAddress;

    /// RULE-ALL-009: web addresses are parsed and stored as written.
    #[test]
    fn absolute_http_address_is_stored_as_written() {
        for address in [
            "https://example.org",
            "HTTP://Example.org:8080/a?b=c#d",
            "https://пример.рф/о-нас",
            "https://example.org/@name?mail=a@b",
            "https://example.org:8443",
            "https://example.org./",
            "http://my_shop.example.org",
            "https://www.1c.ru/",
        ] {
            assert_eq!(WebAddress::<256>::parse(address).unwrap().as_str(), address);
        }
    }

    /// RULE-ALL-009: an address that guests cannot open is rejected.
    #[test]
    fn address_of_a_private_host_is_rejected() {
        for address in [
            "http://.",
            "http://./",
            "http://..",
            "http://org.",
            "http://localhost",
            "http://localhost:8080/",
            "http://shop.localhost",
            "https://intranet",
            "https://nas.local/",
            "https://nas.local./",
            "https://db.internal",
            "https://router.home.arpa",
            "http://127.0.0.1",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.0.0.1/",
            "http://10.0.0.1:8080/",
            "http://192.0.2.1/",
            "http://[::1]/",
            "http://[2001:db8::1]:80/",
        ] {
            assert_eq!(WebAddress::<256>::parse(address).unwrap_err().code, "bad_url", "{address}");
        }
    }

    /// RULE-ALL-009: an address with a hidden character in its host, or with a character that
    /// changes the direction, is rejected.
    #[test]
    fn address_with_a_hidden_character_is_rejected() {
        for c in
            ['\u{ad}', '\u{200b}', '\u{200d}', '\u{200e}', '\u{2060}', '\u{feff}', '\u{fe0f}', '\u{e0020}']
        {
            let address = format!("https://exam{c}ple.org/");
            assert_eq!(WebAddress::<256>::parse(&address).unwrap_err().code, "bad_url", "{address:?}");
        }
        for address in
            ["https://example.org/\u{202e}gro.live", "https://ex%61mple.org", "https://example.org\u{2066}/"]
        {
            assert_eq!(WebAddress::<256>::parse(address).unwrap_err().code, "bad_url", "{address:?}");
        }
        // Persian words have joiners.
        assert!(WebAddress::<256>::parse("https://example.org/می\u{200c}خواهم").is_ok());
    }

    proptest! {
        /// RULE-ALL-009: an accepted address has no user and a host with a dot.
        #[test]
        fn accepted_address_has_a_public_host(
            address in "https?://\\PC{0,16}|https?://[a-zа-я0-9.:@/\\[\\]%_-]{1,24}|https?://[0-9.:]{1,15}/",
        ) {
            if WebAddress::<256>::parse(&address).is_ok() {
                let url = url::Url::parse(&address).unwrap();
                prop_assert_eq!((url.username(), url.password()), ("", None));
                prop_assert!(url.domain().unwrap().trim_end_matches('.').contains('.'), "{}", address);
            }
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
