//! Search regardless of letter case and of the ways to encode a character.

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::props::{BinaryProperty, Dash};

use crate::visible::is_invisible;

/// Returns the form of a text that searches compare.
///
/// Texts have the same form if they differ in these respects only:
///
/// - letter case, as [`fold_case`] compares it, and `ё` or `е`;
/// - composed or decomposed letters, and compatibility variants such as full-width digits (NFKC);
/// - dashes of any kind, and white space of any kind and length;
/// - invisible characters, such as soft hyphens, and white space at the ends.
pub fn fold(text: &str) -> String {
    let decomposed = DecomposingNormalizerBorrowed::new_nfkd();
    let composed = ComposingNormalizerBorrowed::new_nfkc();
    let mut folded = String::with_capacity(text.len());
    for c in decomposed.normalize(&fold_case(&decomposed.normalize(text))).chars() {
        let is_yo = c == '\u{308}' && folded.ends_with('е');
        if is_yo || is_invisible(c) {
            continue;
        }
        if c.is_whitespace() {
            if !folded.is_empty() && !folded.ends_with(' ') {
                folded.push(' ');
            }
        } else {
            folded.push(if Dash::for_char(c) { '-' } else { c });
        }
    }
    composed.normalize(folded.trim_end()).into_owned()
}

/// Returns a form that is the same for all letter cases of a text.
///
/// `Σ`, `σ` and `ς` are one letter, and `ß` and `ẞ` equal `SS`. The first step converts to lower
/// case, since the upper case of `ẞ` is `ẞ` and not `SS`.
pub fn fold_case(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase);
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Returns the SQL `like` pattern for texts that contain `text`.
pub fn like_containing(text: &str) -> String {
    format!("%{}%", escape(text))
}

/// Returns the SQL `like` pattern for texts that begin with `text`.
pub fn like_prefix(text: &str) -> String {
    format!("{}%", escape(text))
}

/// Escapes `%`, `_` and `\`.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
    use proptest::prelude::*;

    use super::{fold, fold_case, like_containing, like_prefix};

    fn nfc(text: &str) -> String {
        ComposingNormalizerBorrowed::new_nfc().normalize(text).into_owned()
    }

    fn nfd(text: &str) -> String {
        DecomposingNormalizerBorrowed::new_nfd().normalize(text).into_owned()
    }

    proptest! {
        /// RULE-ALL-006: letter case is ignored in any script.
        #[test]
        fn letter_cases_of_a_text_fold_to_the_same(text in "\\PC{0,20}") {
            prop_assert_eq!(fold_case(&text.to_uppercase()), fold_case(&text));
            prop_assert_eq!(fold_case(&text.to_lowercase()), fold_case(&text));
            prop_assert_eq!(fold_case(&fold_case(&text)), fold_case(&text));
        }

        /// RULE-ALL-006: the encoding of a text has no effect on its folded form.
        #[test]
        fn normalization_forms_of_a_text_fold_to_the_same(
            text in "(\\PC|[ёйЁЙ\u{301}\u{306}\u{308}\u{345}\u{200b}\u{ad} \u{a0}\u{2011}ßΣς]){0,20}",
        ) {
            let folded = fold(&text);
            prop_assert_eq!(fold(&nfd(&text)), folded.clone());
            prop_assert_eq!(fold(&nfc(&text)), folded.clone());
            prop_assert_eq!(fold(&folded), folded.clone());
            prop_assert_eq!(fold(&format!("\u{200b} {text}\u{a0}\n")), folded.clone());
            prop_assert!(folded.trim() == folded && !folded.contains("  "));
        }

        /// RULE-ALL-006: letter case is ignored in any encoding of the letters.
        #[test]
        fn letter_cases_of_words_fold_to_the_same(text in "[a-zA-Zа-яА-ЯёЁ0-9 «»(),.-]{0,20}") {
            prop_assert_eq!(fold(&nfd(&text.to_uppercase())), fold(&text));
            prop_assert_eq!(fold(&nfd(&text.to_lowercase())), fold(&text));
        }
    }

    /// RULE-ALL-006: texts that look the same have the same folded form.
    #[test]
    fn texts_that_look_the_same_fold_to_the_same() {
        for (one, other) in [
            ("Жилой район", "Жилои\u{306} раи\u{306}он"),
            ("Ёлка", "елка"),
            ("Е\u{308}лка", "ЕЛКА"),
            ("бизнес\u{2011}класс", "бизнес-класс"),
            ("бизнес–класс", "Бизнес—класс"),
            ("5\u{2212}7", "5-7"),
            ("ООО\u{a0}Ромашка", "ооо ромашка"),
            ("ООО \u{2009} Ромашка", "ООО\tРомашка "),
            ("Ново\u{ad}стройка", "Ново\u{200b}стройка"),
            ("\u{202d}Север\u{202c}", "север"),
            ("ＡＢＣ１２", "abc12"),
            ("ﬁnal", "FINAL"),
            ("Straße", "STRASSE"),
        ] {
            assert_eq!(fold(one), fold(other), "{one} {other}");
        }
    }

    /// RULE-ALL-006: different letters and signs stay different.
    #[test]
    fn different_texts_fold_to_different_forms() {
        for (one, other) in [
            ("й", "и"),
            ("é", "e"),
            ("а", "a"),
            ("бизнес-класс", "бизнес класс"),
            ("«а»", "\"а\""),
            ("a b", "ab"),
        ] {
            assert_ne!(fold(one), fold(other));
        }
        assert_eq!(fold("ЖК «50%_\\»"), "жк «50%_\\»");
        assert_eq!(fold(" \u{200b}\u{a0} "), "");
    }

    /// RULE-ALL-006: letters of every script match in every case.
    #[test]
    fn letter_case_is_ignored_in_any_script() {
        for (one, other) in [
            ("РОМАШКА", "ромашка"),
            ("ΟΔΟΣ", "οδος"),
            ("Straße", "STRASSE"),
            ("STRAẞE", "Straße"),
            ("ՀԱՅ", "հայ"),
            ("Ⰰ", "ⰰ"),
        ] {
            assert_eq!(fold_case(one), fold_case(other));
            assert_eq!(fold(one), fold(other));
        }
    }

    #[test]
    fn wildcards_are_escaped() {
        assert_eq!(like_containing(r"50%_\"), r"%50\%\_\\%");
        assert_eq!(like_prefix("50%"), r"50\%%");
    }
}
