//! The form of e-mail addresses.

use std::sync::LazyLock;

use regex::Regex;

use crate::host::ascii_name;
use crate::pattern::pattern;
use crate::visible::is_invisible;

/// The maximum length of the part before the `@`, in bytes (RFC 5321, section 4.5.3.1.1).
const MAX_LOCAL_BYTES: usize = 64;

/// A local part: words with dots between them (RFC 5322, section 3.2.3), in any script (RFC 6532).
///
/// A quoted local part may contain any character, also markup. People have no such addresses.
static LOCAL_PART: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^[\p{L}\p{M}\p{N}!#$%&'*+/=?^_`{|}~-]+(?:\.[\p{L}\p{M}\p{N}!#$%&'*+/=?^_`{|}~-]+)*$")
});

/// Returns true for `name@host`. The caller passes normalization form C.
pub fn is_email_address(address: &str) -> bool {
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    local.len() <= MAX_LOCAL_BYTES
        && !local.contains(is_invisible)
        && LOCAL_PART.is_match(local)
        && ascii_name(domain).is_some_and(|name| name.split('.').all(is_mail_label))
}

/// Returns true for a label of letters, digits and hyphens inside (RFC 5321, section 4.1.2).
fn is_mail_label(label: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    label.bytes().all(is_allowed) && !label.starts_with('-') && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::checked::{Email, TrimmedEmail};

    fn stored(address: &str) -> Option<String> {
        Email::<256>::parse(address).ok().map(|email| email.as_str().to_owned())
    }

    /// RULE-ALL-009: an e-mail address is stored as written, in normalization form C.
    #[test]
    fn email_address_of_any_script_is_accepted() {
        for address in [
            "Anna@Example.org",
            "a.b+c@mail.example.co",
            "o'neil_{x}@1c.ru",
            "сергей@пример.рф",
            "संपर्क@डाटामेल.भारत",
            "用户@例子.广告",
        ] {
            assert_eq!(stored(address).as_deref(), Some(address));
        }
        assert_eq!(stored("серге\u{438}\u{306}@чеи\u{306}.рф").as_deref(), Some("сергей@чей.рф"));
    }

    /// RULE-ALL-009: an address has no quotes, no number as its host and no invisible character.
    #[test]
    fn other_form_of_an_email_address_is_rejected() {
        let long_name = format!("{}@example.org", "a".repeat(65));
        for address in [
            "\"<script>alert(1)</script>\"@example.org",
            "\"a b\"@example.org",
            "\"anna\"@example.org",
            "user@127.0.0.1",
            "user@[127.0.0.1]",
            "user@example.123",
            "user@123",
            "user@localhost",
            "user@example.org.",
            "user@.example.org",
            "user@-example.org",
            "user@example-.org",
            "user@exa_mple.org",
            "user@ex%61mple.org",
            "us\u{200b}er@example.org",
            "user@exam\u{ad}ple.org",
            "user\u{202e}@example.org",
            ".user@example.org",
            "user.@example.org",
            "us..er@example.org",
            "us(er)@example.org",
            "<user@example.org>",
            "user,other@example.org",
            "a@b@example.org",
            "@example.org",
            "user@",
            &long_name,
        ] {
            assert_eq!(Email::<256>::parse(address).unwrap_err().code, "bad_email", "{address}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        /// RULE-ALL-009: a stored address that is sent again is stored unchanged.
        #[test]
        fn stored_address_is_stable(address in "\\PC{0,12}@\\PC{0,12}|\\PC{1,4}@[a-zа-я.-]{1,12}|\\PC{0,24}") {
            if let Some(email) = stored(&address) {
                prop_assert_eq!(stored(&email), Some(email.clone()));
                prop_assert!(!email.contains(|c: char| c.is_whitespace() || "\"<>()[],;:\\".contains(c)));
            }
        }

        /// RULE-ALL-009: an address of words is accepted, with and without white space around it.
        #[test]
        fn address_of_words_is_accepted(
            address in "[a-zа-яё0-9]{1,8}(\\.[a-zа-яё0-9+_-]{1,8}){0,2}@([a-zа-я0-9]{1,8}\\.){1,3}[a-zа-я]{2,8}",
        ) {
            prop_assert_eq!(stored(&address), Some(address.clone()));
            let padded = format!(" {address}\n");
            let trimmed = TrimmedEmail::<256>::parse(&padded).unwrap();
            prop_assert_eq!(trimmed.as_str(), address.as_str());
            prop_assert!(Email::<256>::parse(&padded).is_err());
        }
    }
}
