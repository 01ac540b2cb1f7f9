//! Personal data and secrets in texts that everyone may read.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use crate::checked::Email;
use crate::invalid::Invalid;
use crate::pattern::pattern;
use crate::phone::{PhoneRegion, has_phone_number};
use crate::visible::is_invisible;

/// Rejects a public text that contains personal data or a secret.
///
/// # Errors
/// - `secret` for a token, a key or a password.
/// - `personal_data` for an e-mail address, or for a phone number of `region` or with a country
///   code.
pub fn check_public(text: &str, region: PhoneRegion) -> Result<(), Invalid> {
    let visible = visible(text);
    if has_secret(&visible) {
        return Err(Invalid::new("secret"));
    }
    if has_email_address(&visible) || has_phone_number(&AMOUNT.replace_all(&visible, "$1;"), region) {
        return Err(Invalid::new("personal_data"));
    }
    Ok(())
}

/// An amount of money, an area or a distance: digits in groups of three, then a unit. Its digits
/// could also be a phone number, so the search for phone numbers leaves it out.
static AMOUNT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)(^|[^\d+])\d{1,3}(?:[ .,'’]\d{3}){2,} ?(?:₽|\$|€|руб|rub|usd|eur|м²|м2|м³|м3|кв\b|км\b|га\b)",
    )
});

/// Returns a text as readers see it, with one space for each run of white space.
///
/// Removes invisible characters and combining marks, because they would hide a number or an
/// address. For example, address books write invisible characters around numbers.
fn visible(text: &str) -> String {
    let is_hidden = |c: char| is_invisible(c) || matches!(c, '\u{300}'..='\u{36f}' | '\u{20d0}'..='\u{20ff}');
    let mut visible = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !is_hidden(*c)) {
        match c {
            c if c.is_whitespace() => {
                if !visible.ends_with(' ') {
                    visible.push(' ');
                }
            }
            '＠' => visible.push('@'),
            c => visible.push(c),
        }
    }
    visible
}

fn has_email_address(text: &str) -> bool {
    text.match_indices('@').any(|(at, _)| is_address_at(text, at))
}

/// Returns true if the `@` at this position belongs to an e-mail address.
///
/// A character of a local part precedes it, and a domain follows it. The domain may end after any
/// of its labels, because more text may follow without a space.
fn is_address_at(text: &str, at: usize) -> bool {
    let is_local_char = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~\"".contains(c);
    let after = text[at + 1..].split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '.')).next();
    let after = after.unwrap_or_default();
    let mut ends = after.match_indices('.').map(|(end, _)| end).chain([after.len()]);
    let is_domain = |end: usize| {
        let domain = after[..end].trim_end_matches('-');
        Email::<256>::parse(&format!("x@{domain}")).is_ok()
    };
    text[..at].ends_with(is_local_char) && ends.any(is_domain)
}

/// The forms of secrets that secret scanners for repositories search for.
const SECRETS: [&str; 14] = [
    // Private keys in PEM.
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY",
    // JSON Web Tokens.
    r"\bey[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_-]{10,}\.",
    // The header `Authorization`.
    r"(?i)\b(?:bearer|basic) [a-z0-9._~+/-]{20,}",
    // Amazon Web Services.
    r"\b(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}\b",
    // Stripe.
    r"\b(?:[rs]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/]{20,})",
    // GitHub and GitLab.
    r"\b(?:gh[opsru]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,})",
    // Slack.
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    // Google.
    r"\b(?:AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,})",
    // OpenAI and Anthropic.
    r"\bsk-[A-Za-z0-9_-]{20,}",
    // npm.
    r"\bnpm_[A-Za-z0-9]{36}",
    // Bots of Telegram.
    r"\b[0-9]{8,10}:[A-Za-z0-9_-]{35}",
    // Addresses with a password.
    r"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@",
    // Passwords with a name. The value has letters and digits.
    r"(?i)\b(?:password|passwd|pwd|secret|token|(?:api|access)[ _-]?key|пароль|токен) ?[:=] ?\S*(?:\pL\S*\d|\d\S*\pL)",
    // Keys and digests in hexadecimal digits.
    r"\b[0-9A-Fa-f]{32,}\b",
];

static SECRET: LazyLock<RegexSet> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the patterns are constant")]
    RegexSet::new(SECRETS).expect("valid patterns")
});

/// A word that may be a key in base64.
///
/// A hyphen ends a word, so the words in the addresses of pages are usually too short to match.
static BASE64: LazyLock<Regex> = LazyLock::new(|| pattern("[A-Za-z0-9+/]{32,}"));

