//! Names of hosts.

use url::Host;

use crate::visible::is_invisible;

/// The maximum length of a label of a name, in ASCII characters.
const MAX_LABEL: usize = 63;
/// The maximum length of a name, in ASCII characters.
const MAX_NAME: usize = 253;

/// Returns the ASCII form of a host name with a dot, such as `xn--e1afmkfd.xn--p1ai`.
///
/// Returns `None` for an IP address in any notation, and for a name without a dot or with an empty
/// label. A name with invisible or percent-encoded characters is `None`, too.
pub fn ascii_name(host: &str) -> Option<String> {
    if host.contains(|c: char| c == '%' || is_invisible(c)) {
        return None;
    }
    let Ok(Host::Domain(name)) = Host::parse(host) else { return None };
    let is_label =
        |label: &str| label.len() <= MAX_LABEL && label.contains(|c: char| c.is_ascii_alphanumeric());
    let (_, top) = name.rsplit_once('.')?;
    let is_name = name.len() <= MAX_NAME
        && name.split('.').all(is_label)
        && top.contains(|c: char| c.is_ascii_alphabetic());
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ascii_name;

    /// RULE-ALL-009: a host is a name with a dot.
    #[test]
    fn name_with_a_dot_is_a_host() {
        for (host, ascii) in [
            ("Example.org", "example.org"),
            ("a.b", "a.b"),
            ("пример.рф", "xn--e1afmkfd.xn--p1ai"),
            ("1c.ru", "1c.ru"),
            ("127.0.0.1.example.org", "127.0.0.1.example.org"),
        ] {
            assert_eq!(ascii_name(host).as_deref(), Some(ascii));
        }
        assert!(ascii_name("डाटामेल.भारत").is_some());
    }

    /// RULE-ALL-009: an address, a name without a dot and a name with invisible characters are no
    /// hosts.
    #[test]
    fn other_text_is_no_host() {
        for host in [
            "",
            ".",
            "..",
            "localhost",
            "org.",
            ".org",
            "example.org.",
            "example..org",
            "example.123",
            "127.0.0.1",
            "127.1",
            "0x7f.1",
            "2130706433",
            "１２７.0.0.1",
            "[::1]",
            "::1",
            "exa mple.org",
            "ex%61mple.org",
            "example\u{200b}.org",
            "exam\u{ad}ple.org",
            "\u{202e}example.org",
            "example.org\u{feff}",
            "-.org",
            "example.-",
        ] {
            assert_eq!(ascii_name(host), None, "{host:?}");
        }
        assert_eq!(ascii_name(&format!("{}.org", "a".repeat(64))), None);
        assert_eq!(ascii_name(&format!("{}org", "a.".repeat(126))), None);
    }

    proptest! {
        /// RULE-ALL-009: the ASCII form of a host is a host with the same form.
        #[test]
        fn ascii_form_of_a_host_is_stable(host in "\\PC{0,12}|[a-zа-я0-9.-]{1,20}|[0-9.]{1,15}") {
            if let Some(ascii) = ascii_name(&host) {
                prop_assert!(ascii.is_ascii() && ascii.contains('.'));
                prop_assert_eq!(ascii_name(&ascii), Some(ascii));
            }
        }

        /// RULE-ALL-009: no IP address is a host.
        #[test]
        fn ip_address_is_no_host(address: std::net::IpAddr) {
            prop_assert_eq!(ascii_name(&address.to_string()), None);
            prop_assert_eq!(ascii_name(&format!("[{address}]")), None);
        }
    }
}