/// The lowest entropy of a key in base64, in bits of each character. Random keys have about 4.7,
/// words about 4.
const MIN_KEY_ENTROPY: f64 = 4.5;

fn has_secret(text: &str) -> bool {
    let is_key = |word: &str| {
        let has = |is: fn(&char) -> bool| word.chars().any(|c| is(&c));
        has(char::is_ascii_digit)
            && has(char::is_ascii_uppercase)
            && has(char::is_ascii_lowercase)
            && entropy(word) >= MIN_KEY_ENTROPY
    };
    SECRET.is_match(text) || BASE64.find_iter(text).any(|word| is_key(word.as_str()))
}

/// Returns the Shannon entropy of a text, in bits of each character.
fn entropy(text: &str) -> f64 {
    let mut counts = HashMap::new();
    for c in text.chars() {
        *counts.entry(c).or_insert(0_u32) += 1;
    }
    let total: u32 = counts.values().sum();
    let share = |count: &u32| f64::from(*count) / f64::from(total);
    counts.values().map(share).map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::check_public;
    use crate::phone::PhoneRegion;

    fn refusal(text: &str) -> Option<&'static str> {
        check_public(text, PhoneRegion::RU).err().map(|invalid| invalid.code)
    }

    #[test]
    fn phone_number_is_found_in_any_spelling() {
        for text in [
            "+74951234567",
            "Звоните 8 (495) 123-45-67, Анна Иванова",
            "+7 [495] 123-45-67",
            "звоните +7(495)123-45-67 2021",
            "2020 8 495 123 45 67",
            "8 495 123 45 67 2020",
            "Лучший дом 2025, 89161234567",
            "a+b, ＋1 202 555 0123",
            "+44 20 7946 0018",
            "+7\u{2009}495 123\u{2212}45\u{2060}-67",
            "\u{202d}+7 495 123-45-67\u{202c}",
            "8\t(495)   123\n45  67",
            "8-800-555-35-35",
            "8.916.123.45.67",
            "(495) 123-45-67",
            "tel:+74951234567",
            "тел.84951234567",
            "8 495 1234567 доб. 12",
            "8 (495) 123-45-67/68",
            "+7 ４９５ １２３-４５-６７",
            "8\u{fe0f}\u{20e3}9\u{fe0f}\u{20e3}1\u{fe0f}\u{20e3}6\u{fe0f}\u{20e3}1234567",
        ] {
            assert_eq!(refusal(text), Some("personal_data"), "{text}");
        }
        let national = "(202) 555-0123";
        assert_eq!(refusal(national), None);
        assert!(check_public(national, "US".parse().unwrap()).is_err());
    }

    #[test]
    fn email_address_is_found_anywhere() {
        for text in [
            "anna@example.org",
            "Премия (anna.b+c@mail.example.co), 2020",
            "mailto:anna@example.org?subject=x",
            "<иван@пример.рф>",
            "серге\u{438}\u{306}@че\u{301}хия.рф",
            "Победитель—anna@example.org.",
            "anna@example.org...и другие",
            "anna@example.org-.2020",
            "anna\u{200b}＠example.org",
        ] {
            assert_eq!(refusal(text), Some("personal_data"), "{text}");
        }
    }

    #[test]
    fn secret_is_found_in_usual_forms() {
        for text in [
            "-----BEGIN RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq",
            concat!("eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"),
            "Authorization: Bearer mF_9.B5f-4.1JqM2cdd0vKQ",
            concat!("AKIA", "IOSFODNN7EXAMPLE"),
            concat!("wJalrXUtnFEMI/K7MDENG/", "bPxRfiCYEXAMPLEKEY"),
            concat!("sk_", "live_4eC39HqLyjWDarjtT1zdp7dc"),
            concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345"),
            concat!("glpat-", "0123456789abcdefghij"),
            concat!("xoxb-", "123456789012-abcdefghij"),
            concat!("AIza", "SyA0123456789abcdefghijABCDEFGHIJ012"),
            concat!("sk-proj-", "0123456789abcdefghij"),
            concat!("npm_", "0123456789abcdefghijABCDEFGHIJ012345"),
            concat!("123456789:", "AAF0123456789abcdefghijABCDEFGHIJ01"),
            "postgres://user:secret@db.example.org/x",
            "password=qwerty12",
            "Пароль: сосны2025",
            "d41d8cd98f00b204e9800998ecf8427e",
        ] {
            assert_eq!(refusal(text), Some("secret"), "{text}");
        }
    }

    #[test]
    fn harmless_text_is_accepted() {
        for text in [
            "",
            "@",
            "@home 2020",
            "Best @ Show",
            "№ 1 in 24/7 + more",
            "user@localhost",
            "a@b..c",
            "Green Zoom A+ (2021-2022-2023)",
            "5+ 2020-2021-2022",
            "ТОП 500+ 2020 2021 2022",
            "ESG+ 2022/2023/2024",
            "Class A+ 2015 - 2016 - 2017",
            "Urban Awards + 2013 2014 2015 2016",
            "Green+ 2012-2013-2014",
            "Top 100+ 2020",
            "8 место 2015, 2016, 2017",
            "Сделка на 12 500 000 руб.",
            "9 161 234 567 ₽ инвестиций",
            "Портфель 9 161 234 567 рублей",
            "150 000 м² в 2020–2023, 1200 м до метро",
            "9 161 234 567 м² жилья",
            "01.01.2020-31.12.2021",
            "2020-01-01 2021-12-31",
            "ОГРН 1027700132195, ИНН 7707083893",
            "550e8400-e29b-41d4-a716-446655440000",
            "https://example.org/Awards/2025/Best-Housing-Project-Of-The-Year-Moscow",
            "BestRealEstateDeveloperOfTheYear2025InMoscow",
            "Secret Garden: Elite 2025",
            "Token of Excellence 2025",
        ] {
            assert_eq!(refusal(text), None, "{text}");
        }
    }

    /// Numbers that are valid in Russia, in E.164.
    fn numbers() -> impl Strategy<Value = String> {
        prop_oneof!["\\+7495[1-9][0-9]{6}", "\\+7916[0-9]{7}", "\\+7800[1-9][0-9]{6}", "\\+1202555[0-9]{4}"]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn list_of_years_is_accepted(
            prefix in prop::sample::select(vec!["", "A+ ", "5+", "+", "ТОП 500+ ", "(", "№ 1 ", "8 "]),
            years in prop::collection::vec(1950_u16..2050, 1..6),
            separator in prop::sample::select(vec![" ", "-", "–", " - ", "/", ", ", ".", " / "]),
        ) {
            let years: Vec<_> = years.iter().map(u16::to_string).collect();
            let text = format!("{prefix}{}", years.join(separator));
            prop_assert_eq!(refusal(&text), None, "{}", text);
        }

        #[test]
        fn amount_with_a_unit_is_accepted(
            amount in 1_u64..1_000_000_000_000,
            space in prop::sample::select(vec![' ', '\u{a0}', '\u{202f}', '.', ',']),
            unit in prop::sample::select(vec!["₽", "руб.", "рублей", "RUB", "м²", "кв. м", "км"]),
        ) {
            let digits = amount.to_string();
            let grouped: String = digits.char_indices().flat_map(|(at, digit)| {
                let is_group = at > 0 && (digits.len() - at).is_multiple_of(3);
                is_group.then_some(space).into_iter().chain([digit])
            }).collect();
            let text = format!("Сделка: {grouped} {unit}");
            prop_assert_eq!(refusal(&text), None, "{}", text);
        }

        #[test]
        fn phone_number_is_found_with_separators_and_invisible_characters(
            number in numbers(),
            separators in prop::collection::vec(
                (2..12_usize, prop::sample::select(" -.\u{a0}\u{2009}\u{2011}\u{200b}\u{2060}\u{202c}".chars().collect::<Vec<_>>())),
                0..5,
            ),
            before in prop::sample::select(vec!["", "Звоните ", "2025 ", "A+ 2020-2021, ", "("]),
            after in prop::sample::select(vec!["", " Анна", ", 2025", ")", "!"]),
        ) {
            let mut written = String::new();
            for (at, c) in number.char_indices() {
                written.extend(separators.iter().find(|(position, _)| *position == at).map(|(_, c)| *c));
                written.push(c);
            }
            let text = format!("{before}{written}{after}");
            prop_assert_eq!(refusal(&text), Some("personal_data"), "{}", text);
        }

        #[test]
        fn any_text_is_checked_without_panic(
            text in "\\PC{0,64}|[a-z@.+0-9 ()/:=-]{0,64}|[+(0-9 /\\.-]{0,256}",
        ) {
            let _ = check_public(&text, PhoneRegion::RU);
        }
    }
}
